//! Objects created from ids: comparators, merge operators, filter policies, factories and others.
//!
//! An object is written `NAME`, `NAME:arguments`, or `{id=NAME;member=value;…}`; `nullptr` and the
//! empty text mean none. An unknown id is an error that lists the known ones: opening a database
//! with a wrong object would be worse than not opening it.

use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::merge_operator::{self, MergeOperator};
use koeldb_base::prefix::{self, PrefixExtractor};
use koeldb_base::stats::Statistics;
use koeldb_table::filter::FilterPolicy;

use super::column_family::ColumnFamilyOptions;
use super::declare::option_section;
use super::grammar;
use super::registry::{self, OptionValue, Reading, Refusal, Style};
use super::value::read_scalar;

/// The parsed text of a plug-in object in an option: its id and its members.
pub(crate) struct Description<'a> {
    pub(crate) id: &'a str,
    pub(crate) members: Vec<(&'a str, &'a str)>,
}

impl<'a> Description<'a> {
    /// Parses the text of an object, `ID` or `{id=ID;name=value;}`; `None` means no object.
    pub(crate) fn parse(name: &str, text: &'a str) -> Result<Option<Self>, Refusal> {
        let text = grammar::trim(text);
        let (id, members) = if text.starts_with('{') {
            let mut members = grammar::pairs(text)?;
            let Some(at) = members.iter().position(|(member, _)| *member == "id") else {
                if members.is_empty() {
                    return Ok(None);
                }
                return Err(Refusal::invalid(format!(
                    "Error parsing {name}: {text} does not name an object; begin with id=NAME;"
                )));
            };
            let (_, id) = members.remove(at);
            (grammar::strip_braces(id), members)
        } else {
            (text, Vec::new())
        };
        Ok((!matches!(id, "" | "nullptr")).then_some(Description { id, members }))
    }

    /// Rejects the members of an object that has none, unless unknown options are ignored.
    ///
    /// The members of an unknown object are not checked: its id decides, and is refused or skipped.
    pub(crate) fn without_members(&self, name: &str, reading: &mut Reading) -> Result<(), Refusal> {
        for (member, value) in &self.members {
            let refusal = Refusal::unknown(format!(
                "Unrecognized option: {name}.{member}: {} has no options",
                self.id
            ));
            reading.tolerate(name, member, value, Err(refusal))?;
        }
        Ok(())
    }
}

/// The caller's comparator, merge operator and prefix extractor, looked up before built-in ones.
#[derive(Clone, Default)]
pub(crate) struct OwnObjects {
    comparator: KeyOrder,
    merge_operator: Option<Arc<dyn MergeOperator>>,
    prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
}

impl OwnObjects {
    /// Returns the comparator, merge operator and prefix extractor of these options.
    pub(crate) fn of(options: &ColumnFamilyOptions) -> Self {
        OwnObjects {
            comparator: options.comparator.clone(),
            merge_operator: options.merge_operator.clone(),
            prefix_extractor: options.prefix_extractor.clone(),
        }
    }
}

impl Description<'_> {
    /// Whether the text names a user's object `name`, without members.
    fn is_named(&self, name: &str) -> bool {
        self.members.is_empty() && self.id == grammar::escape_id(name)
    }
}

/// Returns the error for an id that is not built in.
pub(crate) fn unknown_id(class: &str, name: &str, text: &str, known: &str) -> Refusal {
    Refusal::unsupported(format!(
        "Could not load {class}: {text} (option {name}); built in are {known}; one of your own is set in code, \
         and set_ignore_unsupported_options(true) skips its name in files"
    ))
}

/// A plug-in object that an option text creates by its id, in an option of type `Option<Self>`.
pub(crate) trait Object: Sized {
    /// The name of the plug-in's kind, in messages and in the registry.
    const CLASS: &'static str;
    /// The known ids, for messages.
    const KNOWN: &'static str;

    /// Creates the object from its description; `Ok(None)` if the id is unknown.
    fn make(
        name: &str,
        description: &Description<'_>,
        reading: &mut Reading,
    ) -> Result<Option<Self>, Refusal>;

    /// Returns the text that recreates the object.
    fn text(&self, style: Style) -> String;
}

impl<T: Object> OptionValue for Option<T> {
    fn kind() -> String {
        format!("object id of a {}", T::CLASS)
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal> {
        *self = match Description::parse(name, text)? {
            None => None,
            Some(description) => Some(
                T::make(name, &description, reading)?
                    .ok_or_else(|| unknown_id(T::CLASS, name, text, T::KNOWN))?,
            ),
        };
        Ok(())
    }

    fn write(&self, style: Style) -> Option<String> {
        Some(match self {
            Some(object) => object.text(style),
            None => "nullptr".to_owned(),
        })
    }
}

/// Formats the text of an object with this id and these members.
pub(crate) fn with_members(id: &str, members: &[(&'static str, String)]) -> String {
    if members.is_empty() {
        return id.to_owned();
    }
    let members: String = members
        .iter()
        .map(|(name, text)| format!("{name}={};", grammar::protect(text)))
        .collect();
    format!("{{id={id};{members}}}")
}

/// Sets the members of an object from its parsed text.
pub(crate) fn set_members(
    target: &mut dyn OptionValue,
    name: &str,
    description: &Description<'_>,
    reading: &mut Reading,
) -> Result<(), Refusal> {
    for (member, value) in &description.members {
        let outcome = target.read_member(name, member, value, reading);
        reading.tolerate(name, member, value, outcome)?;
    }
    Ok(())
}

impl OptionValue for KeyOrder {
    fn kind() -> String {
        "object id of a Comparator".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal> {
        const KNOWN: &str = "leveldb.BytewiseComparator, rocksdb.ReverseBytewiseComparator, \
                             rocksdb.Uint64Comparator, leveldb.BytewiseComparator.u64ts, \
                             rocksdb.ReverseBytewiseComparator.u64ts";
        let Some(description) = Description::parse(name, text)? else {
            return Err(Refusal::invalid(format!(
                "{name}={text}: a column family always has a comparator; built in are {KNOWN}"
            )));
        };
        if description.is_named(self.name()) {
            return Ok(());
        }
        if description.is_named(reading.own.comparator.name()) {
            *self = reading.own.comparator.clone();
            return Ok(());
        }
        if description.id == self.name() {
            return description.without_members(name, reading);
        }
        *self = KeyOrder::from_name(description.id)
            .ok_or_else(|| unknown_id("Comparator", name, text, KNOWN))?;
        description.without_members(name, reading)
    }

    fn write(&self, _: Style) -> Option<String> {
        Some(grammar::escape_id(self.name()))
    }
}

impl Object for Arc<dyn MergeOperator> {
    const CLASS: &'static str = "MergeOperator";
    const KNOWN: &'static str =
        "stringappend, stringappendtest, uint64add, put, put_v1, max, bytesxor";

    fn make(
        name: &str,
        description: &Description<'_>,
        reading: &mut Reading,
    ) -> Result<Option<Self>, Refusal> {
        let own = reading.own.merge_operator.as_ref();
        if let Some(own) = own.filter(|own| description.is_named(own.name())) {
            return Ok(Some(Arc::clone(own)));
        }
        if merge_operator::by_id(description.id, None).is_none() {
            return Ok(None);
        }
        let mut delimiter = None;
        let appends = description
            .id
            .to_ascii_lowercase()
            .starts_with("stringappend");
        for (member, value) in &description.members {
            if appends && *member == "delimiter" {
                delimiter = Some(read_scalar::<String>(name, value)?);
                continue;
            }
            let refusal = Refusal::unknown(format!("Extra option not recognized: {name}.{member}"));
            reading.tolerate(name, member, value, Err(refusal))?;
        }
        let found = merge_operator::by_id(description.id, delimiter.as_deref());
        let is_ours = |found: &Self| !reading.recorded_names || found.name() == description.id;
        Ok(found.filter(is_ours))
    }

    fn text(&self, _: Style) -> String {
        match self.append_delimiter() {
            Some(delimiter) => format!(
                "{{id={};delimiter={};}}",
                self.name(),
                grammar::protect(&grammar::escape(&String::from_utf8_lossy(delimiter)))
            ),
            None => grammar::escape_id(self.name()),
        }
    }
}

impl Object for Arc<dyn PrefixExtractor> {
    const CLASS: &'static str = "SliceTransform";
    const KNOWN: &'static str =
        "fixed:N, capped:N, rocksdb.FixedPrefix.N, rocksdb.CappedPrefix.N, rocksdb.Noop";

    fn make(
        name: &str,
        description: &Description<'_>,
        reading: &mut Reading,
    ) -> Result<Option<Self>, Refusal> {
        let own = reading.own.prefix_extractor.as_ref();
        if let Some(own) = own.filter(|own| description.is_named(own.name())) {
            return Ok(Some(Arc::clone(own)));
        }
        let is_ours = |found: &Self| !reading.recorded_names || found.name() == description.id;
        let found = prefix::by_id(description.id).filter(is_ours);
        if found.is_some() {
            description.without_members(name, reading)?;
        }
        Ok(found)
    }

    fn text(&self, _: Style) -> String {
        grammar::escape_id(self.name())
    }
}

impl OptionValue for FilterPolicy {
    fn kind() -> String {
        "object id of a FilterPolicy".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, _: &mut Reading) -> Result<(), Refusal> {
        let text = grammar::trim(text);
        *self = if text.is_empty() {
            FilterPolicy::None
        } else {
            FilterPolicy::parse(text).ok_or_else(|| {
                unknown_id(
                    "FilterPolicy",
                    name,
                    text,
                    "bloomfilter:BITS, ribbonfilter:BITS[:LEVEL], rocksdb.BuiltinBloomFilter",
                )
            })?
        };
        Ok(())
    }

    fn read_member(
        &mut self,
        name: &str,
        member: &str,
        text: &str,
        _: &mut Reading,
    ) -> Result<(), Refusal> {
        match self {
            FilterPolicy::Ribbon {
                bloom_before_level, ..
            } if member == "bloom_before_level" => {
                *bloom_before_level = read_scalar(name, text)?;
                Ok(())
            }
            _ => Err(Refusal::unknown(format!(
                "Unrecognized option: {name}.{member}: only a ribbonfilter has bloom_before_level"
            ))),
        }
    }

    fn write(&self, _: Style) -> Option<String> {
        Some(self.to_string())
    }
}

/// An option that accepts only the null object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoObject;

impl OptionValue for NoObject {
    fn kind() -> String {
        "object id".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, _: &mut Reading) -> Result<(), Refusal> {
        match Description::parse(name, text)? {
            None => Ok(()),
            Some(_) => Err(Refusal::unsupported(format!(
                "{name}={text} is not supported: no object of this kind is built in; leave the option out"
            ))),
        }
    }

    fn write(&self, _: Style) -> Option<String> {
        Some("nullptr".to_owned())
    }
}

/// The option `env`, which accepts only the default environment and is never written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DefaultEnv;

impl OptionValue for DefaultEnv {
    fn kind() -> String {
        "object id of an Env".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, _: &mut Reading) -> Result<(), Refusal> {
        match Description::parse(name, text)? {
            None => Ok(()),
            Some(description) if description.id == "Default" => Ok(()),
            Some(_) => Err(unknown_id("Env", name, text, "Default")),
        }
    }

    fn write(&self, _: Style) -> Option<String> {
        None
    }
}

/// The option `compression_manager`, which accepts only the built-in manager or none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BuiltinCompressionManager;

impl OptionValue for BuiltinCompressionManager {
    fn kind() -> String {
        "object id of a CompressionManager".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, _: &mut Reading) -> Result<(), Refusal> {
        match Description::parse(name, text)? {
            None => Ok(()),
            Some(description)
                if matches!(description.id, "BuiltinV2" | "BuiltinCompressionManagerV2") =>
            {
                Ok(())
            }
            Some(_) => Err(unknown_id("CompressionManager", name, text, "BuiltinV2")),
        }
    }

    fn write(&self, _: Style) -> Option<String> {
        Some("nullptr".to_owned())
    }
}

/// Declares objects that differ only by their id.
macro_rules! plain_objects {
    ($(
        $(#[$meta:meta])*
        $vis:vis enum $Type:ident, $class:literal { $($(#[$variant_meta:meta])* $Variant:ident = $id:literal,)* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        $vis enum $Type {
            $($(#[$variant_meta])* $Variant,)*
        }

        impl Object for $Type {
            const CLASS: &'static str = $class;
            const KNOWN: &'static str = concat!($($id, " "),*);

            fn make(
                name: &str,
                description: &Description<'_>,
                reading: &mut Reading,
            ) -> Result<Option<Self>, Refusal> {
                let found = match description.id {
                    $($id => $Type::$Variant,)*
                    _ => return Ok(None),
                };
                description.without_members(name, reading)?;
                Ok(Some(found))
            }

            fn text(&self, _: Style) -> String {
                match self {
                    $($Type::$Variant => $id,)*
                }
                .to_owned()
            }
        }
    )*};
}

/// An option with statistics, which have no text form.
impl OptionValue for Option<Statistics> {
    fn kind() -> String {
        "object id of a Statistics".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, _: &mut Reading) -> Result<(), Refusal> {
        *self = match Description::parse(name, text)? {
            None => None,
            Some(description) if description.id == "BasicStatistics" => Some(Statistics::new()),
            Some(_) => return Err(unknown_id("Statistics", name, text, "BasicStatistics")),
        };
        Ok(())
    }

    fn write(&self, _: Style) -> Option<String> {
        None
    }
}

plain_objects! {
    /// The generator of whole-file checksums (RocksDB: `FileChecksumGenFactory`).
    pub enum FileChecksumGenerator, "FileChecksumGenFactory" {
        /// CRC-32C of the whole file.
        Crc32c = "FileChecksumGenCrc32cFactory",
    }

    /// A built-in compaction filter, which options select by its id.
    pub enum BuiltinCompactionFilter, "CompactionFilter" {
        /// Drops entries with an empty value.
        RemoveEmptyValue = "RemoveEmptyValueCompactionFilter",
    }
}

plain_objects! {
    /// The rule by which a table builder ends a data block (RocksDB: `FlushBlockPolicy`).
    #[derive(Default)]
    pub(crate) enum FlushBlockPolicy, "FlushBlockPolicyFactory" {
        /// By size.
        #[default]
        BySize = "FlushBlockBySizePolicyFactory",
        /// After each key.
        EveryKey = "FlushBlockEveryKeyPolicyFactory",
    }
}

/// A block always has a rule: no object means the rule by size.
impl OptionValue for FlushBlockPolicy {
    fn kind() -> String {
        Option::<Self>::kind()
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal> {
        let mut found = Some(*self);
        found.read(name, text, reading)?;
        *self = found.unwrap_or_default();
        Ok(())
    }

    fn write(&self, style: Style) -> Option<String> {
        Some(self.text(style))
    }
}

option_section! {
    /// A partitioner that begins a new compaction output where a key prefix of this length changes.
    pub struct SstPartitioner, "SST partitioner SstPartitionerFixedPrefixFactory";
    options {
        /// The number of leading key bytes.
        [honoured fixed "6.26"] length: u64 = 0, "bytes",
            set_length(bytes: u64), get_length;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        SstPartitioner {};
    }
}

impl SstPartitioner {
    /// A partitioner that ends a table where the first `bytes` of the key change.
    #[must_use]
    pub fn fixed_prefix(bytes: u64) -> Self {
        SstPartitioner { length: bytes }
    }
}

impl Object for SstPartitioner {
    const CLASS: &'static str = "SstPartitionerFactory";
    const KNOWN: &'static str = "SstPartitionerFixedPrefixFactory";

    fn make(
        name: &str,
        description: &Description<'_>,
        reading: &mut Reading,
    ) -> Result<Option<Self>, Refusal> {
        if description.id != Self::KNOWN {
            return Ok(None);
        }
        let mut partitioner = SstPartitioner::default();
        set_members(&mut partitioner, name, description, reading)?;
        Ok(Some(partitioner))
    }

    fn text(&self, style: Style) -> String {
        with_members(Self::KNOWN, &registry::written(self, style))
    }
}

option_section! {
    /// A table properties collector that marks files with many deletions for compaction.
    pub struct CompactOnDeletion, "collector CompactOnDeletionCollector";
    options {
        /// Entries in the sliding window.
        [honoured fixed "<=5.4"] window_size: u64 = 0, "",
            set_window_size(count: u64), get_window_size;
        /// Deletions in the window that mark the file for compaction.
        [honoured fixed "<=5.4"] deletion_trigger: u64 = 0, "",
            set_deletion_trigger(value: u64), get_deletion_trigger;
        /// Share of deletions in the file that marks it.
        [honoured fixed "<=5.4"] deletion_ratio: f64 = 0.0, "<=0 or >1 = off.",
            set_deletion_ratio(ratio: f64), get_deletion_ratio;
        /// Smaller files are never marked.
        [honoured fixed "<=5.4"] min_file_size: u64 = 0, "Bytes.",
            set_min_file_size(bytes: u64), get_min_file_size;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        CompactOnDeletion {};
    }
}

option_section! {
    /// RocksDB's collector of entries fit for the last level; tables only record its name.
    pub struct CompactForTiering, "collector CompactForTieringCollector";
    options {
        /// Share of entries fit for the last level that marks the file.
        [accepted fixed "<=5.4"] compaction_trigger_ratio: f64 = 0.0, "<=0 = off.",
            set_compaction_trigger_ratio(ratio: f64), get_compaction_trigger_ratio;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        CompactForTiering {};
    }
}

/// A table properties collector, which inspects every entry of a table that is being written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TablePropertiesCollector {
    /// The collector that looks for many deletions.
    CompactOnDeletion(CompactOnDeletion),
    /// The collector that looks for entries fit for the last level.
    CompactForTiering(CompactForTiering),
}

impl Default for TablePropertiesCollector {
    fn default() -> Self {
        TablePropertiesCollector::CompactOnDeletion(CompactOnDeletion::default())
    }
}

impl OptionValue for TablePropertiesCollector {
    fn kind() -> String {
        "object id of a TablePropertiesCollectorFactory".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal> {
        let unknown = || {
            unknown_id(
                "TablePropertiesCollectorFactory",
                name,
                text,
                "CompactOnDeletionCollector, CompactForTieringCollector",
            )
        };
        let description = Description::parse(name, text)?.ok_or_else(unknown)?;
        *self = match description.id {
            "CompactOnDeletionCollector" => {
                let mut collector = CompactOnDeletion::default();
                set_members(&mut collector, name, &description, reading)?;
                TablePropertiesCollector::CompactOnDeletion(collector)
            }
            "CompactForTieringCollector" => {
                let mut collector = CompactForTiering::default();
                set_members(&mut collector, name, &description, reading)?;
                TablePropertiesCollector::CompactForTiering(collector)
            }
            _ => return Err(unknown()),
        };
        Ok(())
    }

    /// Writes only members that differ from the default, since RocksDB 7.8 does not know all.
    fn write(&self, _: Style) -> Option<String> {
        let members = match self {
            TablePropertiesCollector::CompactOnDeletion(collector) => {
                registry::differing(collector)
            }
            TablePropertiesCollector::CompactForTiering(collector) => {
                registry::differing(collector)
            }
        };
        Some(with_members(self.id(), &members))
    }
}

impl TablePropertiesCollector {
    /// Returns RocksDB's name of the collector.
    pub(crate) fn id(&self) -> &'static str {
        match self {
            TablePropertiesCollector::CompactOnDeletion(_) => "CompactOnDeletionCollector",
            TablePropertiesCollector::CompactForTiering(_) => "CompactForTieringCollector",
        }
    }
}
