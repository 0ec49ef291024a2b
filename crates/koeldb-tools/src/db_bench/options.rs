//! Converts flags to options: the result is an option string for the parser of the engine.
//!
//! The table of flags says which flags set a single option; this module handles the others. Every
//! option that belongs to a flag is written, whether the flag was given or not: a run uses the
//! defaults of the flags, which are those of RocksDB's program and not of the library.

use koeldb_base::codec::Compression;

use super::flags::{Effect, Flags, Scope};

/// An option string made from the flags, with the lines that RocksDB's program prints about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OptionText {
    pub(crate) text: String,
    /// For standard output.
    pub(crate) lines: Vec<String>,
    /// For standard error.
    pub(crate) warnings: Vec<String>,
}

/// The `name=value;` members of a nested option string, under construction.
#[derive(Default)]
struct Members(String);

impl Members {
    /// Appends the member `name=value;`.
    fn set(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push_str(&format!("{name}={value};"));
    }

    /// Returns the members in braces, as the value of a nested option.
    fn braced(&self) -> String {
        format!("{{{}}}", self.0)
    }
}

/// Parses the name of a compression type; `None` if there is none of this name.
pub(crate) fn codec(value: &str) -> Option<Compression> {
    let value = value.to_ascii_lowercase();
    Compression::ALL.into_iter().find(|codec| match codec {
        Compression::None => value == "none",
        named => named.name().to_ascii_lowercase() == value,
    })
}

/// Returns the option-string name of the compression type that `flag` selects.
fn codec_option(flag: &str, value: &str) -> Result<&'static str, String> {
    codec(value)
        .map(Compression::option_name)
        .ok_or_else(|| format!("--{flag}: no codec is called '{value}'"))
}

/// Returns the name at index `value` of `names`; an error that names `flag` if out of range.
fn choice<'a>(flag: &str, value: i64, names: &[&'a str]) -> Result<&'a str, String> {
    let name = usize::try_from(value)
        .ok()
        .and_then(|value| names.get(value));
    let last = names.len() - 1;
    name.copied()
        .ok_or_else(|| format!("--{flag} is {value}, must be between 0 and {last}"))
}

/// Returns the memtable representation's names, for option strings and for the header.
pub(crate) fn memtable(flags: &Flags) -> (String, String) {
    let rep = flags.memtablerep.as_str();
    let buckets = flags.hash_bucket_count;
    match rep.to_ascii_lowercase().as_str() {
        "skip_list" if flags.skip_list_lookahead == 0 => {
            ("skip_list".to_owned(), "SkipListFactory".to_owned())
        }
        "skip_list" => {
            let lookahead = flags.skip_list_lookahead;
            (
                format!("skip_list:{lookahead}"),
                format!("SkipListFactory:{lookahead}"),
            )
        }
        "prefix_hash" => (
            format!("prefix_hash:{buckets}"),
            "HashSkipListRepFactory".to_owned(),
        ),
        "hash_linkedlist" => (
            format!("hash_linkedlist:{buckets}"),
            "HashLinkListRepFactory".to_owned(),
        ),
        "vector" => ("vector".to_owned(), "VectorRepFactory".to_owned()),
        _ => (rep.to_owned(), rep.to_owned()),
    }
}

/// Converts the flags to an option string for database and column families.
///
/// # Errors
///
/// A sentence about contradictory flags or an unknown value.
pub(crate) fn option_text(flags: &Flags) -> Result<OptionText, String> {
    let mut out = OptionText::default();
    let mut database = Members::default();
    let mut table = Members::default();
    let mut universal = Members::default();
    let mut fifo = Members::default();
    let mut compression = Members::default();
    for (info, value) in flags.values() {
        let Effect::Sets(scope, option) = info.effect else {
            continue;
        };
        let members = match scope {
            Scope::Db | Scope::Family => &mut database,
            Scope::Table => &mut table,
            Scope::Universal => &mut universal,
            Scope::Fifo => &mut fifo,
            Scope::Compression => &mut compression,
        };
        members.set(option, value);
    }
    universal_choices(flags, &mut universal)?;
    fifo.set(
        "max_table_files_size",
        mib(flags.fifo_compaction_max_table_files_size_mb)?,
    );
    family_choices(flags, &mut database)?;
    database_choices(flags, &mut database)?;
    database.set("compaction_options_universal", universal.braced());
    database.set("compaction_options_fifo", fifo.braced());
    database.set("compression_opts", compression.braced());
    database.set("table_factory", table_factory(flags, &table, &mut out)?);
    out.text = database.0;
    Ok(out)
}

/// Converts MiB to bytes; an error on overflow.
fn mib(count: u64) -> Result<u64, String> {
    count
        .checked_mul(1 << 20)
        .ok_or_else(|| format!("{count} MiB are more than can be counted"))
}

/// Adds `stop_style`, and the universal compaction options whose unset flags keep the default.
fn universal_choices(flags: &Flags, universal: &mut Members) -> Result<(), String> {
    let unless_zero = [
        ("size_ratio", flags.universal_size_ratio),
        ("min_merge_width", flags.universal_min_merge_width),
        ("max_merge_width", flags.universal_max_merge_width),
        (
            "max_size_amplification_percent",
            flags.universal_max_size_amplification_percent,
        ),
    ];
    for (option, value) in unless_zero {
        if value != 0 {
            universal.set(option, value);
        }
    }
    if flags.universal_compression_size_percent != -1 {
        universal.set(
            "compression_size_percent",
            flags.universal_compression_size_percent,
        );
    }
    let styles = [
        "kCompactionStopStyleSimilarSize",
        "kCompactionStopStyleTotalSize",
    ];
    let style = i64::from(flags.universal_stop_style);
    universal.set(
        "stop_style",
        choice("universal_stop_style", style, &styles)?,
    );
    Ok(())
}

/// Adds the column family options that do not simply copy the value of one flag.
fn family_choices(flags: &Flags, family: &mut Members) -> Result<(), String> {
    compaction_choices(flags, family)?;
    compression_choices(flags, family)?;
    memtable_choices(flags, family)?;
    if flags.use_uint64_comparator {
        if flags.key_size != 8 {
            return Err("Using Uint64 comparator but key size is not 8.".to_owned());
        }
        family.set("comparator", "rocksdb.Uint64Comparator");
    }
    if !flags.merge_operator.is_empty() {
        family.set("merge_operator", &flags.merge_operator);
    }
    Ok(())
}

/// Adds compaction style, compaction priority and level size multipliers.
fn compaction_choices(flags: &Flags, family: &mut Members) -> Result<(), String> {
    let styles = [
        "kCompactionStyleLevel",
        "kCompactionStyleUniversal",
        "kCompactionStyleFIFO",
        "kCompactionStyleNone",
    ];
    let style = i64::from(flags.compaction_style);
    family.set(
        "compaction_style",
        choice("compaction_style", style, &styles)?,
    );
    let priorities = [
        "kByCompensatedSize",
        "kOldestLargestSeqFirst",
        "kOldestSmallestSeqFirst",
        "kMinOverlappingRatio",
        "kRoundRobin",
    ];
    let priority = i64::from(flags.compaction_pri);
    family.set(
        "compaction_pri",
        choice("compaction_pri", priority, &priorities)?,
    );
    let factors = flags.max_bytes_for_level_multiplier_additional.as_str();
    if !factors.is_empty() {
        let count = factors.split(',').count();
        if i32::try_from(count) != Ok(flags.num_levels) {
            return Err(format!("Insufficient number of fanouts specified {count}"));
        }
        family.set(
            "max_bytes_for_level_multiplier_additional",
            factors.replace(',', ":"),
        );
    }
    Ok(())
}

/// Adds the compression types, also per level and of blob files.
fn compression_choices(flags: &Flags, family: &mut Members) -> Result<(), String> {
    let codec = codec_option("compression_type", &flags.compression_type)?;
    family.set("compression", codec);
    if let Ok(first) = usize::try_from(flags.min_level_to_compress) {
        let levels = usize::try_from(flags.num_levels).unwrap_or(0);
        let codecs = (0..levels).map(|level| {
            if level < first {
                "kNoCompression"
            } else {
                codec
            }
        });
        family.set(
            "compression_per_level",
            codecs.collect::<Vec<_>>().join(":"),
        );
    }
    let blob_codec = codec_option("blob_compression_type", &flags.blob_compression_type)?;
    family.set("blob_compression_type", blob_codec);
    let prepopulate = i64::from(flags.prepopulate_blob_cache);
    let modes = ["kDisable", "kFlushOnly"];
    family.set(
        "prepopulate_blob_cache",
        choice("prepopulate_blob_cache", prepopulate, &modes)?,
    );
    // One that is shared is set with the block cache itself.
    if flags.use_blob_cache && !flags.use_shared_block_and_blob_cache {
        if flags.blob_cache_size == 0 {
            return Err("a blob cache of its own needs --blob_cache_size".to_owned());
        }
        let mut cache = Members::default();
        cache.set("capacity", flags.blob_cache_size);
        cache.set("num_shard_bits", flags.blob_cache_numshardbits);
        family.set("blob_cache", cache.braced());
    }
    Ok(())
}

/// Adds the memtable factory and the prefix extractor; checks that they fit.
fn memtable_choices(flags: &Flags, family: &mut Members) -> Result<(), String> {
    family.set("memtable_factory", memtable(flags).0);
    if flags.prefix_size > 0 {
        family.set("prefix_extractor", format!("fixed:{}", flags.prefix_size));
    } else if matches!(
        flags.memtablerep.as_str(),
        "prefix_hash" | "hash_linkedlist"
    ) {
        return Err(format!(
            "--memtablerep={} needs --prefix_size",
            flags.memtablerep
        ));
    }
    Ok(())
}

/// Adds the database options that no row of the flag table sets by itself.
fn database_choices(flags: &Flags, database: &mut Members) -> Result<(), String> {
    database.set("max_open_files", flags.open_files);
    database.set(
        "wal_compression",
        codec_option("wal_compression", &flags.wal_compression)?,
    );
    database.set("db_write_buffer_size", flags.db_write_buffer_size);
    if flags.file_checksum {
        database.set("file_checksum_gen_factory", "FileChecksumGenCrc32cFactory");
    }
    Ok(())
}

/// Returns the table factory as an option string.
fn table_factory(flags: &Flags, table: &Members, out: &mut OptionText) -> Result<String, String> {
    let mut members = Members::default();
    if flags.use_plain_table {
        if !matches!(
            flags.memtablerep.as_str(),
            "prefix_hash" | "hash_linkedlist"
        ) {
            let name = memtable(flags).1;
            out.warnings
                .push(format!("Warning: plain table is used with {name}"));
        }
        members.set("id", "PlainTable");
        members.set("user_key_len", flags.key_size);
        if flags.bloom_bits >= 0 {
            members.set("bloom_bits_per_key", flags.bloom_bits);
        }
        members.set("hash_table_ratio", 0.75);
    } else if flags.use_cuckoo_table {
        if !(0.0..=1.0).contains(&flags.cuckoo_hash_ratio) {
            return Err("Invalid cuckoo_hash_ratio".to_owned());
        }
        if !flags.mmap_read {
            return Err("cuckoo table format requires mmap read to operate".to_owned());
        }
        members.set("id", "CuckooTable");
        members.set("hash_table_ratio", flags.cuckoo_hash_ratio);
        members.set("identity_as_first_hash", flags.identity_as_first_hash);
    } else {
        members.set("id", "BlockBasedTable");
        members.0.push_str(&table.0);
        block_based_choices(flags, &mut members, out)?;
    }
    Ok(members.braced())
}

/// Adds the block-based table options that do not simply copy the value of one flag.
fn block_based_choices(
    flags: &Flags,
    table: &mut Members,
    out: &mut OptionText,
) -> Result<(), String> {
    let checksums = ["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"];
    let checksum = i64::from(flags.checksum_type);
    table.set("checksum", choice("checksum_type", checksum, &checksums)?);
    table.set("index_type", index_type(flags, &mut out.warnings)?);
    if flags.partition_index_and_filters {
        table.set("partition_filters", true);
    }
    let search = match flags.index_block_search_type.as_str() {
        "binary_search" => "kBinary",
        "interpolation_search" => "kInterpolation",
        "auto_search" => "kAuto",
        other => return Err(format!("Unknown index_block_search_type: {other}")),
    };
    table.set("index_block_search_type", search);
    let decoding = match flags.index_decoding.as_str() {
        "never" => "kNever",
        "pinned" => "kPinned",
        "always" => "kAlways",
        other => return Err(format!("Unknown index_decoding: {other}")),
    };
    table.set("index_decoding", decoding);
    match flags.index_shortening_mode {
        0 => table.set("index_shortening", "kNoShortening"),
        1 => table.set("index_shortening", "kShortenSeparators"),
        2 => table.set("index_shortening", "kShortenSeparatorsAndSuccessor"),
        _ => out.warnings.push("Unknown key shortening mode".to_owned()),
    }
    match flags.prepopulate_block_cache {
        0 => table.set("prepopulate_block_cache", "kDisable"),
        1 => table.set("prepopulate_block_cache", "kFlushOnly"),
        2 => table.set("prepopulate_block_cache", "kFlushAndCompaction"),
        _ => out
            .warnings
            .push("Unknown prepopulate block cache mode".to_owned()),
    }
    let data_index = if flags.use_data_block_hash_index {
        "kDataBlockBinaryAndHash"
    } else {
        "kDataBlockBinarySearch"
    };
    table.set("data_block_index_type", data_index);
    match block_cache(flags) {
        Some(cache) => table.set("block_cache", cache),
        None => table.set("no_block_cache", true),
    }
    if flags.cache_high_pri_pool_ratio > 1e-6 {
        table.set("cache_index_and_filter_blocks_with_high_priority", true);
    }
    if flags.cache_high_pri_pool_ratio + flags.cache_low_pri_pool_ratio > 1.0 {
        out.warnings.push(
            "Sum of high_pri_pool_ratio and low_pri_pool_ratio cannot exceed 1.0.".to_owned(),
        );
    }
    if flags.bloom_bits > 0 {
        table.set("filter_policy", filter_policy(flags));
    }
    out.lines.push(blob_cache_line(flags));
    Ok(())
}

/// Returns the option string that is applied over `--options_file`: block cache and filter policy.
pub(crate) fn text_over_a_file(flags: &Flags) -> String {
    let mut members = Members::default();
    if let Some(cache) = block_cache(flags) {
        members.set("block_based_table_factory.block_cache", cache);
    }
    if flags.bloom_bits > 0 {
        members.set(
            "block_based_table_factory.filter_policy",
            filter_policy(flags),
        );
    }
    members.0
}

/// Returns the line that tells how blobs are cached.
fn blob_cache_line(flags: &Flags) -> String {
    if !flags.use_blob_cache {
        return "Integrated BlobDB: blob cache disabled".to_owned();
    }
    let is_shared = flags.use_shared_block_and_blob_cache;
    let own = match is_shared {
        true => String::new(),
        false => format!(
            ", blob cache size {}, blob cache num shard bits: {}",
            flags.blob_cache_size, flags.blob_cache_numshardbits
        ),
    };
    format!(
        "Integrated BlobDB: blob cache enabled, block and blob caches shared: {}{own}, blob cache \
         prepopulated: {}",
        u8::from(is_shared),
        flags.prepopulate_blob_cache
    )
}

/// Returns the option string of an LRU block cache; `None` if its size is not positive.
///
/// Such a string describes LRU caches only: see [`clock_cache_bytes`] for others.
fn block_cache(flags: &Flags) -> Option<String> {
    let mut cache = Members::default();
    cache.set("capacity", flags.cache_size);
    cache.set("num_shard_bits", flags.cache_numshardbits);
    cache.set("high_pri_pool_ratio", flags.cache_high_pri_pool_ratio);
    cache.set("low_pri_pool_ratio", flags.cache_low_pri_pool_ratio);
    (flags.cache_size > 0).then(|| cache.braced())
}

/// Returns the bytes of a clock cache; `None` for an LRU cache, or if the size is not positive.
///
/// # Errors
///
/// A sentence if `--cache_type` is unknown.
pub(crate) fn clock_cache_bytes(flags: &Flags) -> Result<Option<u64>, String> {
    match flags.cache_type.as_str() {
        "lru_cache" => Ok(None),
        "clock_cache"
        | "hyper_clock_cache"
        | "auto_hyper_clock_cache"
        | "fixed_hyper_clock_cache" => Ok(u64::try_from(flags.cache_size)
            .ok()
            .filter(|&bytes| bytes > 0)),
        other => Err(format!("Cache type not supported: {other}")),
    }
}

/// Returns the filter policy: Bloom or Ribbon with `--bloom_bits` bits per key.
fn filter_policy(flags: &Flags) -> String {
    let kind = if flags.use_ribbon_filter {
        "ribbonfilter"
    } else {
        "bloomfilter"
    };
    format!("{kind}:{}", flags.bloom_bits)
}

/// Returns RocksDB's name of the index type; adds warnings about flags that conflict.
fn index_type(flags: &Flags, warnings: &mut Vec<String>) -> Result<&'static str, String> {
    if flags.use_hash_search && flags.prefix_size == 0 {
        return Err("prefix_size not assigned when enable use_hash_search".to_owned());
    }
    if flags.partition_index || flags.partition_index_and_filters {
        if flags.index_with_first_key {
            let text = "--index_with_first_key is not compatible with partition index.";
            warnings.push(text.to_owned());
        }
        if flags.use_hash_search {
            let text = "use_hash_search is incompatible with partition index and is ignored";
            warnings.push(text.to_owned());
        }
        return Ok("kTwoLevelIndexSearch");
    }
    Ok(match (flags.index_with_first_key, flags.use_hash_search) {
        (true, _) => "kBinarySearchWithFirstKey",
        (false, true) => "kHashSearch",
        (false, false) => "kBinarySearch",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(flags: &Flags) -> OptionText {
        option_text(flags).expect("valid flags")
    }

    #[test]
    fn defaults_are_those_of_rocksdbs_program() {
        let OptionText {
            text,
            lines,
            warnings,
        } = text(&Flags::default());
        for part in [
            "write_buffer_size=67108864;",
            "enable_pipelined_write=true;",
            "compression=kSnappyCompression;",
            "level_compaction_dynamic_level_bytes=false;",
            "hard_pending_compaction_bytes_limit=137438953472;",
            "max_open_files=-1;",
            "memtable_factory=skip_list;",
            "table_factory={id=BlockBasedTable;",
            "index_shortening=kShortenSeparatorsAndSuccessor;",
            "format_version=7;",
            "pin_top_level_index_and_filter=false;",
            "ttl=18446744073709551614;",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("filter_policy") && !text.contains("prefix_extractor"));
        assert_eq!(lines, ["Integrated BlobDB: blob cache disabled"]);
        assert!(warnings.is_empty());
    }

    #[test]
    fn cuckoo_tables_need_mapped_reads() {
        let mut flags = Flags {
            use_cuckoo_table: true,
            ..Flags::default()
        };
        assert!(option_text(&flags).is_err());
        flags.mmap_read = true;
        assert!(text(&flags).text.contains(
            "table_factory={id=CuckooTable;hash_table_ratio=0.9;identity_as_first_hash=false;}"
        ));
    }

    #[test]
    fn choices_by_number_become_names() {
        let flags = Flags {
            compaction_style: 1,
            universal_size_ratio: 5,
            min_level_to_compress: 2,
            num_levels: 4,
            compression_type: "ZSTD".to_owned(),
            bloom_bits: 10,
            index_block_search_type: "auto_search".to_owned(),
            ..Flags::default()
        };
        let text = text(&flags).text;
        for part in [
            "compaction_style=kCompactionStyleUniversal;",
            "size_ratio=5;",
            "compression_per_level=kNoCompression:kNoCompression:kZSTD:kZSTD;",
            "filter_policy=bloomfilter:10;",
            "index_block_search_type=kAuto;",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn contradictions_are_sentences() {
        let hash = Flags {
            memtablerep: "prefix_hash".to_owned(),
            ..Flags::default()
        };
        let order = Flags {
            use_uint64_comparator: true,
            ..Flags::default()
        };
        let style = Flags {
            compaction_style: 9,
            ..Flags::default()
        };
        let codec = Flags {
            compression_type: "lzma".to_owned(),
            ..Flags::default()
        };
        for flags in [hash, order, style, codec] {
            assert!(option_text(&flags).is_err());
        }
    }
}
