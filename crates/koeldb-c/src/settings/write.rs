//! Options of writes.

use std::ops::{Deref, DerefMut};

use koeldb::IoPriority;
pub(crate) use koeldb::WriteOptions as EngineOptions;

use crate::settings::read::UNKNOWN_ACTIVITY;

/// The options of a write (`rocksdb_writeoptions_t`).
#[derive(Default)]
pub(crate) struct WriteOptions {
    inner: EngineOptions,
    /// Kept without effect: the engine does not classify writes.
    io_activity: Option<i32>,
}

impl Deref for WriteOptions {
    type Target = EngineOptions;

    fn deref(&self) -> &EngineOptions {
        &self.inner
    }
}

impl DerefMut for WriteOptions {
    fn deref_mut(&mut self) -> &mut EngineOptions {
        &mut self.inner
    }
}

/// Sets the activity that the write belongs to.
pub(crate) fn set_io_activity(options: &mut WriteOptions, activity: i32) {
    options.io_activity = Some(activity);
}

/// Returns the activity that the write belongs to.
pub(crate) fn io_activity(options: &mut WriteOptions) -> i32 {
    options.io_activity.unwrap_or(UNKNOWN_ACTIVITY)
}

/// Writes without the log.
pub(crate) fn disable_wal(options: &mut EngineOptions, on: i32) {
    options.disable_wal(on != 0);
}

/// Sets the bytes of the checksum of each key.
pub(crate) fn set_protection_bytes(options: &mut EngineOptions, bytes: usize) {
    options.set_protection_bytes_per_key(bytes as u64);
}

/// Sets the priority at the rate limiter.
pub(crate) fn set_priority(options: &mut EngineOptions, priority: i32) {
    options.set_rate_limiter_priority(priority_of(priority));
}

/// Returns the priority at the rate limiter.
pub(crate) fn get_priority(options: &mut EngineOptions) -> i32 {
    number_of(options.get_rate_limiter_priority())
}

/// Returns the priority of a number of C; `None` for those without a rate limit.
pub(crate) fn priority_of(number: i32) -> Option<IoPriority> {
    Some(match number {
        0 => IoPriority::Low,
        1 => IoPriority::Mid,
        2 => IoPriority::High,
        3 => IoPriority::User,
        _ => return None,
    })
}

/// Returns the number of a priority in C.
pub(crate) fn number_of(priority: Option<IoPriority>) -> i32 {
    match priority {
        Some(IoPriority::Low) => 0,
        Some(IoPriority::Mid) => 1,
        Some(IoPriority::High) => 2,
        Some(IoPriority::User) => 3,
        _ => 4,
    }
}
