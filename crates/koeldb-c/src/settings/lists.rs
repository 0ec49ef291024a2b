//! Options that are lists of C.

#![expect(unsafe_code, reason = "the arrays are the caller's")]

use koeldb::{Compression, DbPath};

use crate::boundary::Failure;
use crate::handle::{self, Handle};
use crate::memory;
use crate::settings::options::Options;

/// The objects that C passes.
type Paths = *const *const Handle<DbPath>;

/// Runs a setter, and keeps its failure for the open.
///
/// # Safety
/// `options` is that of a setter.
unsafe fn keeping(
    options: *mut Handle<Options>,
    set: impl FnOnce(&mut Options) -> Result<(), Failure>,
) {
    // SAFETY: promised by the caller.
    let Ok(options) = (unsafe { handle::exclusive(options, "options") }) else {
        return;
    };
    if let Err(failure) = set(options) {
        options.fail("a list", failure.text());
    }
}

/// Returns the paths of an array.
///
/// # Safety
/// There are `count` paths.
unsafe fn paths(paths: Paths, count: usize) -> Result<Vec<DbPath>, Failure> {
    // SAFETY: promised by the caller.
    let paths = unsafe { memory::array(paths, count, "paths")? };
    let mut copies = Vec::new();
    for path in paths {
        // SAFETY: promised by the caller.
        let path = unsafe { handle::shared(*path, "path")? };
        copies.push(path.clone());
    }
    Ok(copies)
}

/// Sets the directories of table files.
///
/// # Safety
/// There are `count` paths.
pub(crate) unsafe fn set_db_paths(options: *mut Handle<Options>, list: Paths, count: usize) {
    let set = |options: &mut Options| {
        // SAFETY: promised by the caller.
        let paths = unsafe { paths(list, count)? };
        options.inner.set_db_paths(paths);
        Ok(())
    };
    // SAFETY: promised by the caller.
    unsafe { keeping(options, set) };
}

/// Sets the directories of table files of a column family.
///
/// # Safety
/// There are `count` paths.
pub(crate) unsafe fn set_cf_paths(options: *mut Handle<Options>, list: Paths, count: usize) {
    let set = |options: &mut Options| {
        // SAFETY: promised by the caller.
        let paths = unsafe { paths(list, count)? };
        options.inner.set_cf_paths(paths);
        Ok(())
    };
    // SAFETY: promised by the caller.
    unsafe { keeping(options, set) };
}

/// Sets the compression of each level.
///
/// # Safety
/// There are `count` numbers.
pub(crate) unsafe fn set_compression_per_level(
    options: *mut Handle<Options>,
    levels: *const i32,
    count: usize,
) {
    let set = |options: &mut Options| {
        // SAFETY: promised by the caller.
        let numbers = unsafe { memory::array(levels, count, "level_values")? };
        let codec = |number: &i32| {
            let at = usize::try_from(*number).ok();
            let codec = at.and_then(|at| Compression::ALL.get(at)).copied();
            codec.ok_or_else(|| Failure::argument(format!("{number} is no compression")))
        };
        let codecs: Vec<Compression> = numbers.iter().map(codec).collect::<Result<_, _>>()?;
        options.inner.set_compression_per_level(&codecs);
        Ok(())
    };
    // SAFETY: promised by the caller.
    unsafe { keeping(options, set) };
}

/// Sets the factors of the sizes of levels.
///
/// # Safety
/// There are `count` numbers.
pub(crate) unsafe fn set_level_factors(
    options: *mut Handle<Options>,
    factors: *mut i32,
    count: usize,
) {
    let set = |options: &mut Options| {
        // SAFETY: promised by the caller.
        let factors = unsafe { memory::array(factors.cast_const(), count, "level_values")? };
        options
            .inner
            .set_max_bytes_for_level_multiplier_additional(factors);
        Ok(())
    };
    // SAFETY: promised by the caller.
    unsafe { keeping(options, set) };
}
