//! The copier of the engine: takes files from one directory to another, by hard link or by copy.
//!
//! A link shares the bytes, so only files that never change are linked. A copy is created
//! exclusively, has exactly the expected length, and is synced. Its CRC-32C is computed on the way.
//! Memory is bounded by one buffer per thread.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb_base::checksum::crc32c_extend;
use koeldb_base::coding::to_usize;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::{
    AccessHint, Clock, FileSystem, OpenOptions, Purpose, WriteOptions, is_link_refused,
};

/// The size of one read.
const BUFFER_BYTES: u64 = 1 << 20;

/// A file to link or copy to another name.
#[derive(Clone, Debug)]
pub(crate) struct TransferFile {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    /// The length to copy; a longer source is truncated.
    pub(crate) bytes: u64,
    /// Whether the target may be a hard link to the source.
    pub(crate) may_link: bool,
    /// The recorded CRC-32C, which a copy must have.
    pub(crate) expected_crc32c: Option<u32>,
}

/// The outcome of transferring one file: a hard link, or a copy with its CRC-32C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transferred {
    pub(crate) is_linked: bool,
    /// The CRC-32C of the file, if it was copied.
    pub(crate) crc32c: Option<u32>,
}

/// A rate limiter in bytes per second, shared by the threads of a transfer.
#[derive(Debug)]
pub(crate) struct Pace {
    clock: Arc<dyn Clock>,
    bytes_per_second: u64,
    /// The time at which all bytes so far are permitted.
    due: Mutex<Duration>,
}

impl Pace {
    /// Creates a limit in bytes per second; 0 for none.
    pub(crate) fn new(clock: &Arc<dyn Clock>, bytes_per_second: u64) -> Self {
        Pace {
            clock: Arc::clone(clock),
            bytes_per_second,
            due: Mutex::new(Duration::ZERO),
        }
    }

    /// Waits until the rate permits `bytes` more.
    pub(crate) fn take(&self, bytes: u64) {
        if self.bytes_per_second == 0 {
            return;
        }
        let micros = u128::from(bytes) * 1_000_000 / u128::from(self.bytes_per_second);
        let cost = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        let now = self.clock.now();
        let wait = {
            let mut due = lock(&self.due);
            *due = (*due).max(now).saturating_add(cost);
            due.saturating_sub(now)
        };
        if wait >= Duration::from_millis(1) {
            self.clock.sleep(wait);
        }
    }
}

/// A transfer of files between file systems by links or copies: its settings and limits.
pub(crate) struct Transfer<'t> {
    pub(crate) from: &'t dyn FileSystem,
    pub(crate) to: &'t dyn FileSystem,
    pub(crate) purpose: Purpose,
    pub(crate) pace: &'t Pace,
    pub(crate) threads: usize,
    /// Whether a refused link is an error, instead of making a copy.
    pub(crate) must_link: bool,
    /// The flag that cancels the transfer.
    pub(crate) stop: Option<&'t AtomicBool>,
    /// The function that receives the size of each piece copied.
    pub(crate) progress: &'t (dyn Fn(u64) + Sync),
}

impl Transfer<'_> {
    /// Links or copies all files, in parallel; returns the outcomes in the order of the files.
    ///
    /// # Errors
    /// The first error of a file; files that were made by then stay.
    pub(crate) fn run(&self, files: &[TransferFile]) -> Result<Vec<Transferred>> {
        let next = AtomicUsize::new(0);
        let outcomes: Mutex<Vec<Option<Transferred>>> = Mutex::new(vec![None; files.len()]);
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let work = || {
            let mut buffer = Vec::new();
            while lock(&failure).is_none() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = files.get(index) else { return };
                match self.transfer(file, &mut buffer) {
                    Ok(outcome) => lock(&outcomes)[index] = Some(outcome),
                    Err(error) => {
                        lock(&failure).get_or_insert(error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(files.len()) {
                // Without a new thread, the others do its work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        match failure.into_inner() {
            Ok(None) => {}
            Ok(Some(error)) => return Err(error),
            Err(poisoned) => {
                let panicked = || Error::with_kind(ErrorKind::Aborted, "copying a file panicked");
                return Err(poisoned.into_inner().unwrap_or_else(panicked));
            }
        }
        let outcomes = outcomes
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// Links a file, or copies it if it cannot be linked.
    fn transfer(&self, file: &TransferFile, buffer: &mut Vec<u8>) -> Result<Transferred> {
        self.check_running()?;
        if file.may_link {
            match self.to.link(&file.source, &file.target) {
                Ok(()) => {
                    return Ok(Transferred {
                        is_linked: true,
                        crc32c: None,
                    });
                }
                Err(error) if is_link_refused(&error) && !self.must_link => {}
                Err(error) => return Err(error),
            }
        }
        let crc32c = self.copy(file, buffer)?;
        Ok(Transferred {
            is_linked: false,
            crc32c: Some(crc32c),
        })
    }

    /// Copies a file; returns its crc32c.
    fn copy(&self, file: &TransferFile, buffer: &mut Vec<u8>) -> Result<u32> {
        let mut target = self.to.create(
            &file.target,
            &WriteOptions {
                buffer_bytes: 0,
                ..WriteOptions::new(self.purpose)
            },
        )?;
        let crc32c = self.read(&file.source, file.bytes, buffer, &mut |piece| {
            target.append(piece)
        })?;
        if let Some(expected) = file.expected_crc32c
            && expected != crc32c
        {
            return Err(Error::corruption(format!(
                "file checksum mismatch: recorded = {expected}, computed = {crc32c}"
            ))
            .in_file(&file.source, None, "copy"));
        }
        target.sync_all()?;
        target.close()?;
        Ok(crc32c)
    }

    /// Passes the first `bytes` bytes of `source` to `take` in pieces; returns their CRC-32C.
    pub(crate) fn read(
        &self,
        source: &Path,
        bytes: u64,
        buffer: &mut Vec<u8>,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<u32> {
        let options = OpenOptions {
            purpose: self.purpose,
            hint: AccessHint::Sequential,
            ..OpenOptions::default()
        };
        // Nothing is known to be there of an empty log: it may have been removed.
        if bytes == 0 {
            return Ok(0);
        }
        let source = self.from.open(source, &options)?;
        buffer.resize(to_usize(BUFFER_BYTES.min(bytes)), 0);
        let (mut at, mut crc32c) = (0, 0);
        while at < bytes {
            self.check_running()?;
            let piece = &mut buffer[..to_usize(BUFFER_BYTES.min(bytes - at))];
            self.pace.take(piece.len() as u64);
            source.read_exact_at(at, piece)?;
            crc32c = crc32c_extend(crc32c, piece);
            take(piece)?;
            at += piece.len() as u64;
            (self.progress)(piece.len() as u64);
        }
        Ok(crc32c)
    }

    /// Fails with `Incomplete` if the transfer was stopped.
    fn check_running(&self) -> Result<()> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Acquire)) {
            return Err(Error::with_kind(ErrorKind::Incomplete, "stopped"));
        }
        Ok(())
    }
}
