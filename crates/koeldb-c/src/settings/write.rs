//! Options of writes.

use std::ops::{Deref, DerefMut};

use koeldb::IoPriority;

/// The options of a write (`rocksdb_writeoptions_t`).
pub(crate) struct WriteOptions {
    inner: koeldb::WriteOptions,
    /// Kept without effect.
    io_activity: i32,
}

/// The number of the activity of reads and writes that name none.
pub(crate) const UNKNOWN_ACTIVITY: i32 = 0xff;

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions {
            inner: koeldb::WriteOptions::default(),
            io_activity: UNKNOWN_ACTIVITY,
        }
    }
}

impl Deref for WriteOptions {
    type Target = koeldb::WriteOptions;

    fn deref(&self) -> &koeldb::WriteOptions {
        &self.inner
    }
}

impl DerefMut for WriteOptions {
    fn deref_mut(&mut self) -> &mut koeldb::WriteOptions {
        &mut self.inner
    }
}

/// Sets the activity for which the write is made.
pub(crate) fn set_io_activity(options: &mut WriteOptions, activity: i32) {
    options.io_activity = activity;
}

/// Returns the activity for which the write is made.
pub(crate) fn get_io_activity(options: &mut WriteOptions) -> i32 {
    options.io_activity
}

/// Declares a setter and a getter of the engine.
macro_rules! flags {
    ($($set:ident, $get:ident;)*) => {
        impl WriteOptions {$(
            pub(crate) fn $set(&mut self, on: bool) {
                self.inner.$set(on);
            }

            pub(crate) fn $get(&mut self) -> bool {
                self.inner.$get()
            }
        )*}
    };
}

flags! {
    set_sync, get_sync;
    set_ignore_missing_column_families, get_ignore_missing_column_families;
    set_no_slowdown, get_no_slowdown;
    set_low_pri, get_low_pri;
    set_memtable_insert_hint_per_batch, get_memtable_insert_hint_per_batch;
}

/// Whether writes are without the log.
pub(crate) fn get_disable_wal(options: &mut WriteOptions) -> bool {
    options.get_disable_wal()
}

/// Returns the bytes of the checksum of each key.
pub(crate) fn get_protection_bytes(options: &mut WriteOptions) -> u64 {
    options.get_protection_bytes_per_key()
}

/// Writes without the log.
pub(crate) fn disable_wal(options: &mut WriteOptions, on: i32) {
    options.disable_wal(on != 0);
}

/// Sets the bytes of the checksum of each key.
pub(crate) fn set_protection_bytes(options: &mut WriteOptions, bytes: usize) {
    options.set_protection_bytes_per_key(bytes as u64);
}

/// Sets the priority at the rate limiter.
pub(crate) fn set_priority(options: &mut WriteOptions, priority: i32) {
    options.set_rate_limiter_priority(priority_of(priority));
}

/// Returns the priority at the rate limiter.
pub(crate) fn get_priority(options: &mut WriteOptions) -> i32 {
    number_of(options.get_rate_limiter_priority())
}

/// The priority of a number of C; `None` for those that the rate limiter does not see.
pub(crate) fn priority_of(number: i32) -> Option<IoPriority> {
    Some(match number {
        0 => IoPriority::Low,
        1 => IoPriority::Mid,
        2 => IoPriority::High,
        3 => IoPriority::User,
        _ => return None,
    })
}

/// The number in C of a priority.
pub(crate) fn number_of(priority: Option<IoPriority>) -> i32 {
    match priority {
        Some(IoPriority::Low) => 0,
        Some(IoPriority::Mid) => 1,
        Some(IoPriority::High) => 2,
        Some(IoPriority::User) => 3,
        _ => 4,
    }
}
