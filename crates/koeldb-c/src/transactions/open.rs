//! Opening databases with transactions.

#![expect(unsafe_code, reason = "arrays of the caller")]

use std::ffi::{CStr, c_char};

use koeldb::{ColumnFamily, Db};

use crate::boundary::Failure;
use crate::data::open::open_column_families;
use crate::handle::{self, Handle};
use crate::memory::path;
use crate::settings::options::Options;
use crate::transactions::options::{DbOptions, OptimisticDbOptions};

/// The largest number of a write policy: that of WRITE_UNPREPARED.
const WRITE_POLICY_MAX: i32 = 2;

/// Returns options of a database with pessimistic transactions.
///
/// Every policy writes a transaction when it commits, as WRITE_COMMITTED does: the others differ in
/// speed and memory.
fn pessimistic(options: &Options, transactions: &DbOptions) -> Result<Options, Failure> {
    if !(0..=WRITE_POLICY_MAX).contains(&transactions.write_policy()) {
        return Err(Failure::argument("the write policy is unknown"));
    }
    let mut options = options.clone();
    options.inner.set_transactions(&transactions.inner);
    Ok(options)
}

/// Opens a database with pessimistic transactions.
pub(crate) fn open(
    options: &Options,
    transactions: &DbOptions,
    name: &CStr,
) -> Result<Db, Failure> {
    let options = pessimistic(options, transactions)?;
    Ok(Db::open(options.checked()?, path(name))?)
}

/// Opens a database with pessimistic transactions, and its column families.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn open_families(
    options: *const Handle<Options>,
    transactions: *const Handle<DbOptions>,
    name: *const c_char,
    count: i32,
    names: *const *const c_char,
    family_options: *const *const Handle<Options>,
    handles: *mut *mut Handle<ColumnFamily>,
) -> Result<*mut Handle<Db>, Failure> {
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "options")? };
    // SAFETY: promised by the caller.
    let transactions = unsafe { handle::shared(transactions, "txn_db_options")? };
    let options = Handle::new(pessimistic(options, transactions)?);
    // SAFETY: promised by the caller.
    unsafe { open_column_families(&options, name, count, names, family_options, handles) }
}

/// Opens a database with optimistic transactions.
pub(crate) fn open_optimistic(
    options: &Options,
    _: &OptimisticDbOptions,
    name: &CStr,
) -> Result<Db, Failure> {
    crate::data::db::open(options, name)
}

/// Opens a database with optimistic transactions, and its column families.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn open_optimistic_families(
    options: *const Handle<Options>,
    _: *const Handle<OptimisticDbOptions>,
    name: *const c_char,
    count: i32,
    names: *const *const c_char,
    family_options: *const *const Handle<Options>,
    handles: *mut *mut Handle<ColumnFamily>,
) -> Result<*mut Handle<Db>, Failure> {
    // SAFETY: promised by the caller.
    unsafe { open_column_families(options, name, count, names, family_options, handles) }
}

/// Returns another handle of the database, which closes nothing.
pub(crate) fn base(db: &Db) -> Db {
    db.clone()
}
