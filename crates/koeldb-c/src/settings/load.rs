//! Options read from the newest OPTIONS file of a database.

#![expect(unsafe_code, reason = "writes lists of the caller")]

use std::ffi::c_char;

use koeldb::{Cache, ConfigOptions, Env};

use crate::boundary::Failure;
use crate::data::lists;
use crate::handle::{self, Handle};
use crate::memory;
use crate::settings::options::Options;

/// Reads the newest OPTIONS file of a database.
///
/// # Safety
/// The pointers are those of the C function.
#[expect(clippy::too_many_arguments, reason = "those of the C function")]
pub(crate) unsafe fn load_latest(
    directory: *const c_char,
    env: *mut Handle<Env>,
    ignore_unknown: bool,
    cache: *mut Handle<Cache>,
    db_options: *mut *mut Handle<Options>,
    count: *mut usize,
    names: *mut *mut *mut c_char,
    families: *mut *mut *mut Handle<Options>,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    unsafe { memory::set(db_options, std::ptr::null_mut()) };
    // SAFETY: promised by the caller.
    unsafe { memory::set(count, 0) };
    // SAFETY: promised by the caller.
    unsafe { memory::set(names, std::ptr::null_mut()) };
    // SAFETY: promised by the caller.
    unsafe { memory::set(families, std::ptr::null_mut()) };
    // SAFETY: promised by the caller.
    let directory = memory::path(unsafe { memory::text(directory, "db_path")? });
    // SAFETY: promised by the caller.
    let env = unsafe { handle::shared(env, "env")? };
    // SAFETY: promised by the caller.
    let cache = unsafe { handle::optional(cache) };
    let mut how = ConfigOptions::new();
    how.set_ignore_unknown_options(ignore_unknown);
    // As in RocksDB: the caller sets comparators and other objects of its own again.
    how.set_ignore_unsupported_options(true);
    let loaded = koeldb::Options::load_latest_in(env, directory, &how)?;
    let mut texts = Vec::new();
    let mut objects = Vec::new();
    for (name, family) in &loaded.column_families {
        let mut options = koeldb::Options::new();
        options.cf_options_mut().clone_from(family);
        if let Some(cache) = cache {
            use_cache(&mut options, cache);
        }
        texts.push(memory::give_text(name));
        objects.push(handle::give(Some(Options::from(options))));
    }
    let mut options = loaded.options;
    options.set_env(env);
    // SAFETY: promised by the caller.
    unsafe { memory::set(db_options, handle::give(Some(Options::from(options)))) };
    // SAFETY: promised by the caller.
    unsafe { memory::set(count, texts.len()) };
    // SAFETY: promised by the caller.
    unsafe { memory::set(names, lists::give_array(&texts)) };
    // SAFETY: promised by the caller.
    unsafe { memory::set(families, lists::give_array(&objects)) };
    Ok(())
}

/// Reads the tables of a family through a cache.
fn use_cache(options: &mut koeldb::Options, cache: &Cache) {
    if let Some(tables) = options.get_table_format().block_based() {
        let mut tables = tables.clone();
        tables.set_block_cache(cache);
        options.set_block_based_table_factory(&tables);
    }
}

/// Frees the options, names and arrays of [`load_latest`].
///
/// # Safety
/// The pointers are from [`load_latest`], and are not used again.
pub(crate) unsafe fn destroy(
    db_options: *mut Handle<Options>,
    names: *mut *mut c_char,
    families: *mut *mut Handle<Options>,
    count: usize,
) {
    // SAFETY: promised by the caller.
    unsafe { handle::destroy(db_options) };
    // SAFETY: promised by the caller.
    unsafe { lists::free_texts(names, count) };
    if !families.is_null() {
        // SAFETY: promised by the caller.
        let list = unsafe { memory::array(families.cast_const(), count, "families") };
        for family in list.unwrap_or_default() {
            // SAFETY: promised by the caller.
            unsafe { handle::destroy(*family) };
        }
    }
    // SAFETY: promised by the caller.
    unsafe { memory::free(families.cast()) };
}
