//! Prefix extractors.

use koeldb::{FixedPrefix, PrefixExtractor};

use crate::CStrLike;
use crate::c_str::text;

/// A prefix extractor (`SliceTransform`): returns the part of a key that prefix filters contain.
pub struct SliceTransform(Kind);

/// The kinds of prefix extractors: caller's functions, fixed length, whole key.
enum Kind {
    Function(Function),
    Fixed(usize),
    Noop,
}

/// Returns the prefix of a key.
pub(crate) type TransformFn = for<'a> fn(&'a [u8]) -> &'a [u8];

/// Whether a key has a prefix.
pub(crate) type InDomainFn = fn(&[u8]) -> bool;

/// A prefix extractor made of the caller's functions.
struct Function {
    name: String,
    transform: TransformFn,
    in_domain: Option<InDomainFn>,
}

impl PrefixExtractor for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let has_prefix = self.in_domain.is_none_or(|in_domain| in_domain(key));
        has_prefix.then(|| (self.transform)(key))
    }
}

/// The prefix extractor whose prefix is the whole key (`rocksdb.Noop`).
struct WholeKey;

impl PrefixExtractor for WholeKey {
    fn name(&self) -> &'static str {
        "rocksdb.Noop"
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        Some(key)
    }
}

impl SliceTransform {
    /// Creates a prefix extractor from functions; without `in_domain_fn`, every key has a prefix.
    pub fn create(
        name: impl CStrLike,
        transform_fn: TransformFn,
        in_domain_fn: Option<InDomainFn>,
    ) -> SliceTransform {
        SliceTransform(Kind::Function(Function {
            name: text(name),
            transform: transform_fn,
            in_domain: in_domain_fn,
        }))
    }

    /// Creates a prefix extractor of the first `len` bytes; shorter keys have no prefix.
    #[must_use]
    pub fn create_fixed_prefix(len: usize) -> SliceTransform {
        SliceTransform(Kind::Fixed(len))
    }

    /// Creates a prefix extractor whose prefix is the whole key.
    #[must_use]
    pub fn create_noop() -> SliceTransform {
        SliceTransform(Kind::Noop)
    }

    /// Sets this prefix extractor in the engine's options.
    pub(crate) fn set_in(self, options: &mut koeldb::Options) {
        match self.0 {
            Kind::Function(function) => options.set_prefix_extractor(function),
            Kind::Fixed(len) => options.set_prefix_extractor(FixedPrefix::new(len)),
            Kind::Noop => options.set_prefix_extractor(WholeKey),
        };
    }
}
