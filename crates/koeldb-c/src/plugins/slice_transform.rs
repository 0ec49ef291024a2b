//! Prefix extractors: functions, prefixes of a fixed length, whole keys.

#![expect(unsafe_code, reason = "calls functions of the caller")]

use std::ffi::{c_char, c_void};

use koeldb::{FixedPrefix, PrefixExtractor};

use crate::boundary::needed;
use crate::handle::{self, Handle};
use crate::memory;
use crate::settings::options::Options;

use super::callbacks::{Destructor, Name, State, given};
use super::components;

type Transform = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut usize) -> *mut c_char;
type InDomain = unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> u8;

/// A prefix extractor (`rocksdb_slicetransform_t`).
pub(crate) enum SliceTransform {
    Functions(Functions),
    Fixed(FixedPrefix),
    WholeKey,
}

pub(crate) struct Functions {
    state: State,
    name: String,
    transform: Transform,
    in_domain: Option<InDomain>,
}

impl Functions {
    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let state = self.state.get();
        let (bytes, length) = (memory::pointer(key), key.len());
        if let Some(in_domain) = self.in_domain {
            // SAFETY: the function takes this state and bytes, as the caller promises.
            let is_inside = unsafe { in_domain(state, bytes, length) };
            if is_inside == 0 {
                return None;
            }
        }
        let mut prefix_length = 0;
        // SAFETY: the function takes this state and bytes, as the caller promises.
        let prefix = unsafe { (self.transform)(state, bytes, length, &raw mut prefix_length) };
        // SAFETY: the function returns a part of the key, or bytes that live as long as its state.
        Some(needed(unsafe {
            memory::bytes(prefix, prefix_length, "a prefix")
        }))
    }
}

impl PrefixExtractor for SliceTransform {
    fn name(&self) -> &str {
        match self {
            SliceTransform::Functions(functions) => &functions.name,
            SliceTransform::Fixed(fixed) => fixed.name(),
            SliceTransform::WholeKey => "rocksdb.Noop",
        }
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        match self {
            SliceTransform::Functions(functions) => functions.prefix(key),
            SliceTransform::Fixed(fixed) => fixed.prefix(key),
            SliceTransform::WholeKey => Some(key),
        }
    }

    fn is_leading(&self, prefix: &[u8]) -> bool {
        match self {
            SliceTransform::Fixed(fixed) => fixed.is_leading(prefix),
            _ => false,
        }
    }
}

/// Creates an extractor of functions; null without `transform`.
pub(crate) fn create(
    state: *mut c_void,
    destructor: Destructor,
    transform: Option<Transform>,
    in_domain: Option<InDomain>,
    name: Name,
) -> *mut Handle<SliceTransform> {
    let state = State::new(state, destructor);
    handle::give(transform.map(|transform| {
        SliceTransform::Functions(Functions {
            name: state.name(name),
            state,
            transform,
            in_domain,
        })
    }))
}

/// Creates the extractor of the first bytes; shorter keys have no prefix.
pub(crate) fn create_fixed_prefix(bytes: usize) -> SliceTransform {
    SliceTransform::Fixed(FixedPrefix::new(bytes))
}

/// Creates the extractor whose prefix is the whole key.
pub(crate) fn create_noop() -> SliceTransform {
    SliceTransform::WholeKey
}

/// Sets the extractor of options; `None` removes theirs.
pub(super) fn apply(options: &mut Options, extractor: Option<SliceTransform>) {
    match extractor {
        Some(extractor) => {
            options.inner.set_prefix_extractor(extractor);
        }
        None => components::remove(options, "prefix_extractor"),
    }
}

given! {
    /// Gives options an extractor; null removes theirs.
    set(Options, SliceTransform) = |options, extractor| apply(options, extractor)
}
