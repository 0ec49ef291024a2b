//! The application of option strings and maps to options, and their text forms.

use std::str::FromStr;
use std::sync::LazyLock;

use koeldb_base::{Error, Result};

use super::block_based::{BlockBasedOptions, MetadataCacheOptions};
use super::cache::CacheSettings;
use super::column_family::ColumnFamilyOptions;
use super::compaction::{
    CompressionOptions, FifoCompactionOptions, FileTemperatureAge, UniversalCompactionOptions,
};
use super::config::{ConfigOptions, IgnoredOption};
use super::cuckoo::CuckooTableOptions;
use super::db::{DbOptions, Options};
use super::grammar;
use super::memtable::{
    HashLinkListOptions, HashSkipListOptions, SkipListOptions, SortedHashOptions, VectorOptions,
};
use super::object::{CompactForTiering, CompactOnDeletion, SstPartitioner};
use super::plain::PlainTableOptions;
use super::registry::{self, OptionInfo, Reading, Refusal, Section, Style};
use super::sanitize;
use crate::report::SettingWithoutEffect;

impl Options {
    /// Sets options from a string `name=value;…`, all or none (RocksDB: `GetOptionsFromString`).
    ///
    /// An example is `max_open_files=500;write_buffer_size=64M;compression_opts={level=3;}`.
    ///
    /// ```
    /// use koeldb::{ConfigOptions, Options};
    ///
    /// let mut options = Options::new();
    /// options.apply_str("write_buffer_size=64M;max_open_files=500", &ConfigOptions::new())?;
    /// assert_eq!(options.get_max_open_files(), Some(500));
    /// # Ok::<(), koeldb::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the text is malformed, a name is unknown, or a value is invalid for its option, unless
    /// `how` says to ignore that.
    pub fn apply_str(&mut self, text: &str, how: &ConfigOptions) -> Result<&mut Self> {
        apply(self, grammar::pairs(text)?, how)?;
        Ok(self)
    }

    /// Sets options from pairs of name and value text, all or none.
    ///
    /// # Errors
    /// See [`Options::apply_str`].
    pub fn apply_map(
        &mut self,
        pairs: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>,
        how: &ConfigOptions,
    ) -> Result<&mut Self> {
        let pairs: Vec<_> = pairs.into_iter().collect();
        apply(self, borrowed(&pairs), how)?;
        Ok(self)
    }

    /// Returns all options as a string for [`Options::apply_str`].
    ///
    /// Plug-ins are named, caches are omitted.
    #[must_use]
    pub fn to_options_string(&self) -> String {
        let mut out = to_string(&self.db);
        out.push_str(&self.cf.to_options_string());
        out
    }

    /// Checks the options as an open does: each option alone and their combinations.
    ///
    /// # Errors
    /// One error that names every invalid option, its value, and the legal values.
    pub fn validate(&self) -> Result<()> {
        sanitize::check(&self.db, [("default", &self.cf)])
    }

    /// Returns the options set to other values than the default that have no effect.
    #[must_use]
    pub fn settings_without_effect(&self) -> Vec<SettingWithoutEffect> {
        let mut out = self.db.settings_without_effect();
        out.extend(self.cf.settings_without_effect("default"));
        out
    }

    /// Returns descriptions of all options.
    #[must_use]
    pub fn registry() -> &'static [OptionInfo] {
        static REGISTRY: LazyLock<Vec<OptionInfo>> = LazyLock::new(|| {
            let mut out = Vec::new();
            registry::describe::<DbOptions>(&mut out);
            registry::describe::<ColumnFamilyOptions>(&mut out);
            registry::describe::<CompressionOptions>(&mut out);
            registry::describe::<UniversalCompactionOptions>(&mut out);
            registry::describe::<FifoCompactionOptions>(&mut out);
            registry::describe::<FileTemperatureAge>(&mut out);
            registry::describe::<BlockBasedOptions>(&mut out);
            registry::describe::<MetadataCacheOptions>(&mut out);
            registry::describe::<PlainTableOptions>(&mut out);
            registry::describe::<CuckooTableOptions>(&mut out);
            registry::describe::<CacheSettings>(&mut out);
            registry::describe::<SkipListOptions>(&mut out);
            registry::describe::<VectorOptions>(&mut out);
            registry::describe::<HashSkipListOptions>(&mut out);
            registry::describe::<HashLinkListOptions>(&mut out);
            registry::describe::<SortedHashOptions>(&mut out);
            registry::describe::<SstPartitioner>(&mut out);
            registry::describe::<CompactOnDeletion>(&mut out);
            registry::describe::<CompactForTiering>(&mut out);
            out
        });
        &REGISTRY
    }
}

impl DbOptions {
    /// Returns the names and value texts of all database options.
    pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
        registry::written(self, Style::Full)
    }

    /// Returns the database options set to other values than the default that have no effect.
    pub(crate) fn settings_without_effect(&self) -> Vec<SettingWithoutEffect> {
        settings_without_effect(self, None)
    }
}

/// Lists the options of `source` that are set but have no effect in this engine.
fn settings_without_effect<S: Section>(
    source: &S,
    column_family: Option<&str>,
) -> Vec<SettingWithoutEffect> {
    let mut settings = Vec::new();
    registry::without_effect(source, "", &mut settings);
    settings
        .into_iter()
        .map(|(name, value)| SettingWithoutEffect {
            column_family: column_family.map(str::to_owned),
            name,
            value,
        })
        .collect()
}

impl FromStr for Options {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut options = Options::new();
        options.apply_str(text, &ConfigOptions::new())?;
        Ok(options)
    }
}

impl ColumnFamilyOptions {
    /// Sets column family options from a string, all or none; see [`Options::apply_str`].
    ///
    /// # Errors
    /// See [`Options::apply_str`].
    pub fn apply_str(&mut self, text: &str, how: &ConfigOptions) -> Result<&mut Self> {
        apply(self, grammar::pairs(text)?, how)?;
        Ok(self)
    }

    /// Sets column family options from pairs of name and value text, all or none.
    ///
    /// # Errors
    /// See [`Options::apply_str`].
    pub fn apply_map(
        &mut self,
        pairs: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>,
        how: &ConfigOptions,
    ) -> Result<&mut Self> {
        let pairs: Vec<_> = pairs.into_iter().collect();
        apply(self, borrowed(&pairs), how)?;
        Ok(self)
    }

    /// Returns the names and value texts of all options of the column family.
    pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
        registry::written(self, Style::Full)
    }

    /// Returns the options of the family `name` with other values than the default but no effect.
    pub(crate) fn settings_without_effect(&self, name: &str) -> Vec<SettingWithoutEffect> {
        settings_without_effect(self, Some(name))
    }

    /// Returns all options as a string for [`ColumnFamilyOptions::apply_str`].
    #[must_use]
    pub fn to_options_string(&self) -> String {
        to_string(self)
    }
}

/// Converts option names and values to `&str` pairs.
pub(crate) fn borrowed(pairs: &[(impl AsRef<str>, impl AsRef<str>)]) -> Vec<(&str, &str)> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_ref(), value.as_ref()))
        .collect()
}

/// A struct of options to which option strings can be applied.
pub(crate) trait Target: Clone {
    /// The name of the section that error messages give for options of this struct.
    const SECTION: &'static str;

    /// Sets the option `name` from its text.
    fn set(&mut self, name: &str, value: &str, reading: &mut Reading) -> Result<(), Refusal>;
}

/// Options of a database and a column family: a name goes to the struct that knows it.
///
/// A name that both know is a current option of the column family and a former database option.
impl Target for Options {
    const SECTION: &'static str = "Options";

    fn set(&mut self, name: &str, value: &str, reading: &mut Reading) -> Result<(), Refusal> {
        if registry::knows::<DbOptions>(name) {
            registry::set(&mut self.db, "", name, value, reading)
        } else if registry::knows::<ColumnFamilyOptions>(name)
            || !registry::was_removed::<DbOptions>(name)
        {
            registry::set(&mut self.cf, "", name, value, reading)
        } else {
            registry::set(&mut self.db, "", name, value, reading)
        }
    }
}

/// Sets all options of `pairs` or none; returns those that were ignored, as `how` permits.
pub(crate) fn apply<T: Target>(
    target: &mut T,
    pairs: Vec<(&str, &str)>,
    how: &ConfigOptions,
) -> Result<Vec<IgnoredOption>> {
    let mut reading = Reading::new(how);
    let mut changed = target.clone();
    for (name, value) in pairs {
        let outcome = changed.set(name, value, &mut reading);
        reading.tolerate(T::SECTION, name, value, outcome)?;
    }
    *target = changed;
    Ok(reading.ignored)
}

/// Prints all options as `name=value;`, the option string of RocksDB's `GetStringFrom…` functions.
fn to_string<S: Section>(source: &S) -> String {
    let mut out = String::new();
    for (name, text) in registry::written(source, Style::Full) {
        if !text.is_empty() {
            out.push_str(name);
            out.push('=');
            out.push_str(&grammar::protect(&text));
            out.push(';');
        }
    }
    out
}
