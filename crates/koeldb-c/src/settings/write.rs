//! Options of writes.

use koeldb::IoPriority;
pub(crate) use koeldb::WriteOptions;

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
