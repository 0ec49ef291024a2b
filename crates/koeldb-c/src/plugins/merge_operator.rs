//! Merge operators of functions.

#![expect(unsafe_code, reason = "calls functions of the caller")]

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;

use koeldb::{BoxError, MergeOperands};

use crate::handle::{self, Handle};
use crate::memory::{self, ToC};
use crate::settings::options::Options;

use super::callbacks::{Destructor, Name, State, given};
use super::components;

type FullMerge = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    i32,
    *mut u8,
    *mut usize,
) -> *mut c_char;

type PartialMerge = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    i32,
    *mut u8,
    *mut usize,
) -> *mut c_char;

type DeleteValue = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// A merge operator (`rocksdb_mergeoperator_t`).
#[derive(Clone)]
pub(crate) struct MergeOperator(Arc<Functions>);

struct Functions {
    state: State,
    name: String,
    full_merge: Option<FullMerge>,
    partial_merge: Option<PartialMerge>,
    delete_value: Option<DeleteValue>,
}

/// The operands as arrays of C, oldest first.
struct Operands {
    pointers: Vec<*const c_char>,
    lengths: Vec<usize>,
}

impl Operands {
    fn new(operands: MergeOperands<'_>) -> Self {
        Operands {
            pointers: operands.iter().map(memory::pointer).collect(),
            lengths: operands.iter().map(<[u8]>::len).collect(),
        }
    }

    fn count(&self) -> i32 {
        self.lengths.len().to_c()
    }
}

/// The result of a function: bytes that its operator gives back.
struct Merged {
    success: u8,
    value: *mut c_char,
    length: usize,
}

impl Functions {
    /// Copies a result to `out` and gives it back; false if the function failed.
    ///
    /// A null pointer is an empty result, as in RocksDB.
    fn accept(&self, merged: &Merged, out: &mut Vec<u8>) -> bool {
        let mut is_success = false;
        if merged.success != 0 {
            // SAFETY: the function has returned so many bytes.
            let value = unsafe { memory::bytes(merged.value, merged.length, "a merged value") };
            is_success = value.is_ok();
            out.extend_from_slice(value.unwrap_or_default());
        }
        match self.delete_value {
            _ if merged.value.is_null() => {}
            // SAFETY: the value is from a function of this operator, and is not used any more.
            Some(delete) => unsafe { delete(self.state.get(), merged.value, merged.length) },
            // SAFETY: without the function, values are from the C heap.
            None => unsafe { memory::free(merged.value.cast()) },
        }
        is_success
    }
}

impl koeldb::MergeOperator for MergeOperator {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let merge = self.0.full_merge.ok_or("the operator has no full merge")?;
        let operands = Operands::new(operands);
        let (mut success, mut length) = (0, 0);
        // SAFETY: the function takes this state and these arrays, as the caller promises.
        let value = unsafe {
            merge(
                self.0.state.get(),
                memory::pointer(key),
                key.len(),
                existing.map_or(ptr::null(), memory::pointer),
                existing.map_or(0, <[u8]>::len),
                operands.pointers.as_ptr(),
                operands.lengths.as_ptr(),
                operands.count(),
                &raw mut success,
                &raw mut length,
            )
        };
        let merged = Merged {
            success,
            value,
            length,
        };
        match self.0.accept(&merged, result) {
            true => Ok(()),
            false => Err("Merge operator failed".into()),
        }
    }

    fn partial_merge(
        &self,
        key: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let Some(merge) = self.0.partial_merge else {
            return Ok(false);
        };
        let operands = Operands::new(operands);
        let (mut success, mut length) = (0, 0);
        // SAFETY: the function takes this state and these arrays, as the caller promises.
        let value = unsafe {
            merge(
                self.0.state.get(),
                memory::pointer(key),
                key.len(),
                operands.pointers.as_ptr(),
                operands.lengths.as_ptr(),
                operands.count(),
                &raw mut success,
                &raw mut length,
            )
        };
        let merged = Merged {
            success,
            value,
            length,
        };
        Ok(self.0.accept(&merged, result))
    }
}

/// Creates a merge operator.
pub(crate) fn create(
    state: *mut c_void,
    destructor: Destructor,
    full_merge: Option<FullMerge>,
    partial_merge: Option<PartialMerge>,
    delete_value: Option<DeleteValue>,
    name: Name,
) -> *mut Handle<MergeOperator> {
    let state = State::new(state, destructor);
    handle::give(MergeOperator(Arc::new(Functions {
        name: state.name(name),
        state,
        full_merge,
        partial_merge,
        delete_value,
    })))
}

/// Sets the merge operator of options; `None` removes theirs.
pub(super) fn apply(options: &mut Options, operator: Option<MergeOperator>) {
    match operator {
        Some(operator) => {
            options.inner.set_merge_operator(operator);
        }
        None => components::remove(options, "merge_operator"),
    }
}

given! {
    /// Gives options a merge operator; null removes theirs.
    set(Options, MergeOperator) = |options, operator| apply(options, operator)
}

/// Sets the operator that adds numbers of 8 bytes.
pub(crate) fn set_uint64add(options: &mut Options) {
    options.inner.set_merge_operator(koeldb::Uint64Add);
}
