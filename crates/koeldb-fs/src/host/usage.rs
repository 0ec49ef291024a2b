//! Resources that the process has used.
//!
//! # Invariants
//! - **U1** `getrusage` writes one whole `rusage` to the address that it is given, and returns 0.
//!   Otherwise it writes nothing.
#![expect(unsafe_code, reason = "a system call without a safe wrapper")]

use std::mem::MaybeUninit;
use std::time::Duration;

use super::ProcessUsage;

/// Returns the usage of the process, those of its threads that have ended included.
pub(super) fn process_usage() -> Option<ProcessUsage> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: U1; the address is that of memory for a whole `rusage`.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if status != 0 {
        return None;
    }
    // SAFETY: U1; the call succeeded.
    let usage = unsafe { usage.assume_init() };
    let switches = [usage.ru_nvcsw, usage.ru_nivcsw];
    Some(ProcessUsage {
        processor: duration(usage.ru_utime)? + duration(usage.ru_stime)?,
        switches: switches
            .into_iter()
            .map(|count| u64::try_from(count).ok())
            .sum::<Option<u64>>()?,
    })
}

/// Converts a time value; `None` if it is negative.
fn duration(time: libc::timeval) -> Option<Duration> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let micros = u64::try_from(time.tv_usec).ok()?;
    Some(Duration::from_secs(seconds) + Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no getrusage")]
    fn a_thread_that_sleeps_is_switched_and_work_takes_processor_time() {
        let before = process_usage().unwrap();
        let (send, receive) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(move || receive.recv());
            let used = || process_usage().unwrap();
            while used().switches == before.switches || used().processor == before.processor {
                std::thread::yield_now();
            }
            drop(send);
            assert!(sleeper.join().unwrap().is_err());
        });
    }
}
