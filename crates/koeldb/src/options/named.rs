//! Access to one option by its name, for bindings and programs whose options are texts.

use koeldb_base::{Error, Result};

use super::apply::{Target, apply};
use super::config::ConfigOptions;
use super::db::DbOptions;
use super::registry::{self, Section, Style};
use super::{
    BlockBasedOptions, ColumnFamilyOptions, CompressionOptions, CuckooTableOptions,
    FifoCompactionOptions, Options, PlainTableOptions, UniversalCompactionOptions, grammar,
};

/// Returns the text of an option, or of a member of a nested struct: `name.member`.
fn text<S: Section>(source: &S, name: &str) -> Result<String> {
    let (head, member) = match name.split_once('.') {
        Some((head, member)) => (head, Some(member)),
        None => (name, None),
    };
    let rows = S::rows();
    let row = rows.iter().find(|row| row.name == head);
    let unknown = || Error::invalid_argument(format!("Unrecognized option: {name}"));
    let text = (row.ok_or_else(unknown)?.write)(source, Style::Full).unwrap_or_default();
    let Some(member) = member else {
        return Ok(text);
    };
    let members = grammar::pairs(grammar::strip_outer_braces(&text))?;
    let mut members = members.into_iter();
    let found = members.find(|(name, _)| *name == member);
    Ok(found.ok_or_else(unknown)?.1.to_owned())
}

macro_rules! named {
    ($($Type:ident),* $(,)?) => {$(
        impl $Type {
            /// Sets an option from a text, or a member of a nested struct: `name.member`.
            ///
            /// Every other option keeps its default.
            ///
            /// # Errors
            /// If the name is unknown or the text is not a value of the option.
            pub fn set_by_name(&mut self, name: &str, value: &str) -> Result<&mut Self> {
                apply(self, vec![(name, value)], &ConfigOptions::new())?;
                Ok(self)
            }

            /// Returns the value of an option as an OPTIONS file has it.
            ///
            /// # Errors
            /// If the name is unknown.
            pub fn get_by_name(&self, name: &str) -> Result<String> {
                text(self, name)
            }
        }
    )*};
}

named!(
    ColumnFamilyOptions,
    BlockBasedOptions,
    CompressionOptions,
    CuckooTableOptions,
    FifoCompactionOptions,
    PlainTableOptions,
    UniversalCompactionOptions,
);

impl Options {
    /// Sets an option from a text, or a member of a nested struct; what is not set has its default.
    ///
    /// ```
    /// let mut options = koeldb::Options::new();
    /// options.set_by_name("compression_opts.level", "3")?;
    /// assert_eq!(options.get_by_name("compression_opts.level")?, "3");
    /// # Ok::<(), koeldb::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the name is unknown or the text is not a value of the option.
    pub fn set_by_name(&mut self, name: &str, value: &str) -> Result<&mut Self> {
        apply(self, vec![(name, value)], &ConfigOptions::new())?;
        Ok(self)
    }

    /// Returns the value of an option as an OPTIONS file has it.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn get_by_name(&self, name: &str) -> Result<String> {
        match registry::knows::<DbOptions>(name) {
            true => text(&self.db, name),
            false => text(&self.cf, name),
        }
    }
}

impl<S: Section> Target for S {
    const SECTION: &'static str = S::NAME;

    fn set(
        &mut self,
        name: &str,
        value: &str,
        reading: &mut registry::Reading,
    ) -> std::result::Result<(), registry::Refusal> {
        registry::set(self, "", name, value, reading)
    }
}
