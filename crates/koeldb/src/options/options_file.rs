//! OPTIONS files: the options of a database, for tools and for later opens.
//!
//! ```text
//! # comment
//! [Version]
//!   rocksdb_version=11.9.0
//!   options_file_version=1.1
//!
//! [DBOptions]
//!   name=value
//!
//! [CFOptions "default"]
//!   name=value
//!
//! [TableOptions/BlockBasedTable "default"]
//!   name=value
//! ```
//!
//! Names that RocksDB 7.8 does not know are written only if the value is not the default, so that
//! tools of 7.8 to 11.9 can read the file as long as no newer option is used. Additions of KoelDB
//! are under `[Version]`, where every reader skips unknown names. A text is read back and compared
//! when a process writes it for the first time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use koeldb_base::file_name::{self, FileKind};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, Purpose, WriteOptions};

use super::apply::Target as _;
use super::column_family::ColumnFamilyOptions;
use super::config::{ConfigOptions, IgnoredOption, LoadedOptions, MendedOption};
use super::conversion::limits;
use super::db::{DbOptions, Options};
use super::grammar;
use super::mend::mend;
use super::object::OwnObjects;
use super::registry::{self, Reading, Refusal, Style};
use super::table_format::TableFormat;
use super::wal_dir::{self, WalDirectory};
use crate::env::Env;

/// The release of RocksDB whose option names this version knows and writes.
const ROCKSDB_VERSION: [u32; 3] = [11, 9, 0];
const DEFAULT_FAMILY: &str = "default";
/// Options that name directories.
const PATH_OPTIONS: [&str; 2] = ["db_log_dir", "wal_dir"];
/// Options that support only the default, false, and otherwise affect neither files nor results.
const SPEED_ONLY: [&str; 3] = [
    "allow_mmap_writes",
    "inplace_update_support",
    "persist_stats_to_disk",
];

/// Options that are names, and are not written when empty.
const NAMES: [&str; 4] = [
    "db_host_id",
    "comparator",
    "merge_operator",
    "prefix_extractor",
];

/// The parsed contents of an OPTIONS file.
#[derive(Debug, Default)]
pub(crate) struct ParsedFile {
    pub(crate) db: DbOptions,
    pub(crate) families: Vec<(String, ColumnFamilyOptions)>,
    pub(crate) ignored: Vec<IgnoredOption>,
    pub(crate) mended: Vec<MendedOption>,
}

/// The kind of the section whose lines are being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Version,
    Db,
    /// A column family, by its index in the list.
    Family(usize),
    Table(usize),
    /// A section that is skipped, because unknown sections are ignored.
    Skipped,
}

/// The state of the parser of an OPTIONS file: the current section and the options read so far.
struct Parser<'a> {
    how: &'a ConfigOptions,
    reading: Reading,
    file: ParsedFile,
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
    fn new(how: &'a ConfigOptions) -> Self {
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

    /// Parses lines; an error names the line by its number, from 1.
    fn lines(&mut self, text: &str) -> Result<()> {
        for (index, line) in text.split('\n').enumerate() {
            self.line(line).map_err(|refusal| {
                Error::from(refusal).context(format_args!("line {}", index.saturating_add(1)))
            })?;
        }
        Ok(())
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
    fn family_header(&mut self, name: String) -> Result<Part, Refusal> {
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

    /// The index of the column family with this name among those read.
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

    /// Checks a statement of the `Version` section, and compares releases with this engine's.
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

/// Returns the line up to an unescaped `#`.
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

/// Returns the sections that precede those of column families.
fn print_database(db: &DbOptions) -> String {
    let [major, minor, patch] = ROCKSDB_VERSION;
    let mut out = format!(
        "# This is a RocksDB option file.\n\
         #\n\
         # Written by KoelDB. Of options that RocksDB 7.8 does not know, those with their default are left out.\n\
         #\n\
         \n\
         [Version]\n  \
           rocksdb_version={major}.{minor}.{patch}\n  \
           options_file_version=1.1\n  \
           koeldb_version={}\n\
         \n\
         [DBOptions]\n",
        env!("CARGO_PKG_VERSION")
    );
    print_statements(&mut out, registry::written(db, Style::Portable));
    out
}

/// The sections of a column family, without its name. Clones share the text.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FamilyText {
    statements: Arc<str>,
    table_section: &'static str,
    table_statements: Arc<str>,
}

impl FamilyText {
    /// Prints the options of a column family and of its table format, as OPTIONS files have them.
    fn of(family: &ColumnFamilyOptions) -> Self {
        let statements = |written| {
            let mut out = String::new();
            print_statements(&mut out, written);
            out.into()
        };
        let table = &family.table_factory;
        FamilyText {
            statements: statements(registry::written(family, Style::Portable)),
            table_section: table.section(),
            table_statements: statements(table.written(Style::Portable)),
        }
    }

    /// Appends the sections of the column family `name`.
    pub(crate) fn append_to(&self, out: &mut String, name: &str) {
        let name = grammar::escape(name);
        header(out, ColumnFamilyOptions::SECTION, &name);
        out.push_str(&self.statements);
        header(out, self.table_section, &name);
        out.push_str(&self.table_statements);
    }
}

/// Returns the text of a file with these sanitized options; the default column family comes first.
#[cfg(test)]
pub(crate) fn print<'a>(
    db: &DbOptions,
    families: impl IntoIterator<Item = (&'a str, &'a ColumnFamilyOptions)>,
) -> String {
    let mut out = print_database(db);
    for (name, family) in families {
        FamilyText::of(family).append_to(&mut out, name);
    }
    out
}

/// Appends the header of a section with a column family's name.
fn header(out: &mut String, section: &str, name: &str) {
    for part in ["\n[", section, " \"", name, "\"]\n"] {
        out.push_str(part);
    }
}

/// Appends `name=value` lines; an option without a text is left out.
fn print_statements(out: &mut String, statements: Vec<(&'static str, String)>) {
    for (name, text) in statements {
        if !text.is_empty() {
            out.push_str("  ");
            out.push_str(name);
            out.push('=');
            out.push_str(&text);
            out.push('\n');
        }
    }
}

/// Returns the settings to read back a file just written: unsupported options pass, paths apply.
fn settings_of_checks() -> ConfigOptions {
    let mut how = ConfigOptions::new();
    how.set_ignore_unsupported_options(true)
        .set_apply_paths(true);
    how
}

/// Adds to an error that it concerns the OPTIONS file just written.
fn just_written(error: Error) -> Error {
    error.context("the OPTIONS file just written")
}

/// The texts that this process has most recently read back and verified, the newest first.
///
/// Reading back takes longer than the rest of the open of a small database, and most databases of a
/// process have the same options. A text leaves out only defaults, so it has one meaning.
static CHECKED: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// The maximum number of texts in [`CHECKED`].
const CHECKED_MAX: usize = 32;

/// Runs `check`, unless this process has checked the same text.
fn check_once(text: &str, check: impl FnOnce() -> Result<()>) -> Result<()> {
    let list = || CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    if list().iter().any(|known| known == text) {
        return Ok(());
    }
    check()?;
    let mut list = list();
    list.truncate(CHECKED_MAX.saturating_sub(1));
    list.push_front(text.to_owned());
    Ok(())
}

/// Prints the options of the database, reads the text back, and compares the results.
///
/// Objects without a text form are not compared.
///
/// # Errors
/// `Corruption` with the first option whose value differs.
pub(crate) fn checked_database(db: &DbOptions) -> Result<String> {
    let text = print_database(db);
    check_once(&text, || {
        let how = settings_of_checks();
        let mut parser = Parser::new(&how);
        parser.lines(&text).map_err(just_written)?;
        compare(
            DbOptions::SECTION,
            &registry::written(db, Style::Full),
            &registry::written(&parser.file.db, Style::Full),
            &parser.reading.ignored,
        )
    })?;
    Ok(text)
}

/// Prints the sections of a column family, reads the text back, and compares the results.
///
/// Objects are compared by their texts: those of the user by their names.
///
/// # Errors
/// `Corruption` with the first option whose value differs.
pub(crate) fn checked_family(name: &str, family: &ColumnFamilyOptions) -> Result<FamilyText> {
    let sections = FamilyText::of(family);
    let mut text = String::new();
    sections.append_to(&mut text, name);
    check_once(&text, || check_family(name, family, &text))?;
    Ok(sections)
}

/// Parses the sections of a column family, and compares its options with those printed.
fn check_family(name: &str, family: &ColumnFamilyOptions, text: &str) -> Result<()> {
    let how = settings_of_checks();
    let mut parser = Parser::new(&how);
    parser.reading.own = OwnObjects::of(family);
    if name != DEFAULT_FAMILY {
        // The first family of a file is the default one.
        parser.family_header(DEFAULT_FAMILY.to_owned())?;
    }
    parser.lines(text).map_err(just_written)?;
    let Some((read_name, read)) = parser.file.families.last() else {
        return Err(Error::corruption(
            "the OPTIONS file just written lacks a column family",
        ));
    };
    if read_name != name {
        return Err(Error::corruption(format!(
            "the OPTIONS file just written calls a column family \"{read_name}\" instead of \"{name}\""
        )));
    }
    compare(
        &format!("{} \"{name}\"", ColumnFamilyOptions::SECTION),
        &registry::written(family, Style::Full),
        &registry::written(read, Style::Full),
        &parser.reading.ignored,
    )
}

/// Prints the options, each part with its check.
///
/// # Errors
/// See [`checked_database`] and [`checked_family`].
#[cfg(test)]
pub(crate) fn print_checked(
    db: &DbOptions,
    families: &[(&str, &ColumnFamilyOptions)],
) -> Result<String> {
    let mut text = checked_database(db)?;
    for (name, family) in families {
        checked_family(name, family)?.append_to(&mut text, name);
    }
    Ok(text)
}

/// Compares printed texts with those read back; skips ignored options and empty object names.
fn compare(
    section: &str,
    meant: &[(&'static str, String)],
    said: &[(&'static str, String)],
    ignored: &[IgnoredOption],
) -> Result<()> {
    for ((name, meant), (_, said)) in meant.iter().zip(said) {
        let is_ignored = ignored
            .iter()
            .any(|option| option.section == section && option.name == *name);
        let is_empty_name = meant.is_empty() && NAMES.contains(name);
        if meant != said && !is_ignored && !is_empty_name {
            return Err(Error::corruption(format!(
                "[{section}] {name}={meant} reads back as {said}: the value has no text in OPTIONS files"
            )));
        }
    }
    Ok(())
}

/// Writes `OPTIONS-<number>` into `directory`: as a temporary file, which is synced and renamed.
///
/// # Errors
/// If the file system fails.
pub(crate) fn write(fs: &dyn FileSystem, directory: &Path, number: u64, text: &str) -> Result<()> {
    let temporary = directory.join(format!("OPTIONS-{number:06}.dbtmp"));
    let mut file = fs.create(&temporary, &WriteOptions::new(Purpose::Manifest))?;
    file.append(text.as_bytes())?;
    file.sync_all()?;
    file.close()?;
    fs.rename(&temporary, &file_name::options(directory, number))?;
    fs.sync_dir(directory)
}

/// Returns the newest OPTIONS file of a database directory.
///
/// # Errors
/// `NotFound` if there is none, or the file system fails.
pub(crate) fn latest(fs: &dyn FileSystem, directory: &Path) -> Result<PathBuf> {
    let newest = fs
        .list(directory)?
        .into_iter()
        .filter_map(|entry| match file_name::parse(&entry.name) {
            Some(FileKind::Options(number)) => Some((number, entry.name)),
            _ => None,
        })
        .max();
    match newest {
        Some((_, name)) => Ok(directory.join(name)),
        None => Err(Error::with_kind(
            ErrorKind::NotFound,
            format!(
                "no OPTIONS file in {}: open the database with options given in code, which writes one",
                directory.display()
            ),
        )),
    }
}

/// Reads an OPTIONS file.
///
/// # Errors
/// See [`parse`]; errors of the file system.
pub(crate) fn load(fs: &dyn FileSystem, file: &Path, how: &ConfigOptions) -> Result<LoadedOptions> {
    let bytes = fs.read_all(file, limits(how.untrusted).options_bytes, Purpose::Open)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::corruption("the OPTIONS file is not UTF-8 text"))
        .map_err(|error| error.in_file(file, None, "read"))?;
    let mut parsed = parse(&text, how).map_err(|error| error.in_file(file, None, "read"))?;
    mend(&mut parsed);
    find_logs(fs, file, how, &mut parsed);
    let cf = parsed
        .families
        .first()
        .map(|(_, options)| options.clone())
        .unwrap_or_default();
    Ok(LoadedOptions {
        options: Options {
            db: parsed.db,
            cf,
            mended: parsed.mended.clone(),
            ..Options::default()
        },
        column_families: parsed.families,
        file: file.to_owned(),
        ignored: parsed.ignored,
        mended: parsed.mended,
    })
}

/// Applies the recorded `wal_dir`, if certainly no other database uses that directory.
fn find_logs(fs: &dyn FileSystem, file: &Path, how: &ConfigOptions, parsed: &mut ParsedFile) {
    let is_log_directory =
        |option: &IgnoredOption| option.section == DbOptions::SECTION && option.name == "wal_dir";
    let Some(directory) = file.parent().filter(|_| !how.apply_paths && !how.untrusted) else {
        return;
    };
    let Some(at) = parsed.ignored.iter().position(is_log_directory) else {
        return;
    };
    let recorded = grammar::unescape(&parsed.ignored[at].value);
    match wal_dir::locate(fs, directory, &recorded) {
        WalDirectory::At(path) => {
            parsed.db.wal_dir = path.to_string_lossy().into_owned();
            parsed.ignored.remove(at);
        }
        WalDirectory::Unknown(reason) => parsed.ignored[at].reason = reason,
    }
}

impl Options {
    /// Reads the newest OPTIONS file of a database directory.
    ///
    /// # Errors
    /// `NotFound` if there is none; otherwise see [`Options::load_file`].
    pub fn load_latest(db: impl AsRef<Path>, how: &ConfigOptions) -> Result<LoadedOptions> {
        Self::load_latest_in(&Env::default(), db, how)
    }

    /// Reads the newest OPTIONS file of a database directory in the file system of `env`.
    ///
    /// # Errors
    /// See [`Options::load_latest`].
    pub fn load_latest_in(
        env: &Env,
        db: impl AsRef<Path>,
        how: &ConfigOptions,
    ) -> Result<LoadedOptions> {
        let fs = &**env.file_system();
        load(fs, &latest(fs, db.as_ref())?, how)
    }

    /// Reads an OPTIONS file of any release of RocksDB or KoelDB.
    ///
    /// # Errors
    /// `InvalidArgument` for unknown names and invalid values, and `NotSupported` for unavailable
    /// objects, unless `how` says to ignore that; `Corruption` if the file is not an OPTIONS file.
    pub fn load_file(file: impl AsRef<Path>, how: &ConfigOptions) -> Result<LoadedOptions> {
        load(&PosixFileSystem::new(), file.as_ref(), how)
    }

    /// Reads an OPTIONS file in the file system of `env`.
    ///
    /// # Errors
    /// See [`Options::load_file`].
    pub fn load_file_in(
        env: &Env,
        file: impl AsRef<Path>,
        how: &ConfigOptions,
    ) -> Result<LoadedOptions> {
        load(&**env.file_system(), file.as_ref(), how)
    }
}
