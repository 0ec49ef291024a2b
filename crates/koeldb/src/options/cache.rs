//! Block caches as texts describe them: `8M`, `{capacity=8M;num_shard_bits=4;}`, `null`.

use super::grammar;
use super::registry::{OptionValue, Reading, Refusal, Style, option_section};
use super::value::read_scalar;

option_section! {
    /// An LRU cache as a text describes it.
    pub(crate) struct CacheSettings, "cache string";
    options {
        /// The capacity.
        [core fixed "6.10"] capacity: u64 = 0, "Bytes.";
        /// The logarithm of the number of shards.
        [core fixed "6.10"] num_shard_bits: i32 = -1, "Below 20; -1 = by capacity.";
        /// Whether inserts that do not fit fail.
        [core fixed "6.10"] strict_capacity_limit: bool = false, "";
        /// The share reserved for high-priority entries.
        [core fixed "6.10"] high_pri_pool_ratio: f64 = 0.5, "0..1; together with low_pri_pool_ratio at most 1.";
        /// The share reserved for low-priority entries.
        [later fixed "6.10"] low_pri_pool_ratio: f64 = 0.0, "0..1.";
    }
    declined {}
    removed {}
    aliases {}
    accessors {}
    short_form read_capacity;
}

/// `8M` is short for `{capacity=8M;}`.
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

/// The block cache option. It has no text of its own: a file read back has the default cache.
#[derive(Clone, Debug, Default)]
pub(crate) enum BlockCache {
    /// None given: a cache of 32 MiB is made at open, unless there is to be none.
    #[default]
    Default,
    /// As described.
    Described(CacheSettings),
}

impl OptionValue for BlockCache {
    fn kind() -> String {
        "cache string".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading<'_>) -> Result<(), Refusal> {
        let text = grammar::trim(text);
        if text.starts_with("null") {
            *self = BlockCache::Default;
            return Ok(());
        }
        if text.contains("://") {
            return Err(Refusal::unsupported(format!(
                "{name}={text}: no cache is known by an address; give a size or {{capacity=…;num_shard_bits=…;}}"
            )));
        }
        let mut settings = CacheSettings::default();
        settings.read(name, text, reading)?;
        *self = BlockCache::Described(settings);
        Ok(())
    }

    fn write(&self, _: Style) -> Option<String> {
        None
    }
}
