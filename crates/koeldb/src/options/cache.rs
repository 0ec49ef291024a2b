//! Block caches: handles, and the texts `8M`, `{capacity=8M;num_shard_bits=4;}`, `null`.

use std::fmt;

use koeldb_cache::{CacheOptions, CachePolicy};
use koeldb_table::source::CachedBlock;

use super::declare::option_section;
use super::grammar;
use super::object::{Description, set_members, unknown_id};
use super::registry::{self, OptionValue, Reading, Refusal, Settings, Style};
use super::value::read_scalar;

option_section! {
    /// The options of an LRU cache given as text, as for `block_cache`.
    pub(crate) struct CacheSettings, "cache string (block_cache, blob_cache)";
    options {
        /// The capacity.
        [honoured fixed "6.10"] capacity: u64 = 0, "Bytes.";
        /// The logarithm of the number of shards.
        [honoured fixed "6.10"] num_shard_bits: i32 = -1, "Below 20; negative = by capacity.";
        /// Whether inserts that do not fit fail.
        [honoured fixed "6.10"] strict_capacity_limit: bool = false, "";
        /// The share reserved for high-priority entries.
        [honoured fixed "6.10"] high_pri_pool_ratio: f64 = 0.5, "0..1; together with low_pri_pool_ratio at most 1.";
        /// The share reserved for low-priority entries.
        [accepted fixed "6.10"] low_pri_pool_ratio: f64 = 0.0, "0..1.";
    }
    declined {}
    removed {}
    aliases {}
    accessors {}
    short_form read_capacity;
}

/// Reads the short form of a cache text, the capacity alone (`8M`); `None` for another form.
fn read_capacity(
    target: &mut CacheSettings,
    name: &str,
    text: &str,
) -> Option<Result<(), Refusal>> {
    let text = grammar::strip_braces(text);
    (!text.contains('=')).then(|| {
        target.capacity = read_scalar(name, text)?;
        Ok(())
    })
}

/// A cache of uncompressed blocks and of values in blob files, shared by clones, column families and databases.
#[derive(Clone)]
pub struct Cache {
    blocks: koeldb_cache::Cache<CachedBlock>,
    /// The settings in the cache's text that have no effect.
    without_effect: Settings,
}

impl Cache {
    /// Creates an LRU cache of this many bytes.
    #[must_use]
    pub fn new_lru_cache(bytes: u64) -> Self {
        Self::with(&CacheOptions {
            capacity_bytes: bytes,
            policy: CachePolicy::Lru,
            ..CacheOptions::default()
        })
    }

    /// Creates a scan-resistant clock cache of this many bytes.
    #[must_use]
    pub fn new_clock_cache(bytes: u64) -> Self {
        Self::with(&CacheOptions {
            capacity_bytes: bytes,
            policy: CachePolicy::S3Fifo,
            ..CacheOptions::default()
        })
    }

    /// Creates a cache with these options.
    fn with(options: &CacheOptions) -> Self {
        Cache {
            blocks: koeldb_cache::Cache::new(options),
            without_effect: Vec::new(),
        }
    }

    /// Changes the capacity, and evicts blocks beyond it.
    ///
    /// Blocks in use remain until a later insertion finds them released.
    pub fn set_capacity(&self, bytes: u64) {
        self.blocks.set_capacity(bytes);
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn get_capacity(&self) -> u64 {
        self.blocks.capacity()
    }

    /// The memory of all cached blocks in bytes.
    #[must_use]
    pub fn get_usage(&self) -> u64 {
        self.blocks.usage()
    }

    /// The memory of the pinned blocks, in use by readers, in bytes.
    #[must_use]
    pub fn get_pinned_usage(&self) -> u64 {
        self.blocks.pinned_usage()
    }

    /// The number of cached blocks and values.
    #[must_use]
    pub fn get_occupancy_count(&self) -> u64 {
        self.blocks.len()
    }

    /// The number of buckets in the hash tables of the cache.
    #[must_use]
    pub fn get_table_address_count(&self) -> u64 {
        self.blocks.bucket_count()
    }

    /// Returns the underlying block cache, for table readers.
    pub(crate) fn blocks(&self) -> &koeldb_cache::Cache<CachedBlock> {
        &self.blocks
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("capacity", &self.get_capacity())
            .field("usage", &self.get_usage())
            .finish()
    }
}

impl CacheSettings {
    /// Creates the LRU cache; an error names the option `name` and the bad setting.
    fn make(&self, name: &str) -> Result<Cache, Refusal> {
        let refuse = |why: &str| Err(Refusal::invalid(format!("{name}: {why}")));
        let shard_bits = u32::try_from(self.num_shard_bits).ok();
        if shard_bits.is_some_and(|bits| bits >= 20) {
            return refuse("num_shard_bits is below 20, or negative for a choice by capacity");
        }
        let shares = [self.high_pri_pool_ratio, self.low_pri_pool_ratio];
        if shares.iter().any(|share| !(0.0..=1.0).contains(share))
            || shares.iter().sum::<f64>() > 1.0
        {
            return refuse(
                "high_pri_pool_ratio and low_pri_pool_ratio are from 0 to 1, and so is their sum",
            );
        }
        Ok(Cache::with(&CacheOptions {
            capacity_bytes: self.capacity,
            shard_bits,
            strict_capacity: self.strict_capacity_limit,
            high_priority_ratio: self.high_pri_pool_ratio,
            policy: CachePolicy::Lru,
        }))
    }
}

/// An option with a cache, which has no text form: reading a file gives
/// `None`, and open then creates the default cache.
impl OptionValue for Option<Cache> {
    fn kind() -> String {
        "cache string".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal> {
        let text = grammar::trim(text);
        if text.starts_with("null") {
            *self = None;
            return Ok(());
        }
        if text.contains("://") {
            return Err(Refusal::unsupported(format!(
                "{name}={text}: a cache cannot be given by its address; give a size or {{capacity=…;num_shard_bits=…;}}"
            )));
        }
        let mut settings = CacheSettings::default();
        let names_id = |members: Vec<(&str, &str)>| members.iter().any(|(name, _)| *name == "id");
        if text.starts_with('{') && grammar::pairs(text).is_ok_and(names_id) {
            match Description::parse(name, text)? {
                Some(description) if description.id == "LRUCache" => {
                    set_members(&mut settings, name, &description, reading)?;
                }
                Some(_) => return Err(unknown_id("Cache", name, text, "LRUCache")),
                None => {
                    *self = None;
                    return Ok(());
                }
            }
        } else {
            settings.read(name, text, reading)?;
        }
        let mut cache = settings.make(name)?;
        registry::without_effect(&settings, "", &mut cache.without_effect);
        *self = Some(cache);
        Ok(())
    }

    fn write(&self, _: Style) -> Option<String> {
        None
    }

    fn members_without_effect(&self, path: &str, out: &mut Settings) {
        let settings = self.iter().flat_map(|cache| &cache.without_effect);
        out.extend(settings.map(|(name, text)| (format!("{path}.{name}"), text.clone())));
    }
}
