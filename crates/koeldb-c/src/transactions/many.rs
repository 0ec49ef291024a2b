//! Reads of many keys by a transaction.

#![expect(unsafe_code, reason = "arrays of the caller")]

use std::ffi::c_char;

use koeldb::{ColumnFamily, PinnedSlice};

use crate::data::lists;
use crate::data::multi_get::{Answers, deliver_values};
use crate::handle::{self, Handle};
use crate::memory;
use crate::settings::read::ReadOptions;
use crate::transactions::transaction::{Transaction, get_cf, get_for_update_cf};

/// A function that reads one key.
type Read =
    fn(&mut Transaction, &ReadOptions, &ColumnFamily, &[u8]) -> koeldb::Result<Option<PinnedSlice>>;

/// The arguments of C.
struct Request {
    transaction: *mut Handle<Transaction>,
    options: *const Handle<ReadOptions>,
    /// `None` for the default column family.
    families: Option<*const *const Handle<ColumnFamily>>,
    count: usize,
    keys: *const *const c_char,
    key_lengths: *const usize,
}

impl Request {
    /// Reads the keys.
    ///
    /// # Safety
    /// The rules of C.
    unsafe fn answers(&self, read: Read) -> Answers<PinnedSlice> {
        // SAFETY: promised by the caller.
        let transaction = unsafe { handle::exclusive(self.transaction, "txn")? };
        // SAFETY: promised by the caller.
        let options = unsafe { handle::shared(self.options, "options")? };
        // SAFETY: promised by the caller.
        let keys = unsafe { memory::list(self.keys, self.key_lengths, self.count, "keys_list")? };
        let default = transaction.default_family();
        let families = match self.families {
            // SAFETY: promised by the caller.
            Some(families) => unsafe { lists::objects(families, self.count, "column_families")? },
            None => vec![&default; self.count],
        };
        let pairs = families.into_iter().zip(keys);
        Ok(pairs
            .map(|(family, key)| read(transaction, options, family, key))
            .collect())
    }

    /// Reads the keys, and writes values, lengths and errors.
    ///
    /// # Safety
    /// The rules of C; the arrays have as many elements as there are keys.
    unsafe fn run(
        &self,
        read: Read,
        values: *mut *mut c_char,
        lengths: *mut usize,
        errors: *mut *mut c_char,
    ) {
        // SAFETY: promised by the caller.
        let answers = unsafe { self.answers(read) };
        // SAFETY: promised by the caller.
        unsafe { deliver_values(answers, self.count, values, lengths, errors) };
    }
}

/// Locks a key exclusively and reads it.
fn locked(
    transaction: &mut Transaction,
    options: &ReadOptions,
    family: &ColumnFamily,
    key: &[u8],
) -> koeldb::Result<Option<PinnedSlice>> {
    get_for_update_cf(transaction, options, family, key, true)
}

/// Declares a function of the default column family and one of several.
macro_rules! many {
    ($($(#[$doc:meta])* $plain:ident, $cf:ident = $read:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        #[expect(clippy::too_many_arguments, reason = "those of C")]
        pub(crate) unsafe fn $plain(
            transaction: *mut Handle<Transaction>,
            options: *const Handle<ReadOptions>,
            count: usize,
            keys: *const *const c_char,
            key_lengths: *const usize,
            values: *mut *mut c_char,
            lengths: *mut usize,
            errors: *mut *mut c_char,
        ) {
            let families = None;
            let request = Request { transaction, options, families, count, keys, key_lengths };
            // SAFETY: promised by the caller.
            unsafe { request.run($read, values, lengths, errors) };
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        #[expect(clippy::too_many_arguments, reason = "those of C")]
        pub(crate) unsafe fn $cf(
            transaction: *mut Handle<Transaction>,
            options: *const Handle<ReadOptions>,
            families: *const *const Handle<ColumnFamily>,
            count: usize,
            keys: *const *const c_char,
            key_lengths: *const usize,
            values: *mut *mut c_char,
            lengths: *mut usize,
            errors: *mut *mut c_char,
        ) {
            let families = Some(families);
            let request = Request { transaction, options, families, count, keys, key_lengths };
            // SAFETY: promised by the caller.
            unsafe { request.run($read, values, lengths, errors) };
        }
    )*};
}

many! {
    /// Reads keys.
    multi_get, multi_get_cf = get_cf;
    /// Locks keys and reads them.
    multi_get_for_update, multi_get_for_update_cf = locked;
}
