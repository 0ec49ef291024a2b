//! Options that C sets and reads as numbers, and the engine by names and texts.

use std::ffi::CStr;

use crate::boundary::Failure;
use crate::memory::{self, ToC};

/// An object with named options.
pub(crate) trait Named {
    /// Sets an option from its text; a text that is refused fails the next open.
    fn set_text(&mut self, name: &str, value: &str);

    /// Returns the text of an option.
    fn text(&self, name: &str) -> koeldb::Result<String>;
}

/// The values that the engine refused, in the order of their setters.
///
/// A setter cannot fail: the first of them fails the open. A later value of the same option
/// replaces it, and until then the getter returns it.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Vec<Refusal>);

#[derive(Clone)]
struct Refusal {
    /// The group of the option that joined the options; empty for their own.
    group: &'static str,
    name: String,
    value: String,
    error: String,
}

impl Refusals {
    /// Keeps the error of a setter, or forgets an earlier one of the same option.
    pub(crate) fn note(&mut self, name: &str, value: &str, error: Option<String>) {
        self.0
            .retain(|refusal| !refusal.group.is_empty() || refusal.name != name);
        self.0.extend(error.map(|error| Refusal {
            group: "",
            name: name.to_owned(),
            value: value.to_owned(),
            error,
        }));
    }

    /// Takes over the refused values of a group, in place of those of an earlier one of its kind.
    pub(crate) fn join(&mut self, group: &'static str, refusals: &Refusals) {
        self.0.retain(|refusal| refusal.group != group);
        let joined = refusals.0.iter().cloned();
        self.0
            .extend(joined.map(|refusal| Refusal { group, ..refusal }));
    }

    /// Returns the refused value of an option.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let mut own = self.0.iter().filter(|refusal| refusal.group.is_empty());
        let found = own.find(|refusal| refusal.name == name);
        found.map(|refusal| refusal.value.as_str())
    }

    /// Returns the first error.
    pub(crate) fn error(&self) -> Option<&str> {
        self.0.first().map(|refusal| refusal.error.as_str())
    }
}

/// A value of C that becomes the text of an option.
pub(crate) trait Value {
    /// Returns the text of the value for the option `name`.
    fn text(&self, name: &str) -> String;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn text(&self, _: &str) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers!(bool, u8, u32, u64, i64, usize, f64);

impl Value for i32 {
    fn text(&self, name: &str) -> String {
        match names(name) {
            Some(COMPRESSIONS) if *self == OTHER_COMPRESSION => OTHER_COMPRESSION_NAME.to_owned(),
            Some(names) => {
                let at = usize::try_from(*self).ok();
                let name = at
                    .and_then(|at| names.get(at))
                    .filter(|name| !name.is_empty());
                name.map_or_else(|| self.to_string(), |name| (*name).to_owned())
            }
            None if name == UNLIMITED.0 && *self < 0 => UNLIMITED.1.to_owned(),
            None if is_bool(name) => (*self != 0).to_string(),
            None => self.to_string(),
        }
    }
}

impl Value for &CStr {
    fn text(&self, _: &str) -> String {
        self.to_string_lossy().into_owned()
    }
}

/// Returns whether an option is a switch that C declares as a number.
fn is_bool(name: &str) -> bool {
    matches!(name, "use_fsync" | "no_block_cache")
}

const COMPRESSIONS: &[&str] = &[
    "kNoCompression",
    "kSnappyCompression",
    "kZlibCompression",
    "kBZip2Compression",
    "kLZ4Compression",
    "kLZ4HCCompression",
    "kXpressCompression",
    "kZSTD",
];

/// The temperatures of files, whose numbers leave gaps.
const TEMPERATURES: &[&str] = &[
    "kUnknown", "", "", "", "kHot", "", "", "", "kWarm", "", "kCool", "", "kCold", "", "", "",
    "kIce",
];

/// The option whose negative numbers in C mean no limit, and its text for no limit.
const UNLIMITED: (&str, &str) = ("max_merge_width", "4294967295");

/// The number in C of the compression that means that of another option.
const OTHER_COMPRESSION: i32 = 0xff;

/// The name of the same compression.
const OTHER_COMPRESSION_NAME: &str = "kDisableCompressionOption";

/// Returns the texts of an option whose values are numbered in C; `None` for other options.
fn names(option: &str) -> Option<&'static [&'static str]> {
    Some(match option {
        "compression" | "bottommost_compression" | "blob_compression_type" | "wal_compression" => {
            COMPRESSIONS
        }
        "compaction_style" => &[
            "kCompactionStyleLevel",
            "kCompactionStyleUniversal",
            "kCompactionStyleFIFO",
        ],
        "compaction_pri" => &[
            "kByCompensatedSize",
            "kOldestLargestSeqFirst",
            "kOldestSmallestSeqFirst",
            "kMinOverlappingRatio",
            "kRoundRobin",
        ],
        "wal_recovery_mode" => &[
            "kTolerateCorruptedTailRecords",
            "kAbsoluteConsistency",
            "kPointInTimeRecovery",
            "kSkipAnyCorruptedRecords",
        ],
        "info_log_level" => &[
            "DEBUG_LEVEL",
            "INFO_LEVEL",
            "WARN_LEVEL",
            "ERROR_LEVEL",
            "FATAL_LEVEL",
            "HEADER_LEVEL",
        ],
        "prepopulate_blob_cache" => &["kDisable", "kFlushOnly"],
        "lowest_used_cache_tier" => &[
            "kVolatileTier",
            "kVolatileCompressedTier",
            "kNonVolatileBlockTier",
        ],
        "metadata_write_temperature"
        | "wal_write_temperature"
        | "last_level_temperature"
        | "default_write_temperature"
        | "default_temperature" => TEMPERATURES,
        "prepopulate_block_cache" => &["kDisable", "kFlushOnly", "kFlushAndCompaction"],
        "index_shortening" => &[
            "kNoShortening",
            "kShortenSeparators",
            "kShortenSeparatorsAndSuccessor",
        ],
        "index_type" => &["kBinarySearch", "kHashSearch", "kTwoLevelIndexSearch"],
        "data_block_index_type" => &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"],
        "index_block_search_type" => &["kBinary", "kInterpolation", "kAuto"],
        "checksum" => &["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"],
        "stop_style" => &[
            "kCompactionStopStyleSimilarSize",
            "kCompactionStopStyleTotalSize",
        ],
        "metadata_cache_options.top_level_index_pinning"
        | "metadata_cache_options.partition_pinning"
        | "metadata_cache_options.unpartitioned_pinning" => {
            &["kFallback", "kNone", "kFlushedAndSimilar", "kAll"]
        }
        _ => return None,
    })
}

/// Sets an option; a value that the engine refuses fails the next open.
#[expect(
    clippy::needless_pass_by_value,
    reason = "generated functions pass numbers, flags and texts alike"
)]
pub(crate) fn set<N: Named, V: Value>(target: &mut N, name: &str, value: V) {
    target.set_text(name, &value.text(name));
}

/// A value of an option that C reads.
pub(crate) trait FromText: Sized {
    /// Reads the text of the option `name`; `None` if it is not such a value.
    fn from_text(name: &str, text: &str) -> Option<Self>;
}

macro_rules! parsed {
    ($($type:ty),*) => {$(
        impl FromText for $type {
            fn from_text(_: &str, text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}

parsed!(u32, u64, i64, usize, f64);

impl FromText for u8 {
    fn from_text(_: &str, text: &str) -> Option<Self> {
        match text {
            "true" => Some(1),
            "false" => Some(0),
            number => number.parse().ok(),
        }
    }
}

impl FromText for bool {
    fn from_text(name: &str, text: &str) -> Option<Self> {
        u8::from_text(name, text).map(|value| value != 0)
    }
}

impl FromText for i32 {
    fn from_text(name: &str, text: &str) -> Option<Self> {
        match names(name) {
            Some(COMPRESSIONS) if text == OTHER_COMPRESSION_NAME => Some(OTHER_COMPRESSION),
            Some(names) => {
                let at = names.iter().position(|name| *name == text);
                // A number without a name was refused.
                at.map_or_else(|| text.parse().ok(), |at| Some(at.to_c()))
            }
            None if (name, text) == UNLIMITED => Some(-1),
            None if is_bool(name) => bool::from_text(name, text).map(i32::from),
            None => text.parse().ok(),
        }
    }
}

impl FromText for *mut std::ffi::c_char {
    fn from_text(_: &str, text: &str) -> Option<Self> {
        Some(memory::give_text(text))
    }
}

/// Returns the value of an option.
pub(crate) fn get<N: Named, V: FromText>(source: &N, name: &str) -> Result<V, Failure> {
    let text = source.text(name)?;
    let value = V::from_text(name, &text);
    value.ok_or_else(|| Failure::argument(format!("{name}={text} has no number in C")))
}
