//! Tests whether this kernel lets this process read by io_uring.
//!
//! A kernel may be too old, a sandbox may refuse to create or enter rings, and a limit may be
//! reached. The probe therefore creates a ring like all later ones and reads a byte through it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::MakeRing;
use super::ring::{Ring, RingFlags, Wait};
use crate::clock::Clock;
use crate::file::RandomAccessFile;
use crate::read_driver::request::{Reply, Request, Shared};
use crate::read_driver::{OpId, ReadOp};

/// Returns the best setup flags for rings that can read `file`, or the reason why none work.
///
/// `old` accepts kernels before 5.19, about which many problems were reported.
pub(super) fn probe(
    file: &Arc<dyn RandomAccessFile>,
    old: bool,
    clock: &Arc<dyn Clock>,
    make: MakeRing<'_>,
) -> Result<RingFlags, String> {
    if file.descriptor().is_none() {
        return Err("files of this file system have no descriptors".to_owned());
    }
    let all = [
        RingFlags::Deferred,
        RingFlags::Cooperative,
        RingFlags::Plain,
    ];
    for flags in all {
        if flags == RingFlags::Plain && !old {
            break;
        }
        match make(flags) {
            Ok(ring) => return read_a_byte(ring, file, clock).map(|()| flags),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(reason(&error)),
        }
    }
    Err("the kernel's io_uring is older than Linux 5.19".to_owned())
}

/// Returns the reason why a ring was refused, with the setting to change.
fn reason(error: &io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring, or a sandbox hides it",
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is not permitted: a seccomp profile, or the sysctl kernel.io_uring_disabled"
        }
        Some(libc::ENOMEM) => "no memory for a ring: raise the limit RLIMIT_MEMLOCK",
        Some(libc::EMFILE) => "no descriptor for a ring: raise the limit RLIMIT_NOFILE",
        Some(libc::ENFILE) => "no descriptor for a ring: raise the sysctl fs.file-max",
        _ => "a ring cannot be made",
    };
    format!("{why}: {error}")
}

/// Reads a byte through the ring, to test whether the ring works for the file.
fn read_a_byte(
    mut ring: Ring,
    file: &Arc<dyn RandomAccessFile>,
    clock: &Arc<dyn Clock>,
) -> Result<(), String> {
    let outcome = Arc::new(Mutex::new(None));
    let receiver = Arc::clone(&outcome);
    let reply = Reply::Call(Box::new(move |outcome| {
        *receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }));
    let shared = Arc::new(Shared::alone(Arc::clone(clock)));
    let op = ReadOp::new(file, 0, 1);
    if let Some(request) = Request::new(op, OpId(0), reply, &shared) {
        ring.push(request);
    }
    // A read that the ring cannot perform is dropped, which is an error.
    while ring.in_use() > 0 {
        ring.turn(Wait::ForReads(1), None, &drop);
    }
    let mut expected = [0];
    let there = file
        .read_at(0, &mut expected)
        .map_err(|error| format!("the file for the probe cannot be read: {error}"))?;
    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
    match outcome.take().map(|outcome| outcome.result) {
        Some(Ok(bytes)) if *bytes == expected[..there] => Ok(()),
        Some(Ok(_)) => Err("a ring returned wrong data".to_owned()),
        Some(Err(_)) | None => Err("a ring was created but completes no reads".to_owned()),
    }
}
