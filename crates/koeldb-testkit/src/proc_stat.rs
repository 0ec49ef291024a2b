//! The files `stat` that `/proc` has of processes and threads.

use std::path::Path;

/// Calls `read` with the fields from the state on, which follow the name in parentheses; `None` if
/// there is no such file.
fn read_stat<R>(stat: &Path, read: impl FnOnce(&str) -> R) -> Option<R> {
    let text = std::fs::read_to_string(stat).ok()?;
    text.rsplit_once(") ").map(|(_, fields)| read(fields))
}

/// Whether a thread sleeps until another one or a timer wakes it.
///
/// One that runs, or waits for a processor or for the device, does not.
#[must_use]
pub fn is_asleep(stat: &Path) -> bool {
    read_stat(stat, |fields| fields.starts_with('S')).unwrap_or(false)
}

/// The processor time of a process or a thread, of its own and of the system on its behalf, in the
/// hundredths of a second of `/proc`; 0 if it has ended.
#[must_use]
pub fn processor_ticks(stat: &Path) -> u64 {
    let sum = read_stat(stat, |fields| {
        let of_user_and_system = fields.split(' ').skip(11).take(2);
        of_user_and_system
            .filter_map(|field| field.parse::<u64>().ok())
            .sum()
    });
    sum.unwrap_or(0)
}
