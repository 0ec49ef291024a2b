//! Comparators of functions, with and without timestamps.

#![expect(unsafe_code, reason = "calls functions of the caller")]

use std::cmp::Ordering;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

use koeldb::Timestamp;

use crate::handle::{self, Handle};
use crate::memory::pointer;
use crate::settings::options::Options;

use super::callbacks::{Destructor, Name, State};

type Compare = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> i32;

type CompareWithout =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, u8, *const c_char, usize, u8) -> i32;

/// A comparator (`rocksdb_comparator_t`). Options share it.
#[derive(Clone)]
pub(crate) struct Comparator(Arc<Functions>);

struct Functions {
    state: State,
    name: String,
    compare: Compare,
    timestamp_bytes: usize,
    compare_timestamps: Option<Compare>,
    compare_without: Option<CompareWithout>,
}

impl Functions {
    fn call(&self, compare: Compare, a: &[u8], b: &[u8]) -> Ordering {
        let state = self.state.get();
        let (a, a_length) = (pointer(a), a.len());
        let (b, b_length) = (pointer(b), b.len());
        // SAFETY: the function takes this state and bytes, as the caller promises.
        let order = unsafe { compare(state, a, a_length, b, b_length) };
        order.cmp(&0)
    }
}

impl koeldb::Comparator for Comparator {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.call(self.0.compare, a, b)
    }

    // The caller sets filters only if equal keys have equal bytes, as in RocksDB.
    fn permits_hashes(&self) -> bool {
        true
    }

    fn timestamp_bytes(&self) -> usize {
        self.0.timestamp_bytes
    }

    fn compare_timestamps(&self, a: &Timestamp, b: &Timestamp) -> Ordering {
        match self.0.compare_timestamps {
            Some(compare) => self.0.call(compare, a, b),
            // As in RocksDB.
            None => Ordering::Equal,
        }
    }

    fn compare_without_timestamps(&self, a: &[u8], b: &[u8]) -> Ordering {
        let Some(compare) = self.0.compare_without else {
            return self.compare(a, b);
        };
        let state = self.0.state.get();
        let (a, a_length) = (pointer(a), a.len());
        let (b, b_length) = (pointer(b), b.len());
        // SAFETY: the function takes this state and bytes, as the caller promises.
        let order = unsafe { compare(state, a, a_length, 0, b, b_length, 0) };
        order.cmp(&0)
    }
}

/// Creates a comparator; null without `compare`.
pub(crate) fn create(
    state: *mut c_void,
    destructor: Destructor,
    compare: Option<Compare>,
    name: Name,
) -> *mut Handle<Comparator> {
    create_with_timestamps(state, destructor, compare, None, None, name, 0)
}

/// Creates a comparator of keys with timestamps; null without `compare`.
pub(crate) fn create_with_timestamps(
    state: *mut c_void,
    destructor: Destructor,
    compare: Option<Compare>,
    compare_timestamps: Option<Compare>,
    compare_without: Option<CompareWithout>,
    name: Name,
    timestamp_bytes: usize,
) -> *mut Handle<Comparator> {
    let state = State::new(state, destructor);
    handle::give(compare.map(|compare| {
        Comparator(Arc::new(Functions {
            name: state.name(name),
            state,
            compare,
            timestamp_bytes,
            compare_timestamps,
            compare_without,
        }))
    }))
}

/// Sets the comparator of options.
pub(crate) fn set(options: &mut Options, comparator: &Comparator) {
    options.inner.set_comparator(comparator.clone());
}
