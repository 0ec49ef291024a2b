//! `doctor`: examines a directory without opening the database, and says what to do.
//!
//! - [`Finding`]: a fact, how grave it is, and the advice. `files`: what the MANIFEST, the tables and
//!   the logs show. `options`: settings that often disappoint.

mod files;
mod options;

use std::path::Path;

use koeldb_lsm::DataPaths;

use super::args::{Doctor, Global};
use super::database::{Settings, directory, log_directory, open_to_read};
use super::manifest::{ManifestState, current_state, only_state};
use super::output::Output;
use super::tree::Tree;
use super::{Failure, Outcome};
use crate::json::Json;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// Data is damaged or missing.
    Error,
    /// Reads, writes or space suffer.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// A problem or remark that `doctor` found: its check, message and advice.
struct Finding {
    severity: Severity,
    /// The check that found it: one word.
    check: &'static str,
    message: String,
    advice: &'static str,
}

/// The findings of `doctor` so far, and the numbers of tables, entries and logs examined.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
    families: u64,
    tables: u64,
    table_bytes: u64,
    entries: u64,
    blob_files: u64,
    blob_bytes: u64,
    logs: u64,
}

impl Report {
    fn add(
        &mut self,
        severity: Severity,
        check: &'static str,
        message: String,
        advice: &'static str,
    ) {
        self.findings.push(Finding {
            severity,
            check,
            message,
            advice,
        });
    }

    /// Adds a finding of severity *error*.
    fn error(&mut self, check: &'static str, message: String, advice: &'static str) {
        self.add(Severity::Error, check, message, advice);
    }

    /// Adds a finding of severity *warning*.
    fn warning(&mut self, check: &'static str, message: String, advice: &'static str) {
        self.add(Severity::Warning, check, message, advice);
    }

    /// Adds a finding of severity *note*.
    fn note(&mut self, check: &'static str, message: String, advice: &'static str) {
        self.add(Severity::Note, check, message, advice);
    }

    /// Returns the number of findings of this severity.
    fn count(&self, severity: Severity) -> u64 {
        let of_severity = self
            .findings
            .iter()
            .filter(|found| found.severity == severity);
        of_severity.map(|_| 1).sum()
    }

    /// Prints the findings and the numbers of what was examined.
    fn print(&self, out: &mut Output) -> Outcome {
        for finding in &self.findings {
            let (severity, check) = (finding.severity.name(), finding.check);
            if out.json {
                let mut json = Json::object();
                json.set("severity", severity)
                    .set("check", check)
                    .set("message", &finding.message)
                    .set("advice", finding.advice);
                out.object(json)?;
            } else {
                out.line(&format!("{severity}: {check}: {}", finding.message))?;
                out.line(&format!("    {}", finding.advice))?;
            }
        }
        let counts = [Severity::Error, Severity::Warning, Severity::Note]
            .map(|severity| self.count(severity));
        let [errors, warnings, notes] = counts;
        if out.json {
            let mut json = Json::object();
            json.set("column_families", self.families)
                .set("tables", self.tables)
                .set("table_bytes", self.table_bytes)
                .set("entries", self.entries)
                .set("blob_files", self.blob_files)
                .set("blob_bytes", self.blob_bytes)
                .set("logs", self.logs)
                .set("errors", errors)
                .set("warnings", warnings)
                .set("notes", notes);
            return out.object(json);
        }
        let blobs = match self.blob_files {
            0 => String::new(),
            files => format!(", blob files: {files} in {} bytes", self.blob_bytes),
        };
        out.line(&format!(
            "column families: {}, tables: {} with {} entries in {} bytes{blobs}, logs: {}; errors: {errors}, warnings: {warnings}, notes: {notes}",
            self.families, self.tables, self.entries, self.table_bytes, self.logs
        ))
    }
}

/// Runs `doctor`: checks a database's files, levels, logs and options, and prints findings.
///
/// # Errors
/// If there is a finding of severity *error*, after all findings are printed.
pub(super) fn examine(global: &Global, flags: &Doctor, out: &mut Output) -> Outcome {
    let path = directory(global)?;
    let mut report = Report::default();
    match current_state(&path) {
        Ok(state) => {
            examine_state(global, &path, &state, flags, &mut report)?;
            // Records with matching checksums may be refused: only a replay shows that.
            // It needs the directories of the tables, which no option of ours names.
            if report.logs > 0
                && flags.db_paths.is_empty()
                && report.count(Severity::Error) == 0
                && let Err(Failure::Message(message)) = open_to_read(global)
            {
                report.error(
                    "log",
                    message,
                    "The next open fails too, and changes nothing: the message says how to go on.",
                );
            }
        }
        Err(Failure::Message(message)) => {
            let is_whole = match only_state(&path) {
                Ok(Some(state)) => {
                    examine_state(global, &path, &state, flags, &mut report)?;
                    report.count(Severity::Error) == 0
                }
                Ok(None) | Err(Failure::Message(_)) => false,
                Err(failure) => return Err(failure),
            };
            report.error(
                "manifest",
                format!("CURRENT or the MANIFEST cannot be read: {message}"),
                if is_whole { REPAIR_KEEPS_ALL } else { REPAIR },
            );
        }
        Err(failure) => return Err(failure),
    }
    report.findings.sort_by_key(|finding| finding.severity);
    report.print(out)?;
    match report.count(Severity::Error) {
        0 => Ok(()),
        errors => Err(Failure::Message(format!("{errors} errors were found"))),
    }
}

const REPAIR_KEEPS_ALL: &str = "Run `ldb repair`: it keeps everything, since the only MANIFEST, its tables and the logs are whole.";

const REPAIR: &str =
    "Restore a backup; without one, `ldb repair` rebuilds the MANIFEST from the tables.";

/// Checks files, levels, logs and options of a database whose MANIFEST could be read.
fn examine_state(
    global: &Global,
    path: &Path,
    state: &ManifestState,
    flags: &Doctor,
    report: &mut Report,
) -> Outcome {
    let settings = match Settings::load(global, path) {
        Ok(settings) => {
            options::examine_database(&settings.options, report);
            Some(settings)
        }
        Err(Failure::Message(message)) => {
            report.error(
                "options",
                format!("the newest OPTIONS file cannot be read: {message}"),
                "Give the options in code; the next open writes a new OPTIONS file.",
            );
            None
        }
        Err(failure) => return Err(failure),
    };
    let mut trees = Vec::new();
    for (&id, family) in &state.families {
        report.families += 1;
        let options = settings
            .as_ref()
            .map(|settings| settings.of_family(&family.name));
        let paths = DataPaths::of(&flags.db_paths).unwrap_or_else(|| DataPaths::single(path));
        match Tree::open_in(paths, id, family, options) {
            Ok(tree) => {
                if let Some(options) = options {
                    options::examine_family(&tree, options, report);
                }
                files::examine_tables(&tree, !flags.skip_checksums, report);
                files::examine_blob_files(&tree, !flags.skip_checksums, report);
                trees.push(tree);
            }
            Err(Failure::Message(message)) => report.error(
                "manifest",
                format!("column family \"{}\": {message}", family.name),
                "Its tables were not examined. A comparator of the application is only known to it: run verify_checksums there.",
            ),
            Err(failure) => return Err(failure),
        }
    }
    let logs = match &settings {
        Some(settings) => log_directory(&settings.options, path),
        None => path,
    };
    files::examine_logs(logs, &trees, report)?;
    let own = [path.to_owned()];
    let directories = match flags.db_paths.is_empty() {
        true => &own[..],
        false => &flags.db_paths[..],
    };
    for directory in directories {
        files::examine_directory(directory, &trees, report)?;
    }
    Ok(())
}
