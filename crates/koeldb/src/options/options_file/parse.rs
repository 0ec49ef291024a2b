//! Parses OPTIONS files.

use koeldb_base::{Error, Result};

use super::ROCKSDB_VERSION;
use crate::options::apply::Target as _;
use crate::options::column_family::ColumnFamilyOptions;
use crate::options::config::{ConfigOptions, IgnoredOption, MendedOption};
use crate::options::db::DbOptions;
use crate::options::grammar;
use crate::options::registry::{self, Reading, Refusal, RefusalKind};
use crate::options::table_format::TableFormat;

pub(super) const DEFAULT_FAMILY: &str = "default";
/// Options that name directories.
const PATH_OPTIONS: [&str; 2] = ["db_log_dir", "wal_dir"];
/// Options that support only the default, false, and otherwise affect neither files nor results.
const SPEED_ONLY: [&str; 2] = ["inplace_update_support", "persist_stats_to_disk"];

/// The parsed contents of an OPTIONS file.
#[derive(Debug, Default)]
pub(crate) struct ParsedFile {
    pub(crate) db: DbOptions,
    pub(crate) families: Vec<(String, ColumnFamilyOptions)>,
    pub(crate) ignored: Vec<IgnoredOption>,
    pub(crate) mended: Vec<MendedOption>,
}

/// The kind of the section of an OPTIONS file that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Version,
    Db,
    /// A column family, by its index in the list.
    Family(usize),
    Table(usize),
    /// A section that is skipped, because unknown sections are ignored.
    Skipped,
}

/// The state of the parser of an OPTIONS file: the current section and the options read so far.
pub(super) struct Parser<'a> {
    how: &'a ConfigOptions,
    pub(super) reading: Reading,
    pub(super) file: ParsedFile,
    part: Option<Part>,
    /// Names already seen in this section: the first occurrence of a name wins.
    met: Vec<String>,
    seen_version: bool,
    seen_db: bool,
    /// Whether the file may be from a release newer than this one.
    may_be_newer: bool,
}

/// Parses the text of an OPTIONS file.
///
/// # Errors
/// `InvalidArgument` for malformed or unknown parts, `Corruption` if a section is missing.
pub(crate) fn parse(text: &str, how: &ConfigOptions) -> Result<ParsedFile> {
    let mut parser = Parser::new(how);
    parser.lines(text)?;
    parser.finish()
}

impl<'a> Parser<'a> {
    pub(super) fn new(how: &'a ConfigOptions) -> Self {
        Parser {
            how,
            reading: Reading::new(how),
            file: ParsedFile::default(),
            part: None,
            met: Vec::new(),
            seen_version: false,
            seen_db: false,
            may_be_newer: true,
        }
    }

    /// Parses the lines of an OPTIONS file; an error names the line by its number, from 1.
    pub(super) fn lines(&mut self, text: &str) -> Result<()> {
        for (index, line) in text.split('\n').enumerate() {
            self.line(line).map_err(|refusal| {
                let advice = self.advice(refusal.kind);
                let error = Error::from(refusal).with_advice(advice);
                error.context(format_args!("line {}", index.saturating_add(1)))
            })?;
        }
        Ok(())
    }

    /// Returns what to do about a line that cannot be applied.
    fn advice(&self, kind: RefusalKind) -> &'static str {
        match kind {
            RefusalKind::Unsupported => {
                "set the option in code and skip it here, with \
                 ConfigOptions::set_ignore_unsupported_options"
            }
            RefusalKind::UnknownName | RefusalKind::Invalid if self.may_be_newer => {
                "a newer release may have written the file: skip its new options, with \
                 ConfigOptions::set_ignore_unknown_options"
            }
            RefusalKind::UnknownName | RefusalKind::Invalid => "correct or remove the line",
        }
    }

    /// Parses one line: a blank or comment, a section header, or a `name=value` statement.
    fn line(&mut self, line: &str) -> Result<(), Refusal> {
        let line = grammar::trim(without_comment(line));
        if line.is_empty() {
            return Ok(());
        }
        if let Some(header) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            self.met.clear();
            let part = self.header(header)?;
            self.part = Some(part);
            return Ok(());
        }
        let Some((name, value)) = line.split_once('=') else {
            return Err(Refusal::invalid(format!(
                "a statement is of the form name=value, and \"{line}\" has no '='"
            )));
        };
        let (name, value) = (grammar::trim(name), grammar::trim(value));
        if name.is_empty() {
            return Err(Refusal::invalid(format!(
                "a statement is of the form name=value, and \"{line}\" has no name"
            )));
        }
        if self.met.iter().any(|met| met == name) {
            return Ok(());
        }
        self.met.push(name.to_owned());
        self.statement(name, value)
    }

    /// Parses the header of a section, without its brackets, and returns the kind of the section.
    fn header(&mut self, header: &str) -> Result<Part, Refusal> {
        let (title, argument) = match (header.find('"'), header.rfind('"')) {
            (Some(start), Some(end)) if start < end => (
                header.get(..start).unwrap_or_default(),
                header
                    .get(start.saturating_add(1)..end)
                    .map(grammar::unescape)
                    .unwrap_or_default(),
            ),
            _ => (header, String::new()),
        };
        let title = grammar::trim(title);
        match title {
            "Version" => {
                if std::mem::replace(&mut self.seen_version, true) {
                    return Err(Refusal::invalid("More than one Version section found"));
                }
                Ok(Part::Version)
            }
            "DBOptions" => {
                if std::mem::replace(&mut self.seen_db, true) {
                    return Err(Refusal::invalid("More than one DBOptions section found"));
                }
                Ok(Part::Db)
            }
            "CFOptions" => self.family_header(argument),
            _ => match title.strip_prefix("TableOptions/") {
                Some(factory) => self.table_header(title, factory, &argument),
                None => Err(Refusal::invalid(format!(
                    "Unknown section [{title}]; there are Version, DBOptions, CFOptions and TableOptions/FACTORY"
                ))),
            },
        }
    }

    /// Begins a `CFOptions` section with default options; the family `default` must come first.
    pub(super) fn family_header(&mut self, name: String) -> Result<Part, Refusal> {
        if (name == DEFAULT_FAMILY) != self.file.families.is_empty() {
            return Err(Refusal::invalid(format!(
                "Default column family must be the first CFOptions section, and the only one of its name; \
                 [CFOptions \"{name}\"] is out of place"
            )));
        }
        if self.find_family(&name).is_some() {
            return Err(Refusal::invalid(format!(
                "Two identical column families found: \"{name}\""
            )));
        }
        self.file
            .families
            .push((name, ColumnFamilyOptions::default()));
        Ok(Part::Family(self.file.families.len().saturating_sub(1)))
    }

    /// Begins a `TableOptions/FACTORY` section, after the `CFOptions` section of the same family.
    fn table_header(&mut self, title: &str, factory: &str, name: &str) -> Result<Part, Refusal> {
        let Some(index) = self.find_family(name) else {
            return Err(Refusal::invalid(format!(
                "Does not find a matched column family name in TableOptions section. Column Family Name: {name}"
            )));
        };
        if let Some(format) = TableFormat::by_id(factory) {
            if let Some((_, family)) = self.file.families.get_mut(index) {
                family.table_factory = format;
            }
            return Ok(Part::Table(index));
        }
        let outcome = Err(Refusal::unsupported(format!(
            "Could not load TableFactory: {factory} (family \"{name}\"); built in are BlockBasedTable, CuckooTable, \
             PlainTable"
        )));
        self.reading.tolerate(title, "id", factory, outcome)?;
        Ok(Part::Skipped)
    }

    /// Returns the index of the column family `name` among those read so far.
    fn find_family(&self, name: &str) -> Option<usize> {
        self.file
            .families
            .iter()
            .position(|(known, _)| known == name)
    }

    /// Sets an option of the current section, or records why it was ignored or replaced.
    fn statement(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        self.reading.ignore_unknown = self.how.ignore_unknown_options && self.may_be_newer;
        let (section, outcome) = match self.part {
            None | Some(Part::Skipped) => return Ok(()),
            Some(Part::Version) => return self.version(name, value),
            Some(Part::Db) => {
                if PATH_OPTIONS.contains(&name) && !self.how.apply_paths {
                    self.reading.ignored.push(IgnoredOption {
                        section: DbOptions::SECTION.to_owned(),
                        name: name.to_owned(),
                        value: value.to_owned(),
                        reason: "directories in a file are applied only with set_apply_paths(true)"
                            .to_owned(),
                    });
                    return Ok(());
                }
                (
                    DbOptions::SECTION.to_owned(),
                    self.file.db.set(name, value, &mut self.reading),
                )
            }
            Some(Part::Family(index) | Part::Table(index)) => {
                let Some((family, options)) = self.file.families.get_mut(index) else {
                    return Ok(());
                };
                if self.part == Some(Part::Family(index)) {
                    (
                        format!("{} \"{family}\"", ColumnFamilyOptions::SECTION),
                        options.set(name, value, &mut self.reading),
                    )
                } else {
                    let section = format!("{} \"{family}\"", options.table_factory.section());
                    let table = options.table_factory.options_mut();
                    let outcome =
                        table.read_member("table_factory", name, value, &mut self.reading);
                    (section, outcome)
                }
            }
        };
        if outcome.is_err() && value == "true" && SPEED_ONLY.contains(&name) {
            self.file.mended.push(MendedOption {
                section,
                name: name.to_owned(),
                value: value.to_owned(),
                used: "false".to_owned(),
                reason: "the engine works another way, and reads and writes the same files"
                    .to_owned(),
            });
            return Ok(());
        }
        if let Err(refusal) = &outcome
            && (registry::was_renamed::<DbOptions>(name)
                || registry::was_renamed::<ColumnFamilyOptions>(name))
        {
            // A file of an older release, whose other options are as good.
            self.reading.ignored.push(IgnoredOption {
                section,
                name: name.to_owned(),
                value: value.to_owned(),
                reason: refusal.message.clone(),
            });
            return Ok(());
        }
        self.reading.tolerate(&section, name, value, outcome)
    }

    /// Reads a statement of the `Version` section, and notes if a newer release wrote the file.
    fn version(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match name {
            "rocksdb_version" => {
                self.may_be_newer = version_number(name, value)? > ROCKSDB_VERSION;
            }
            "koeldb_version" => {
                let ours = version_number(name, env!("CARGO_PKG_VERSION"))?;
                self.may_be_newer |= version_number(name, value)? > ours;
                // The engine writes no nicknames, so an object with such a name is the user's.
                self.reading.recorded_names = true;
            }
            "options_file_version" if version_number(name, value)? < [1, 0, 0] => {
                return Err(Refusal::invalid(format!(
                    "options_file_version={value} is not supported; it must be 1.0 or newer"
                )));
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that the required sections were present, and returns the contents.
    fn finish(self) -> Result<ParsedFile> {
        if !self.seen_db {
            return Err(Error::corruption(
                "A RocksDB Option file must have a single DBOptions section",
            ));
        }
        if self.file.families.is_empty() {
            return Err(Error::corruption(
                "A RocksDB Option file must have a single CFOptions:default section",
            ));
        }
        let mut file = self.file;
        file.ignored = self.reading.ignored;
        Ok(file)
    }
}

/// Returns the line without its comment, which begins at an unescaped `#`.
fn without_comment(line: &str) -> &str {
    let mut escaped = false;
    for (at, byte) in line.bytes().enumerate() {
        if byte == b'#' && !escaped {
            return line.get(..at).unwrap_or(line);
        }
        escaped = byte == b'\\';
    }
    line
}

/// Parses one to three numbers separated by dots.
fn version_number(name: &str, text: &str) -> Result<[u32; 3], Refusal> {
    let mut numbers = [0; 3];
    let mut parts = text.split('.');
    let mut is_number = true;
    for number in &mut numbers {
        match parts.next().map(str::parse) {
            Some(Ok(part)) => *number = part,
            Some(Err(_)) => is_number = false,
            None => break,
        }
    }
    if is_number && parts.next().is_none() && text.bytes().all(|byte| byte != b'+') {
        Ok(numbers)
    } else {
        Err(Refusal::invalid(format!(
            "{name}={text} is not a version: it must have at most three numbers separated by dots"
        )))
    }
}
