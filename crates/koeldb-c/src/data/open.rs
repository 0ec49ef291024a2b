//! Opening databases with their column families.

#![expect(unsafe_code, reason = "arrays of the caller")]

use std::ffi::c_char;

use koeldb::{ColumnFamily, ColumnFamilyOptions, Db, DbBuilder};

use crate::boundary::Failure;
use crate::data::{db, lists};
use crate::handle::{self, Handle};
use crate::memory;
use crate::settings::options::Options;

/// The arguments common to the functions of this module.
struct Request<'a> {
    options: &'a koeldb::Options,
    builder: DbBuilder,
    path: &'a std::path::Path,
    names: Vec<&'a str>,
}

impl<'a> Request<'a> {
    /// Reads the arguments of C.
    ///
    /// # Safety
    /// The pointers are those of `rocksdb_open_column_families`, and outlive `'a`.
    unsafe fn new(
        options: *const Handle<Options>,
        name: *const c_char,
        count: usize,
        names: *const *const c_char,
        family_options: *const *const Handle<Options>,
    ) -> Result<Self, Failure> {
        // SAFETY: promised by the caller.
        let options = unsafe { handle::shared(options, "options")? };
        // SAFETY: promised by the caller.
        let name = unsafe { memory::text(name, "name")? };
        // SAFETY: promised by the caller.
        let names = unsafe { lists::names(names, count, "column_family_names")? };
        // SAFETY: promised by the caller.
        let family_options =
            unsafe { lists::objects(family_options, count, "column_family_options")? };
        if !names.contains(&"default") {
            return Err(Failure::argument("Default column family not specified"));
        }
        let options = options.checked()?;
        let mut builder = Db::builder(options);
        for (name, options) in names.iter().zip(family_options) {
            let options = ColumnFamilyOptions::from(options.checked()?);
            builder.column_family((*name, options));
        }
        Ok(Request {
            options,
            builder,
            path: memory::path(name),
            names,
        })
    }

    /// Returns the handles of the requested families.
    fn families(&self, db: &Db) -> Result<Vec<ColumnFamily>, Failure> {
        let handle = |name: &&str| {
            db.cf_handle(name)
                .ok_or_else(|| Failure::argument(format!("Column family not found: {name}")))
        };
        self.names.iter().map(handle).collect()
    }

    /// Opens the database and writes the handles of its families.
    ///
    /// # Safety
    /// There is room for the handles.
    unsafe fn open(
        &self,
        handles: *mut *mut Handle<ColumnFamily>,
    ) -> Result<*mut Handle<Db>, Failure> {
        let db = self.builder.open(self.path)?;
        let families = self.families(&db)?;
        // SAFETY: promised by the caller.
        unsafe { lists::put_families(handles, families) };
        Ok(handle::give(db))
    }
}

/// Opens a database with its column families.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn open_column_families(
    options: *const Handle<Options>,
    name: *const c_char,
    count: i32,
    names: *const *const c_char,
    family_options: *const *const Handle<Options>,
    handles: *mut *mut Handle<ColumnFamily>,
) -> Result<*mut Handle<Db>, Failure> {
    let count = lists::count(count);
    // SAFETY: promised by the caller.
    let request = unsafe { Request::new(options, name, count, names, family_options)? };
    // SAFETY: promised by the caller.
    unsafe { request.open(handles) }
}

/// Opens a database with its column families, whose values expire.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn open_column_families_with_ttl(
    options: *const Handle<Options>,
    name: *const c_char,
    count: i32,
    names: *const *const c_char,
    family_options: *const *const Handle<Options>,
    handles: *mut *mut Handle<ColumnFamily>,
    ttls: *const i32,
) -> Result<*mut Handle<Db>, Failure> {
    let count = lists::count(count);
    // SAFETY: promised by the caller.
    let mut request = unsafe { Request::new(options, name, count, names, family_options)? };
    // SAFETY: promised by the caller.
    let ttls = unsafe { memory::array(ttls, count, "ttls")? };
    for (name, ttl) in request.names.iter().zip(ttls) {
        let ttl = db::time_to_live(*ttl);
        request.builder.column_family_ttl(*name, ttl);
    }
    // SAFETY: promised by the caller.
    unsafe { request.open(handles) }
}

/// Opens a database read-only with some of its column families.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn open_for_read_only_column_families(
    options: *const Handle<Options>,
    name: *const c_char,
    count: i32,
    names: *const *const c_char,
    family_options: *const *const Handle<Options>,
    handles: *mut *mut Handle<ColumnFamily>,
    error_if_wal_file_exists: u8,
) -> Result<*mut Handle<Db>, Failure> {
    let count = lists::count(count);
    // SAFETY: promised by the caller.
    let mut request = unsafe { Request::new(options, name, count, names, family_options)? };
    request.builder.read_only();
    db::check_logs(request.options, request.path, error_if_wal_file_exists != 0)?;
    // SAFETY: promised by the caller.
    unsafe { request.open(handles) }
}

/// Opens a database as a secondary with some of its column families.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn open_as_secondary_column_families(
    options: *const Handle<Options>,
    name: *const c_char,
    secondary_path: *const c_char,
    count: i32,
    names: *const *const c_char,
    family_options: *const *const Handle<Options>,
    handles: *mut *mut Handle<ColumnFamily>,
) -> Result<*mut Handle<Db>, Failure> {
    let count = lists::count(count);
    // SAFETY: promised by the caller.
    let mut request = unsafe { Request::new(options, name, count, names, family_options)? };
    // SAFETY: promised by the caller.
    let secondary_path = unsafe { memory::text(secondary_path, "secondary_path")? };
    request.builder.secondary(memory::path(secondary_path));
    // SAFETY: promised by the caller.
    unsafe { request.open(handles) }
}
