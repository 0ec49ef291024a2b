//! The drawing of options: random values of the rows, and the resolution of conflicts between them.

use std::collections::{BTreeMap, BTreeSet};

use koeldb_base::codec::Compression;

use super::{
    BLOCK_BASED, CACHE, COLLECTOR, COMPOSED, COMPRESSION, CUCKOO, DATABASE, FAMILY, FIFO,
    HASH_LINK_LIST, HASH_SKIP_LIST, PARTITIONER, PINNING, PLAIN, ROWS, SKIP_LIST, SORTED_HASH,
    Suite, UNIVERSAL, VECTOR, is_drawn,
};
use crate::random::Random;

fn pick<'c>(random: &mut Random, values: &'c [&'c str]) -> &'c str {
    let index = usize::try_from(random.below(values.len() as u64)).unwrap_or(0);
    values.get(index).copied().unwrap_or_default()
}

fn values_of(section: &str, name: &str) -> &'static [&'static str] {
    ROWS.iter()
        .find(|row| row.section == section && row.name == name)
        .map_or(&[], |row| row.values)
}

/// The table format of a column family, fixed for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Block-based tables.
    BlockBased,
    /// Plain tables, with this prefix extractor.
    Plain(&'static str),
    /// Cuckoo tables.
    Cuckoo,
}

/// The properties that a column family keeps for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The option `compaction_style`.
    pub compaction: &'static str,
    /// The option `num_levels`.
    pub levels: &'static str,
    /// The option `table_factory`.
    pub format: Format,
    /// Whether keys have user-defined timestamps.
    pub has_timestamps: bool,
}

impl Style {
    /// Draws a style.
    #[must_use]
    pub fn draw(random: &mut Random) -> Self {
        let compaction = match random.below(8) {
            0..4 => "kCompactionStyleLevel",
            4..6 => "kCompactionStyleUniversal",
            6 => "kCompactionStyleFIFO",
            _ => "kCompactionStyleNone",
        };
        let format = match random.below(8) {
            0..6 => Format::BlockBased,
            6 => Format::Plain(pick(random, values_of(FAMILY, "prefix_extractor"))),
            _ => Format::Cuckoo,
        };
        Style {
            compaction,
            levels: pick(random, values_of(FAMILY, "num_levels")),
            format,
            has_timestamps: false,
        }
    }
}

/// The optional codecs and their texts; a longer text precedes its prefix.
const OPTIONAL_CODECS: [(Compression, &str); 4] = [
    (Compression::Zstd, "kZSTD"),
    (Compression::Lz4, "kLZ4Compression"),
    (Compression::Snappy, "kSnappyCompression"),
    (Compression::Zlib, "kZlibCompression"),
];

/// The values of options by their names in option strings.
#[derive(Clone, Debug, Default)]
struct Values {
    by_name: BTreeMap<String, String>,
}

impl Values {
    /// Sets a value; codecs that this build lacks are replaced by no compression.
    fn set(&mut self, name: &str, value: &str) {
        let mut value = value.to_owned();
        for (codec, text) in OPTIONAL_CODECS {
            if !codec.is_available() {
                value = value.replace(text, "kNoCompression");
            }
        }
        self.by_name.insert(name.to_owned(), value);
    }

    fn leave_out(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.by_name.get(name).is_some_and(|found| found == value)
    }

    fn text(&self) -> String {
        let pairs = self.by_name.iter();
        pairs
            .map(|(name, value)| format!("{name}={value};"))
            .collect()
    }
}

/// The options of one open, as option strings.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// The options of the database.
    pub database: String,
    /// The options of each column family, in the order of the drawer's styles.
    pub families: Vec<String>,
    /// The sections and names of the options that got a value.
    pub rows: BTreeSet<(&'static str, &'static str)>,
}

impl std::fmt::Display for Drawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.database)?;
        for family in &self.families {
            write!(f, "\n  {family}")?;
        }
        Ok(())
    }
}

/// Draws options for the databases of a suite.
#[derive(Clone, Debug)]
pub struct Drawer {
    suite: Suite,
    styles: Vec<Style>,
}

impl Drawer {
    /// Creates a drawer for a database with column families of these styles.
    #[must_use]
    pub fn new(suite: Suite, styles: Vec<Style>) -> Self {
        Drawer { suite, styles }
    }

    /// Creates a drawer for a database with `family_count` column families of random styles.
    #[must_use]
    pub fn of_families(suite: Suite, random: &mut Random, family_count: usize) -> Self {
        let styles = (0..family_count).map(|_| Style::draw(random)).collect();
        Self::new(suite, styles)
    }

    /// Draws column families with block-based tables whose keys get user-defined timestamps.
    ///
    /// `random` is another generator than that of the rest, which then draws the same without them.
    #[must_use]
    pub fn with_timestamps(mut self, mut random: Random) -> Self {
        for style in &mut self.styles {
            let is_drawn = random.chance(1, 3);
            style.has_timestamps = is_drawn && style.format == Format::BlockBased;
        }
        self
    }

    /// Draws the options of one open: about half of them get a value.
    #[must_use]
    pub fn draw(&self, random: &mut Random) -> Drawn {
        let mut drawing = Drawing {
            suite: self.suite,
            random,
            rows: BTreeSet::new(),
        };
        let mut database = Values::default();
        drawing.section(DATABASE, "", &mut database);
        settle_database(&mut database);
        let families = self
            .styles
            .iter()
            .map(|style| drawing.family(style, &database).text())
            .collect();
        Drawn {
            database: database.text(),
            families,
            rows: drawing.rows,
        }
    }
}

struct Drawing<'r> {
    suite: Suite,
    random: &'r mut Random,
    rows: BTreeSet<(&'static str, &'static str)>,
}

impl Drawing<'_> {
    /// Draws values for about half of the rows of a section; `path` is prepended to their names.
    fn section(&mut self, section: &str, path: &str, values: &mut Values) {
        let rows = ROWS.iter().filter(|row| row.section == section);
        for row in rows.filter(|row| is_drawn(self.suite, row.section, row.name)) {
            if self.random.chance(1, 2) {
                self.rows.insert((row.section, row.name));
                values.set(
                    &format!("{path}{}", row.name),
                    pick(self.random, row.values),
                );
            }
        }
    }

    /// Returns the value of an option that consists of the rows of a section.
    fn composed(&mut self, section: &str, first: &str) -> String {
        let mut members = Values::default();
        self.section(section, "", &mut members);
        format!("{{{first}{}}}", members.text())
    }

    fn family(&mut self, style: &Style, database: &Values) -> Values {
        let mut values = Values::default();
        self.section(FAMILY, "", &mut values);
        values.set("compaction_style", style.compaction);
        values.set("num_levels", style.levels);
        self.rows.extend(COMPOSED.iter().take(7).copied());
        self.section(COMPRESSION, "compression_opts.", &mut values);
        self.section(COMPRESSION, "bottommost_compression_opts.", &mut values);
        self.section(COMPRESSION, "blob_compression_opts.", &mut values);
        self.section(UNIVERSAL, "compaction_options_universal.", &mut values);
        self.section(FIFO, "compaction_options_fifo.", &mut values);
        let (factory, section) = match self.random.below(6) {
            0..2 => ("id=skip_list;", SKIP_LIST),
            2 => ("id=vector;", VECTOR),
            3 => ("id=prefix_hash;", HASH_SKIP_LIST),
            4 => ("id=hash_linkedlist;", HASH_LINK_LIST),
            _ => ("id=hash_spdb;", SORTED_HASH),
        };
        let memtable = self.composed(section, factory);
        values.set("memtable_factory", &memtable);
        for (name, section, id) in [
            (
                "sst_partitioner_factory",
                PARTITIONER,
                "id=SstPartitionerFixedPrefixFactory;",
            ),
            (
                "table_properties_collectors",
                COLLECTOR,
                "id=CompactOnDeletionCollector;",
            ),
        ] {
            if self.random.chance(1, 4) {
                self.rows.insert((FAMILY, name));
                let object = self.composed(section, id);
                let is_list = section == COLLECTOR;
                let text = if is_list {
                    format!("{{{object}}}")
                } else {
                    object
                };
                values.set(name, &text);
            }
        }
        let needs_prefixes = section == HASH_SKIP_LIST || section == HASH_LINK_LIST;
        match style.format {
            Format::BlockBased => {
                values.set("table_factory", "BlockBasedTable");
                self.section(BLOCK_BASED, "table_factory.", &mut values);
                self.section(
                    PINNING,
                    "table_factory.metadata_cache_options.",
                    &mut values,
                );
                self.rows.insert((BLOCK_BASED, "metadata_cache_options"));
                if is_drawn(self.suite, BLOCK_BASED, "block_cache") && self.random.chance(1, 2) {
                    self.rows.insert((BLOCK_BASED, "block_cache"));
                    let cache = self.composed(CACHE, "");
                    if cache != "{}" {
                        values.set("table_factory.block_cache", &cache);
                    }
                }
            }
            Format::Plain(prefixes) => {
                values.set("table_factory", "PlainTable");
                values.set("prefix_extractor", prefixes);
                self.section(PLAIN, "table_factory.", &mut values);
            }
            Format::Cuckoo => {
                values.set("table_factory", "CuckooTable");
                self.section(CUCKOO, "table_factory.", &mut values);
            }
        }
        settle_family(&mut values, style, database, needs_prefixes);
        values
    }
}

/// Removes database options that conflict with others.
fn settle_database(values: &mut Values) {
    if values.is("unordered_write", "true") {
        values.leave_out("enable_pipelined_write");
        values.leave_out("allow_concurrent_memtable_write");
    }
    if values.is("atomic_flush", "true") {
        values.leave_out("enable_pipelined_write");
    }
    if values.is("allow_mmap_reads", "true") {
        values.leave_out("use_direct_reads");
    }
    if values.is("writable_file_max_buffer_size", "0") {
        values.leave_out("use_direct_io_for_flush_and_compaction");
    }
    if values.is("write_dbid_to_manifest", "false") {
        values.leave_out("write_identity_file");
    }
}

/// Sets a comparator with timestamps, and removes options that conflict with it.
fn settle_timestamps(values: &mut Values) {
    values.set("comparator", "leveldb.BytewiseComparator.u64ts");
    for name in [
        "max_successive_merges",
        "table_factory.index_type",
        "table_factory.index_block_search_type",
    ] {
        values.leave_out(name);
    }
    let memtable = values.by_name.get("memtable_factory");
    if memtable.is_some_and(|factory| factory.contains("hash")) {
        values.set("memtable_factory", "skip_list");
    }
}

/// Removes or replaces options of a column family that conflict.
///
/// They may conflict with each other, with the style of the column family or with the database
/// options.
fn settle_family(values: &mut Values, style: &Style, database: &Values, needs_prefixes: bool) {
    for path in [
        "compression_opts",
        "bottommost_compression_opts",
        "blob_compression_opts",
    ] {
        let dictionary = format!("{path}.max_dict_bytes");
        let has_dictionary = values.by_name.get(&dictionary).is_some_and(|v| v != "0");
        if values.is(&format!("{path}.zstd_max_train_bytes"), "4000") && !has_dictionary {
            values.set(&dictionary, "400");
        }
    }
    let has_prefixes = values
        .by_name
        .get("prefix_extractor")
        .is_some_and(|value| value != "nullptr");
    let hashes_index = values.is("table_factory.index_type", "kHashSearch");
    if !has_prefixes && (needs_prefixes || hashes_index) {
        match style.format {
            Format::Plain(_) => values.set("memtable_factory", "skip_list"),
            _ => values.set("prefix_extractor", "rocksdb.FixedPrefix.4"),
        }
    }
    if style.has_timestamps {
        settle_timestamps(values);
    }
    if style.levels == "1" {
        // It would get two more levels, which later opens do not have.
        values.leave_out("cf_allow_ingest_behind");
    }
    if matches!(style.format, Format::Plain("nullptr")) {
        values.set("table_factory.hash_table_ratio", "0");
    }
    if style.format != Format::BlockBased || style.compaction == "kCompactionStyleFIFO" {
        // FIFO compaction drops older data.
        values.set("ttl", "0");
        values.set("periodic_compaction_seconds", "0");
    }
    if style.compaction == "kCompactionStyleNone" {
        // No job moves files out of level 0.
        values.set("level0_slowdown_writes_trigger", "2147483647");
        values.set("level0_stop_writes_trigger", "2147483647");
    }
    if database.is("unordered_write", "true") {
        values.leave_out("max_successive_merges");
    }
    if values.is("table_factory.no_block_cache", "true") {
        values.leave_out("table_factory.cache_index_and_filter_blocks");
        values.leave_out("table_factory.pin_l0_filter_and_index_blocks_in_cache");
    }
    if values.is("table_factory.block_align", "true") {
        values.set("compression", "kNoCompression");
        values.leave_out("bottommost_compression");
        values.leave_out("compression_per_level");
        if values.is("table_factory.block_size", "1000") {
            values.set("table_factory.block_size", "1024");
        }
    }
    let is_mapped = values.is("table_factory.residency", "kMapped")
        || values.is("table_factory.residency", "kMappedHuge");
    let is_paged = values.is("table_factory.residency", "kPaged");
    if is_mapped && !database.is("allow_mmap_reads", "true")
        || is_paged && values.is("table_factory.keep_versions", "true")
    {
        values.leave_out("table_factory.residency");
    }
}
