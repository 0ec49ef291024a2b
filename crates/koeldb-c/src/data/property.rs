//! Properties and mutable options.

#![expect(unsafe_code, reason = "texts and arrays of the caller")]

use std::ffi::{CStr, c_char};

use koeldb::{ColumnFamily, Db};

use crate::boundary::Failure;
use crate::data::lists;
use crate::handle::{self, Handle};
use crate::memory::{self, Out};

/// Returns a property of a column family; null if it has none of the name.
fn text(family: &ColumnFamily, name: Result<&CStr, Failure>) -> *mut c_char {
    let name = name.ok().and_then(|name| name.to_str().ok());
    let value = name.and_then(|name| family.property_value(name).ok().flatten());
    memory::give_optional_text(value)
}

/// Returns a property of the default column family.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn value(db: *mut Handle<Db>, name: *const c_char) -> *mut c_char {
    // SAFETY: promised by the caller.
    let db = unsafe { handle::shared(db, "db") };
    // SAFETY: promised by the caller.
    let name = unsafe { memory::text(name, "propname") };
    db.map_or(std::ptr::null_mut(), |db| text(db.default_cf(), name))
}

/// Returns a property of a column family.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn value_cf(
    _: *mut Handle<Db>,
    family: *mut Handle<ColumnFamily>,
    name: *const c_char,
) -> *mut c_char {
    // SAFETY: promised by the caller.
    let family = unsafe { handle::shared(family, "column_family") };
    // SAFETY: promised by the caller.
    let name = unsafe { memory::text(name, "propname") };
    family.map_or(std::ptr::null_mut(), |family| text(family, name))
}

/// Writes a numeric property of the default column family; returns 0, or -1 if there is none.
pub(crate) fn number(db: &Db, name: &CStr, out: Out<'_, u64>) -> i32 {
    number_cf(db, db.default_cf(), name, out)
}

/// Writes a numeric property of a column family; returns 0, or -1 if there is none.
pub(crate) fn number_cf(_: &Db, family: &ColumnFamily, name: &CStr, out: Out<'_, u64>) -> i32 {
    let name = name.to_str().ok();
    let number = name.and_then(|name| family.property_int_value(name).ok().flatten());
    match (number, out) {
        (Some(number), Some(out)) => {
            out.write(number);
            0
        }
        _ => -1,
    }
}

/// Returns the names and values of options.
///
/// # Safety
/// Both arrays have `count` texts.
unsafe fn settings<'a>(
    count: i32,
    keys: *const *const c_char,
    values: *const *const c_char,
) -> Result<Vec<(&'a str, &'a str)>, Failure> {
    let count = lists::count(count);
    // SAFETY: promised by the caller.
    let keys = unsafe { lists::names(keys, count, "keys")? };
    // SAFETY: promised by the caller.
    let values = unsafe { lists::names(values, count, "values")? };
    Ok(keys.into_iter().zip(values).collect())
}

/// Changes options of the default column family.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn set_options(
    db: *mut Handle<Db>,
    count: i32,
    keys: *const *const c_char,
    values: *const *const c_char,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let db = unsafe { handle::shared(db, "db")? };
    // SAFETY: promised by the caller.
    let settings = unsafe { settings(count, keys, values)? };
    Ok(db.set_options(settings)?)
}

/// Changes options of a column family.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn set_options_cf(
    _: *mut Handle<Db>,
    family: *mut Handle<ColumnFamily>,
    count: i32,
    keys: *const *const c_char,
    values: *const *const c_char,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let family = unsafe { handle::shared(family, "handle")? };
    // SAFETY: promised by the caller.
    let settings = unsafe { settings(count, keys, values)? };
    Ok(family.set_options(settings)?)
}

/// Changes options of the database.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn set_db_options(
    db: *mut Handle<Db>,
    count: i32,
    keys: *const *const c_char,
    values: *const *const c_char,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let db = unsafe { handle::shared(db, "db")? };
    // SAFETY: promised by the caller.
    let settings = unsafe { settings(count, keys, values)? };
    Ok(db.set_db_options(settings)?)
}
