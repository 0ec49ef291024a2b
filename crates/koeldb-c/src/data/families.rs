//! Column families: names, handles, creation and removal.

#![expect(unsafe_code, reason = "arrays of the caller")]

use std::ffi::{CStr, c_char};

use koeldb::{ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Db};

use crate::boundary::Failure;
use crate::data::{db, lists};
use crate::handle::{self, Handle};
use crate::memory;
use crate::settings::options::Options;

/// Returns the options of a column family.
fn of_family(options: &Options) -> Result<ColumnFamilyOptions, Failure> {
    Ok(ColumnFamilyOptions::from(options.checked()?))
}

/// Returns the names of the column families of a closed database, as an array.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn list(
    options: *const Handle<Options>,
    name: *const c_char,
    count: *mut usize,
) -> Result<*mut *mut c_char, Failure> {
    // SAFETY: promised by the caller.
    unsafe { memory::set(count, 0) };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "options")? };
    // SAFETY: promised by the caller.
    let name = unsafe { memory::text(name, "name")? };
    let names = Db::list_cf(options.checked()?, memory::path(name))?;
    // SAFETY: promised by the caller.
    unsafe { memory::set(count, names.len()) };
    Ok(lists::give_texts(names))
}

/// Creates a column family.
pub(crate) fn create(db: &Db, options: &Options, name: &CStr) -> Result<ColumnFamily, Failure> {
    Ok(db.create_cf(memory::name(name)?, &of_family(options)?)?)
}

/// Creates a column family whose values expire.
pub(crate) fn create_with_ttl(
    db: &Db,
    options: &Options,
    name: &CStr,
    ttl: i32,
) -> Result<ColumnFamily, Failure> {
    let options = of_family(options)?;
    let ttl = db::time_to_live(ttl);
    Ok(db.create_cf_with_ttl(memory::name(name)?, &options, ttl)?)
}

/// Creates column families of one kind; returns an array of their handles.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn create_several(
    db: *mut Handle<Db>,
    options: *const Handle<Options>,
    count: i32,
    names: *const *const c_char,
    created: *mut usize,
) -> Result<*mut *mut Handle<ColumnFamily>, Failure> {
    // SAFETY: promised by the caller.
    unsafe { memory::set(created, 0) };
    // SAFETY: promised by the caller.
    let db = unsafe { handle::shared(db, "db")? };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "column_family_options")? };
    // SAFETY: promised by the caller.
    let names = unsafe { lists::names(names, lists::count(count), "column_family_names")? };
    let options = of_family(options)?;
    let descriptor = |name| ColumnFamilyDescriptor::new(name, options.clone());
    let families = db.create_cfs(names.into_iter().map(descriptor))?;
    // SAFETY: promised by the caller.
    unsafe { memory::set(created, families.len()) };
    let handles: Vec<_> = families.into_iter().map(handle::give).collect();
    Ok(lists::give_array(&handles))
}

/// Frees an array of handles, but not the handles.
///
/// # Safety
/// The array is null or from [`create_several`], and is not used again.
pub(crate) unsafe fn free_list(list: *mut *mut Handle<ColumnFamily>) {
    // SAFETY: promised by the caller.
    unsafe { libc::free(list.cast()) };
}

/// Drops a column family, whose handle remains to be destroyed.
pub(crate) fn drop_family(db: &Db, family: &ColumnFamily) -> koeldb::Result<()> {
    db.drop_cf(family)
}

/// Returns a handle of the default column family.
pub(crate) fn default_family(db: &Db) -> ColumnFamily {
    db.default_cf().clone()
}

/// Returns the id of a column family.
pub(crate) fn id(family: &ColumnFamily) -> u32 {
    family.id()
}

/// Returns the name of a column family.
pub(crate) fn name(family: &ColumnFamily) -> Option<&str> {
    Some(family.name())
}
