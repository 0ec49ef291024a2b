//! Rules for the options of a column family.

use koeldb_base::codec::Compression;
use koeldb_base::timestamp::{TIMESTAMP_BYTES, names_numbers};
use koeldb_lsm::DATA_PATHS_MAX;

use super::database::{chooses_paths, has_empty_path, is_fifo};
use super::{Rule, rule};
use crate::options::column_family::ColumnFamilyOptions;
use crate::options::compaction::CompressionOptions;
use crate::options::db::DbOptions;
use crate::options::memtable::MemtableFactory;

/// The maximum number of levels; RocksDB has no limit and allocates them all.
const LEVELS_MAX: i32 = 256;

const NO_CODEC: &str = "needs a codec of this build";

/// The rule for an option that names codecs, which `$codecs` iterates over.
macro_rules! codec_rule {
    ($option:ident = $legal:expr, |$cf:ident| $codecs:expr) => {
        Rule {
            detail: Some(|$cf, _| build_with(missing_codec($codecs))),
            ..rule!(Unsupported $option = $legal, |$cf, _| missing_codec($codecs).is_some(), NO_CODEC)
        }
    };
}

/// The rules for the options of a column family in its database.
pub(crate) static RULES: &[Rule<ColumnFamilyOptions, DbOptions>] = &[
    codec_rule!(compression = default_codec(), |cf| [&cf.compression]),
    codec_rule!(blob_compression_type = default_codec(), |cf| [
        &cf.blob_compression_type
    ]),
    codec_rule!(bottommost_compression = None, |cf| &cf
        .bottommost_compression),
    Rule {
        mend: Some(replace_missing_codecs),
        ..codec_rule!(compression_per_level = Vec::new(), |cf| &cf
            .compression_per_level)
    },
    rule!(Invalid compression_opts.max_dict_bytes = 0,
        |cf, _| cf.compression_opts.max_dict_bytes < 0,
        "at least 0"),
    rule!(Invalid compression_opts.zstd_max_train_bytes = 0,
        |cf, _| trains_without_dictionary(&cf.compression_opts),
        "needs max_dict_bytes above 0"),
    rule!(Invalid bottommost_compression_opts.max_dict_bytes = 0,
        |cf, _| cf.bottommost_compression_opts.max_dict_bytes < 0,
        "at least 0"),
    rule!(Invalid bottommost_compression_opts.zstd_max_train_bytes = 0,
        |cf, _| trains_without_dictionary(&cf.bottommost_compression_opts),
        "needs max_dict_bytes above 0"),
    rule!(Invalid blob_compression_opts.max_dict_bytes = 0,
        |cf, _| cf.blob_compression_opts.max_dict_bytes < 0,
        "at least 0"),
    rule!(Invalid blob_compression_opts.zstd_max_train_bytes = 0,
        |cf, _| trains_without_dictionary(&cf.blob_compression_opts),
        "needs max_dict_bytes above 0"),
    Rule {
        detail: Some(|cf, _| {
            format!(
                "{}; or use skip_list",
                memtable_error(cf).unwrap_or_default()
            )
        }),
        ..rule!(Invalid memtable_factory = MemtableFactory::default(),
            |cf, _| memtable_error(cf).is_some(),
            "hashed memtables need a comparator that permits hashes")
    },
    rule!(Unsupported table_factory,
        |cf, _| cf.comparator.has_timestamps() && cf.table_factory.block_based().is_none(),
        "a comparator with user-defined timestamps needs block-based tables"),
    rule!(Unsupported max_successive_merges = 0,
        |cf, _| cf.comparator.has_timestamps() && cf.max_successive_merges > 0,
        "must be 0 with a comparator with user-defined timestamps"),
    rule!(Unsupported persist_user_defined_timestamps,
        |cf, db| cf.has_undated_tables() && db.atomic_flush,
        "must be true with atomic_flush"),
    rule!(Unsupported persist_user_defined_timestamps,
        |cf, db| cf.has_undated_tables() && db.allow_concurrent_memtable_write,
        "must be true with allow_concurrent_memtable_write"),
    rule!(Unsupported persist_user_defined_timestamps,
        |cf, _| cf.has_undated_tables() && !names_numbers(cf.comparator.name()),
        "must be true unless timestamps are numbers: the name of the comparator ends with .u64ts"),
    rule!(Unsupported comparator,
        |cf, _| !matches!(cf.comparator.comparator().timestamp_bytes(), 0 | TIMESTAMP_BYTES),
        "only timestamps of 8 bytes are supported"),
    rule!(Unsupported memtable_protection_bytes_per_key = 0,
        |cf, _| !matches!(cf.memtable_protection_bytes_per_key, 0 | 1 | 2 | 4 | 8),
        "one of 0, 1, 2, 4, 8"),
    rule!(Unsupported block_protection_bytes_per_key = 0,
        |cf, _| !matches!(cf.block_protection_bytes_per_key, 0 | 1 | 2 | 4 | 8),
        "one of 0, 1, 2, 4, 8"),
    rule!(Invalid max_successive_merges = 0,
        |cf, db| cf.max_successive_merges > 0 && db.unordered_write,
        "must be 0 with unordered_write"),
    rule!(Invalid num_levels = LEVELS_MAX,
        |cf, _| cf.num_levels > LEVELS_MAX,
        "at most 256"),
    rule!(Invalid level0_file_num_compaction_trigger = 1,
        |cf, _| cf.level0_file_num_compaction_trigger < 0,
        "at least 1"),
    rule!(Invalid target_file_size_multiplier = 1,
        |cf, _| cf.target_file_size_multiplier < 1,
        "at least 1"),
    rule!(Invalid compaction_options_fifo.file_temperature_age_thresholds = Vec::new(),
        |cf, _| is_fifo(cf)
            && !cf.compaction_options_fifo.file_temperature_age_thresholds.is_empty()
            && cf.num_levels > 1,
        "needs num_levels=1"),
    rule!(Invalid compaction_options_fifo.file_temperature_age_thresholds = Vec::new(),
        |cf, _| {
            let ages = &cf.compaction_options_fifo.file_temperature_age_thresholds;
            is_fifo(cf) && !ages.is_sorted_by(|a, b| a.age < b.age)
        },
        "ages must ascend"),
    rule!(Invalid compaction_options_universal.max_read_amp = -1,
        |cf, _| {
            let runs = cf.compaction_options_universal.max_read_amp;
            runs < -1 || (runs > 0 && runs < cf.level0_file_num_compaction_trigger)
        },
        "-1, 0, or at least level0_file_num_compaction_trigger"),
    rule!(Invalid read_triggered_compaction_threshold = 0.0,
        |cf, _| {
            let threshold = cf.read_triggered_compaction_threshold;
            !(threshold >= 0.0 && threshold.is_finite())
        },
        "a finite number of at least 0; 0 is off"),
    rule!(Invalid blob_garbage_collection_age_cutoff = 0.25,
        |cf, _| cf.enable_blob_garbage_collection
            && !(0.0..=1.0).contains(&cf.blob_garbage_collection_age_cutoff),
        "from 0 to 1"),
    rule!(Invalid blob_garbage_collection_force_threshold = 1.0,
        |cf, _| cf.enable_blob_garbage_collection
            && !(0.0..=1.0).contains(&cf.blob_garbage_collection_force_threshold),
        "from 0 to 1"),
    rule!(Invalid blob_collection_target = 1.3,
        |cf, _| cf.enable_blob_garbage_collection
            && !(cf.blob_collection_target > 1.0 && cf.blob_collection_target.is_finite()),
        "above 1"),
    rule!(Invalid blob_collection_share = 0.5,
        |cf, _| cf.enable_blob_garbage_collection
            && !(0.0..=1.0).contains(&cf.blob_collection_share),
        "from 0 to 1"),
    rule!(Unsupported ttl = 0,
        |cf, _| cf.ttl > 0 && cf.table_factory.block_based().is_none(),
        "needs block-based tables; set it to 0"),
    Rule {
        detail: Some(|cf, _| format!("at most 4 directories, not {}", cf.cf_paths.0.len())),
        ..rule!(Unsupported cf_paths,
            |cf, _| cf.cf_paths.0.len() > DATA_PATHS_MAX,
            "at most 4 directories")
    },
    rule!(Unsupported cf_paths,
        |cf, _| cf.cf_paths.0.len() > 1 && !chooses_paths(cf),
        "several directories, also of db_paths, need leveled or universal compaction"),
    rule!(Invalid cf_paths,
        |cf, _| has_empty_path(&cf.cf_paths),
        "a directory must have a path"),
    rule!(Unsupported periodic_compaction_seconds = 0,
        |cf, _| cf.periodic_compaction_seconds > 0 && cf.table_factory.block_based().is_none(),
        "needs block-based tables; set it to 0"),
];

/// The default compression of a column family, which replaces codecs that a build lacks.
fn default_codec() -> Compression {
    ColumnFamilyOptions::default().compression
}

/// Returns the first of some codecs that this build does not have.
fn missing_codec<'c>(codecs: impl IntoIterator<Item = &'c Compression>) -> Option<Compression> {
    let mut codecs = codecs.into_iter().copied();
    codecs.find(|codec| !codec.is_available())
}

/// Returns the advice for a missing codec: the build feature to enable, or another codec.
fn build_with(codec: Option<Compression>) -> String {
    match codec.and_then(Compression::feature) {
        Some(feature) => {
            format!(
                "this build has no such codec; build with the feature \"{feature}\", or choose another"
            )
        }
        None => "RocksDB has it on Windows only; choose another codec".to_owned(),
    }
}

/// Replaces the codecs of levels that this build does not have.
fn replace_missing_codecs(cf: &mut ColumnFamilyOptions) {
    let codecs = cf.compression_per_level.iter_mut();
    for codec in codecs.filter(|codec| !codec.is_available()) {
        *codec = default_codec();
    }
}

/// Whether `zstd_max_train_bytes` is set without `max_dict_bytes`.
fn trains_without_dictionary(options: &CompressionOptions) -> bool {
    options.zstd_max_train_bytes > 0 && options.max_dict_bytes == 0
}

/// Returns the reason why the family cannot have its kind of memtable.
fn memtable_error(cf: &ColumnFamilyOptions) -> Option<String> {
    let rep = cf.memtable_factory.rep();
    let error = rep.check(&cf.comparator, cf.prefix_extractor.is_some());
    error.err().map(|error| error.message().to_owned())
}
