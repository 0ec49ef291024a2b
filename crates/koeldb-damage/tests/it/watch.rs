//! Watches one case of a suite: it must end soon, with little memory and without a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use koeldb_fs::{Clock, SystemClock};

use crate::memory::most_bytes_of;

/// The CPU time limit of a case; tests are not optimised and share their machine.
const CPU_MAX: Duration = Duration::from_secs(10);

/// The memory that opening may take in addition to the file's size.
const FIXED_BYTES: u64 = 64 << 20;

/// Runs one case with an input of `input_bytes`. `what` is printed with a failure.
pub(crate) fn watched(input_bytes: usize, what: &dyn Fn() -> String, work: impl FnOnce()) {
    let before = SystemClock.thread_cpu();
    let mut panicked = false;
    let bytes = most_bytes_of(|| panicked = catch_unwind(AssertUnwindSafe(work)).is_err());
    let cpu = SystemClock.thread_cpu().saturating_sub(before);
    assert!(!panicked, "panicked: {}", what());
    assert!(cpu < CPU_MAX, "{cpu:?}: {}", what());
    let bound = FIXED_BYTES + 4 * input_bytes as u64;
    assert!(bytes <= bound, "{bytes} bytes: {}", what());
}
