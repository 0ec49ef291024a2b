//! The header of LOG: the release, the files of the directory, and all options, in RocksDB's form.

use std::fmt::Write as _;
use std::path::Path;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_lsm::version::VersionSet;

use super::Opening;
use crate::options::log_lines::{self, NAME_WIDTH};
use crate::options::wal_dir;
use crate::state::info_log::{InfoLog, RECOVERY_JOB};

/// The number of tables that are named.
const TABLES_MAX: usize = 9;

impl Opening {
    /// Returns the header lines of LOG: session, files, and all options.
    pub(super) fn summary(&self, session_id: &str, versions: &VersionSet) -> Vec<String> {
        let mut lines = vec![
            format!(
                "KoelDB {} opened {} (session {session_id})",
                env!("CARGO_PKG_VERSION"),
                self.path.display(),
            ),
            "DB SUMMARY".to_owned(),
            format!("DB Session ID:  {session_id}"),
        ];
        lines.extend(self.files(versions));
        let name = wal_dir::WAL_DIR_LINE;
        lines.push(format!(
            "{name:>width$}{}",
            self.db.wal_dir,
            width = NAME_WIDTH + 2
        ));
        let others = self.db.texts().into_iter();
        for (name, text) in others.filter(|(name, _)| *name != "wal_dir") {
            log_lines::push_option(&mut lines, name, &text);
        }
        let families = self.families.iter();
        lines.extend(log_lines::of_families(
            families.map(|(family, options)| (family.as_str(), options)),
        ));
        lines.extend(log_lines::of_build());
        lines
    }

    /// Returns the LOG lines that list the CURRENT, MANIFEST, table and WAL files.
    fn files(&self, versions: &VersionSet) -> Vec<String> {
        let manifest = versions.manifest_number();
        let mut lines = vec!["CURRENT file:  CURRENT".to_owned()];
        let path = file_name::manifest(&self.path, manifest);
        if let Ok(metadata) = self.fs.metadata(&path) {
            lines.push(format!(
                "MANIFEST file:  MANIFEST-{manifest:06} size: {} Bytes",
                metadata.len
            ));
        }
        let tables: Vec<FileNumber> = versions
            .families()
            .flat_map(|family| family.current().files().map(|(_, file)| file.number))
            .collect();
        let mut named = String::new();
        for number in tables.iter().take(TABLES_MAX) {
            let _ = write!(named, "{number:06}.sst ");
        }
        lines.push(format!(
            "SST files in {} dir, Total Num: {}, files: {named}",
            self.path.display(),
            tables.len()
        ));
        lines.push(format!(
            "Write Ahead Log file in {}: {}",
            self.wal_dir.display(),
            self.logs(&self.wal_dir)
        ));
        lines
    }

    /// Returns the names and sizes in bytes of the logs in `directory`, as text.
    fn logs(&self, directory: &Path) -> String {
        let mut text = String::new();
        for entry in self.fs.list(directory).unwrap_or_default() {
            if let Some(FileKind::Wal(_)) = file_name::parse(&entry.name) {
                let bytes = self.fs.metadata(&directory.join(&entry.name));
                let bytes = bytes.map_or(0, |metadata| metadata.len);
                let _ = write!(text, "{} size: {bytes} ; ", entry.name);
            }
        }
        text
    }
}

/// Writes the event that ends recovery to LOG; if it failed, also the error as text.
pub(super) fn log_recovery_end(log: &InfoLog, outcome: Result<(), &koeldb_base::Error>) {
    let (event, status) = match outcome {
        Ok(()) => ("recovery_finished", "OK".to_owned()),
        Err(error) => {
            log.error(format_args!("recovery failed: {error}"));
            ("recovery_failed", error.to_string())
        }
    };
    log.log_event(log.event(Some(RECOVERY_JOB), event).text("status", &status));
}
