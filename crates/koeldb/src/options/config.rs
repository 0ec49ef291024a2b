//! How option texts are read, and what a load brought back.

use std::path::{Path, PathBuf};

use super::column_family::ColumnFamilyOptions;
use super::db::Options;

/// How option strings and OPTIONS files are read. All switches are off by default: what cannot be applied is an
/// error.
#[derive(Clone, Debug, Default)]
pub struct ConfigOptions {
    pub(crate) ignore_unknown_options: bool,
    pub(crate) ignore_unsupported_options: bool,
    pub(crate) apply_paths: bool,
    pub(crate) untrusted: bool,
}

impl ConfigOptions {
    /// Everything strict.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Skips names that nobody knows and values that cannot be read, and reports them as ignored. In an OPTIONS
    /// file unknown names are skipped only if a newer release wrote it.
    pub fn set_ignore_unknown_options(&mut self, on: bool) -> &mut Self {
        self.ignore_unknown_options = on;
        self
    }

    /// Keeps the previous object where an id names one that is not here (a plug-in the caller must set), and the
    /// default of options of which only the default is supported; both are reported as ignored.
    pub fn set_ignore_unsupported_options(&mut self, on: bool) -> &mut Self {
        self.ignore_unsupported_options = on;
        self
    }

    /// Applies the directories (`db_log_dir`, `wal_dir`) that an OPTIONS file names. Otherwise they are reported as
    /// ignored, so that a copied database never points back at its origin.
    pub fn set_apply_paths(&mut self, on: bool) -> &mut Self {
        self.apply_paths = on;
        self
    }

    /// Bounds an OPTIONS file, which anybody may have made, to 4 MiB instead of 256.
    pub fn set_untrusted(&mut self, on: bool) -> &mut Self {
        self.untrusted = on;
        self
    }
}

/// An option that was read and not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredOption {
    /// The section or struct it stood in: `DBOptions`, `CFOptions/compression_opts`.
    pub section: String,
    /// Its name.
    pub name: String,
    /// The text of its value.
    pub value: String,
    /// Why it was not applied.
    pub reason: String,
}

/// What an OPTIONS file says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedOptions {
    /// The database's options, with those of the default column family.
    pub options: Options,
    /// All column families by name, the default one first.
    pub column_families: Vec<(String, ColumnFamilyOptions)>,
    /// The file it was read from.
    pub file: PathBuf,
    /// What was not applied.
    pub ignored: Vec<IgnoredOption>,
}

impl LoadedOptions {
    /// The options of the column family called `name`.
    #[must_use]
    pub fn column_family(&self, name: &str) -> Option<&ColumnFamilyOptions> {
        self.column_families
            .iter()
            .find(|(family, _)| family == name)
            .map(|(_, options)| options)
    }

    /// The file it was read from.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }
}
