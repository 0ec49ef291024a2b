//! Table factories: the format of new table files, and its options.

use super::block_based::BlockBasedOptions;
use super::cuckoo::CuckooTableOptions;
use super::object::{Description, set_members, unknown_id, with_members};
use super::plain::PlainTableOptions;
use super::registry::{self, OptionValue, Reading, Refusal, Section, Settings, Style};

/// The format of new table files.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TableFormat {
    /// Block-based: sorted blocks under an index. The default.
    BlockBased(BlockBasedOptions),
    /// Cuckoo: a hash table of fixed-size entries.
    Cuckoo(CuckooTableOptions),
    /// Plain: records without blocks under a prefix hash index.
    Plain(PlainTableOptions),
}

impl Default for TableFormat {
    fn default() -> Self {
        TableFormat::BlockBased(BlockBasedOptions::default())
    }
}

impl TableFormat {
    /// The name of the format in OPTIONS files: `BlockBasedTable`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            TableFormat::BlockBased(_) => "BlockBasedTable",
            TableFormat::Cuckoo(_) => "CuckooTable",
            TableFormat::Plain(_) => "PlainTable",
        }
    }

    /// Returns the table format with this name, with default options; `None` if unknown.
    pub(crate) fn by_id(id: &str) -> Option<Self> {
        Some(match id {
            "BlockBasedTable" => TableFormat::default(),
            "CuckooTable" => TableFormat::Cuckoo(CuckooTableOptions::default()),
            "PlainTable" => TableFormat::Plain(PlainTableOptions::default()),
            _ => return None,
        })
    }

    /// The options of block-based tables, if this is the format.
    #[must_use]
    pub fn block_based(&self) -> Option<&BlockBasedOptions> {
        match self {
            TableFormat::BlockBased(options) => Some(options),
            TableFormat::Cuckoo(_) | TableFormat::Plain(_) => None,
        }
    }

    /// Returns the name of the section of OPTIONS files for the options of this format.
    pub(crate) fn section(&self) -> &'static str {
        match self {
            TableFormat::BlockBased(_) => BlockBasedOptions::NAME,
            TableFormat::Cuckoo(_) => CuckooTableOptions::NAME,
            TableFormat::Plain(_) => PlainTableOptions::NAME,
        }
    }

    /// Returns the options of the table format, for changes by option texts.
    pub(crate) fn options_mut(&mut self) -> &mut dyn OptionValue {
        match self {
            TableFormat::BlockBased(options) => options,
            TableFormat::Cuckoo(options) => options,
            TableFormat::Plain(options) => options,
        }
    }

    /// Returns the names and value texts of the table format's options.
    pub(crate) fn written(&self, style: Style) -> Vec<(&'static str, String)> {
        match self {
            TableFormat::BlockBased(options) => registry::written(options, style),
            TableFormat::Cuckoo(options) => registry::written(options, style),
            TableFormat::Plain(options) => registry::written(options, style),
        }
    }
}

/// A table factory, whose options `block_based_table_factory` and `plain_table_factory` also set.
///
/// It must be of that kind; `table_factory` names a new one.
impl OptionValue for TableFormat {
    fn kind() -> String {
        "object id of a TableFactory".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal> {
        if self.check_alias(name)? {
            return self.options_mut().read(name, text, reading);
        }
        let known = "BlockBasedTable, CuckooTable, PlainTable";
        let Some(description) = Description::parse(name, text)? else {
            return Err(Refusal::invalid(format!(
                "{name}={text}: a column family always has a table factory; it is one of {known}"
            )));
        };
        if reading.mutable_only {
            return Err(Refusal::invalid(format!(
                "Option not changeable: {name}={text}: the factory is fixed while the database is open; change its \
                 options by {name}.option=value"
            )));
        }
        let mut format = Self::by_id(description.id)
            .ok_or_else(|| unknown_id("TableFactory", name, text, known))?;
        set_members(format.options_mut(), name, &description, reading)?;
        *self = format;
        Ok(())
    }

    fn read_member(
        &mut self,
        name: &str,
        member: &str,
        text: &str,
        reading: &mut Reading,
    ) -> Result<(), Refusal> {
        self.check_alias(name)?;
        self.options_mut().read_member(name, member, text, reading)
    }

    /// Writes only the name: in OPTIONS files the options of the format have a section of their
    /// own.
    fn write(&self, style: Style) -> Option<String> {
        Some(match style {
            Style::Portable => self.name().to_owned(),
            Style::Full => with_members(self.name(), &self.written(style)),
        })
    }

    fn members_without_effect(&self, path: &str, out: &mut Settings) {
        match self {
            TableFormat::BlockBased(options) => registry::without_effect(options, path, out),
            TableFormat::Cuckoo(options) => registry::without_effect(options, path, out),
            TableFormat::Plain(options) => registry::without_effect(options, path, out),
        }
    }
}

impl TableFormat {
    /// Whether `name` is an alias of this table factory; an error for the alias of another one.
    fn check_alias(&self, name: &str) -> Result<bool, Refusal> {
        let wanted = match name.rsplit_once('.').map_or(name, |(_, last)| last) {
            "block_based_table_factory" => "BlockBasedTable",
            "plain_table_factory" => "PlainTable",
            _ => return Ok(false),
        };
        if self.name() == wanted {
            Ok(true)
        } else {
            Err(Refusal::invalid(format!(
                "Cannot modify {} as {name}: set table_factory={wanted} first",
                self.name()
            )))
        }
    }
}
