//! Prefix extractors, which select the part of a key for prefix filters and hash indexes.

use std::sync::Arc;

/// A function that extracts the prefix of a user key (RocksDB: `SliceTransform`).
///
/// Its name is recorded in table properties.
pub trait PrefixExtractor: Send + Sync + 'static {
    /// The extractor's name, recorded in table properties.
    fn name(&self) -> &str;

    /// Returns the prefix of a key; `None` if the key is outside the domain (RocksDB: `InDomain`).
    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]>;

    /// Whether exactly the keys that begin with the bytes of `prefix` have this prefix.
    ///
    /// Scans use filters of such prefixes only. The default is false.
    fn is_leading(&self, prefix: &[u8]) -> bool {
        let _ = prefix;
        false
    }
}

/// `rocksdb.FixedPrefix.N`: the first N bytes; shorter keys are outside the domain.
#[derive(Clone, Debug)]
pub struct FixedPrefix {
    len: usize,
    name: String,
}

impl FixedPrefix {
    /// Creates an extractor of prefixes of `len` bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        FixedPrefix {
            len,
            name: format!("rocksdb.FixedPrefix.{len}"),
        }
    }
}

impl PrefixExtractor for FixedPrefix {
    fn name(&self) -> &str {
        &self.name
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(..self.len)
    }

    fn is_leading(&self, prefix: &[u8]) -> bool {
        prefix.len() == self.len
    }
}

/// `rocksdb.CappedPrefix.N`: the first N bytes, or all of a shorter key.
#[derive(Clone, Debug)]
pub struct CappedPrefix {
    max: usize,
    name: String,
}

impl CappedPrefix {
    /// Creates an extractor of prefixes of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        CappedPrefix {
            max,
            name: format!("rocksdb.CappedPrefix.{max}"),
        }
    }
}

impl PrefixExtractor for CappedPrefix {
    fn name(&self) -> &str {
        &self.name
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        Some(&key[..self.max.min(key.len())])
    }

    fn is_leading(&self, prefix: &[u8]) -> bool {
        prefix.len() == self.max
    }
}

/// `rocksdb.Noop`: the whole key.
#[derive(Clone, Copy, Debug, Default)]
pub struct WholeKeyPrefix;

impl PrefixExtractor for WholeKeyPrefix {
    fn name(&self) -> &str {
        "rocksdb.Noop"
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        Some(key)
    }
}

/// The built-in extractor with this id: `fixed:N`, `capped:N`, or a recorded name.
#[must_use]
pub fn by_id(id: &str) -> Option<Arc<dyn PrefixExtractor>> {
    let number = |prefix: &str| {
        id.strip_prefix(prefix)
            .and_then(|digits| digits.parse().ok())
    };
    if let Some(len) = number("fixed:").or_else(|| number("rocksdb.FixedPrefix.")) {
        return Some(Arc::new(FixedPrefix::new(len)));
    }
    if let Some(max) = number("capped:").or_else(|| number("rocksdb.CappedPrefix.")) {
        return Some(Arc::new(CappedPrefix::new(max)));
    }
    (id == "rocksdb.Noop").then(|| Arc::new(WholeKeyPrefix) as Arc<dyn PrefixExtractor>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_extractors() {
        let fixed = by_id("fixed:3").unwrap();
        assert_eq!(fixed.name(), "rocksdb.FixedPrefix.3");
        assert_eq!(
            (fixed.prefix(b"abcd"), fixed.prefix(b"ab")),
            (Some(&b"abc"[..]), None)
        );
        let capped = by_id("rocksdb.CappedPrefix.3").unwrap();
        assert_eq!(capped.prefix(b"ab"), Some(&b"ab"[..]));
        assert!(by_id("fixed:x").is_none());
    }
}
