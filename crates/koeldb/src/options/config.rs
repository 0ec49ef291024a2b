//! Settings for reading option texts, and the results of loading.

use std::path::{Path, PathBuf};

use super::column_family::ColumnFamilyOptions;
use super::db::Options;

/// Settings for how option strings and OPTIONS files are read: which problems are errors.
///
/// All switches are off by default: an option that cannot be applied is an error.
#[derive(Clone, Debug, Default)]
pub struct ConfigOptions {
    pub(crate) ignore_unknown_options: bool,
    pub(crate) ignore_unsupported_options: bool,
    pub(crate) apply_paths: bool,
    pub(crate) untrusted: bool,
}

impl ConfigOptions {
    /// Creates the default settings, with which an option that cannot be applied is an error.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ignores and reports unknown names and unreadable values.
    ///
    /// In an OPTIONS file unknown names are ignored only if a newer release wrote it.
    ///
    /// Default: `false`.
    pub fn set_ignore_unknown_options(&mut self, on: bool) -> &mut Self {
        self.ignore_unknown_options = on;
        self
    }

    /// Ignores and reports objects and values that are not supported.
    ///
    /// An unknown object id (a plug-in that the caller must set) keeps the previous object, and an
    /// option whose default alone is supported keeps the default.
    pub fn set_ignore_unsupported_options(&mut self, on: bool) -> &mut Self {
        self.ignore_unsupported_options = on;
        self
    }

    /// Applies `db_log_dir` and `wal_dir` of an OPTIONS file, whatever directories they name.
    ///
    /// Otherwise `wal_dir` is applied only if it is certain that the database in the directory of
    /// the file uses it, and not one that it was copied from. Directories that are not applied are
    /// reported as ignored, and an open fails if logs are missing.
    ///
    /// Default: `false`.
    pub fn set_apply_paths(&mut self, on: bool) -> &mut Self {
        self.apply_paths = on;
        self
    }

    /// Limits an untrusted OPTIONS file to 4 MiB instead of 256 MiB.
    ///
    /// Default: `false`.
    pub fn set_untrusted(&mut self, on: bool) -> &mut Self {
        self.untrusted = on;
        self
    }
}

/// An option of a string or OPTIONS file that was not applied, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredOption {
    /// The section of the option or struct: `DBOptions`, `CFOptions/compression_opts`.
    pub section: String,
    /// The name of the option.
    pub name: String,
    /// The text of its value.
    pub value: String,
    /// The reason for ignoring it.
    pub reason: String,
}

impl std::fmt::Display for IgnoredOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let IgnoredOption {
            name,
            value,
            reason,
            ..
        } = self;
        // The reason is that of a refused call: with the option, and with advice to its caller.
        let stated = format!("{name}={value} is not supported: ");
        let reason = reason.strip_prefix(&stated).unwrap_or(reason);
        let reason = reason
            .strip_suffix("; leave the option out")
            .unwrap_or(reason);
        write!(f, "{name}={value} is not applied: {reason}")
    }
}

/// A value of an OPTIONS file that an open would reject, and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MendedOption {
    /// The section of the option: `CFOptions "default"`.
    pub section: String,
    /// The name of the option.
    pub name: String,
    /// The text of the value in the file.
    pub value: String,
    /// The text of the value in use.
    pub used: String,
    /// The values that an open accepts.
    pub reason: String,
}

impl std::fmt::Display for MendedOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MendedOption {
            section,
            name,
            value,
            used,
            reason,
        } = self;
        write!(f, "{name}={value} of [{section}] is {used} now: {reason}")
    }
}

/// The contents of an OPTIONS file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedOptions {
    /// The options of the database and of the default column family.
    pub options: Options,
    /// All column families by name, the default one first.
    pub column_families: Vec<(String, ColumnFamilyOptions)>,
    /// The OPTIONS file.
    pub file: PathBuf,
    /// Options that were not applied.
    pub ignored: Vec<IgnoredOption>,
    /// Values that RocksDB writes and an open would reject; they were replaced.
    pub mended: Vec<MendedOption>,
}

impl LoadedOptions {
    /// Returns the options of the column family `name`.
    #[must_use]
    pub fn column_family(&self, name: &str) -> Option<&ColumnFamilyOptions> {
        self.column_families
            .iter()
            .find(|(family, _)| family == name)
            .map(|(_, options)| options)
    }

    /// Returns the path of the OPTIONS file that was read.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }
}
