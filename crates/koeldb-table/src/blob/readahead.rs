//! Reads of values that follow each other in their blob files.
//!
//! Flushes and compactions write values in the order of their keys, so a scan meets the values of a
//! file in ascending order, or in descending order if it goes back. After the second such value of a
//! file, a read takes a window of the file along, which doubles while it is used.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use koeldb_base::coding::to_usize;
use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Buffer, PinnedSlice, Result};

use super::file::BlobFile;
use super::format::HEADER_BYTES;
use super::key::BlobKey;
use super::reference::BlobReference;

/// The size of the first window.
const WINDOW_BYTES_MIN: u64 = 16 << 10;

/// The number of windows: one for each sorted run whose values are read, and for each thread.
const WINDOWS_MAX: usize = 16;

/// The largest gap between two values that follow each other.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// The direction in which the values of a file follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// Towards the end of the file.
    Ahead,
    /// Towards its beginning.
    Back,
}

/// The part of a file that was read, and where the next value should be.
#[derive(Debug)]
struct Window {
    file: FileNumber,
    /// The offset of the first byte of `bytes`.
    begin: u64,
    bytes: Arc<Buffer>,
    /// The first and the last offset, exclusive, of the last value.
    last: (u64, u64),
    /// The size of the next window.
    next_bytes: u64,
}

impl Window {
    /// The empty window at a value of which `begin` and `end` are the limits.
    fn at(file: FileNumber, begin: u64, end: u64) -> Self {
        Window {
            file,
            begin: end,
            bytes: Arc::new(Buffer::from_vec(Vec::new())),
            last: (begin, end),
            next_bytes: WINDOW_BYTES_MIN,
        }
    }

    /// Returns the direction in which a value from `begin` to `end` follows the last one; `None` if
    /// it is neither in the window nor near.
    fn course_to(&self, file: FileNumber, begin: u64, end: u64) -> Option<Course> {
        if self.file != file {
            return None;
        }
        let (last_begin, last_end) = self.last;
        let window_end = self
            .begin
            .saturating_add(self.bytes.as_slice().len() as u64);
        let far_end = window_end.max(last_end).saturating_add(GAP_BYTES_MAX);
        let far_begin = self.begin.min(last_begin).saturating_sub(GAP_BYTES_MAX);
        if begin >= last_end && begin <= far_end {
            Some(Course::Ahead)
        } else if end <= last_begin && end >= far_begin {
            Some(Course::Back)
        } else {
            None
        }
    }

    /// Whether the window has the part of the file from `begin` to `end`.
    fn has(&self, begin: u64, end: u64) -> bool {
        let window_end = self
            .begin
            .saturating_add(self.bytes.as_slice().len() as u64);
        begin >= self.begin && end <= window_end
    }

    /// Returns the part of the file from `begin` to `end`, if the window has it.
    fn part(&self, begin: u64, end: u64) -> Option<PinnedSlice> {
        let from = begin.checked_sub(self.begin)?;
        let to = end.checked_sub(self.begin)?;
        let part = self.bytes.as_slice().get(to_usize(from)..to_usize(to))?;
        Some(PinnedSlice::pin_bytes(&self.bytes, from, part))
    }
}

/// The windows of a scan or a compaction over the blob files that it reads, shared by its threads.
#[derive(Debug)]
pub struct BlobReadahead {
    /// The last used window comes last.
    windows: Mutex<VecDeque<Window>>,
    /// The largest size of a window; 0 for single reads.
    bytes_max: u64,
}

impl BlobReadahead {
    /// The largest size of a window, unless another one is set.
    pub const BYTES_MAX: u64 = 1 << 20;

    /// Creates the windows, of at most `bytes_max` bytes each; 0 turns read-ahead off.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        BlobReadahead {
            windows: Mutex::default(),
            bytes_max,
        }
    }

    /// Reads the value of a key like [`BlobFile::value`], with those that follow it in the file.
    ///
    /// An uncompressed value pins the window that it is in.
    ///
    /// # Errors
    /// See [`BlobFile::value`].
    pub fn value(
        &self,
        file: &BlobFile,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let (begin, end) = match file.checked_range(reference, key, verifies) {
            Ok(range) => range,
            Err(_) => return file.value(reference, key, verifies),
        };
        let record = end.saturating_sub(begin);
        if record.saturating_mul(2) > self.bytes_max {
            return file.value(reference, key, verifies);
        }
        let Some((mut window, course)) = self.take(reference.file, begin, end) else {
            self.put(Window::at(reference.file, begin, end));
            return file.value(reference, key, verifies);
        };
        window.last = (begin, end);
        if !window.has(begin, end) {
            let bytes = window.next_bytes.min(self.bytes_max).max(record);
            window.next_bytes = window.next_bytes.saturating_mul(2).min(self.bytes_max);
            let from = match course {
                Course::Ahead => begin,
                Course::Back => end.saturating_sub(bytes).max(HEADER_BYTES).min(begin),
            };
            let bytes = match course {
                Course::Ahead => bytes,
                Course::Back => end.saturating_sub(from),
            };
            let part = Buffer::from_vec(file.read_part(from, bytes)?);
            (window.begin, window.bytes) = (from, Arc::new(part));
            if bytes == self.bytes_max {
                let next = match course {
                    Course::Ahead => from.saturating_add(bytes),
                    Course::Back => from.saturating_sub(bytes),
                };
                file.prefetch(next, bytes);
            }
        }
        let value = match window.part(begin, end) {
            Some(record) => file.value_in(&record, reference, key, verifies),
            // The system returned less than the file has: the single read says so.
            None => file.value(reference, key, verifies),
        };
        self.put(window);
        value
    }

    /// Takes the window to which the part of `file` from `begin` to `end` is next.
    fn take(&self, file: FileNumber, begin: u64, end: u64) -> Option<(Window, Course)> {
        let mut windows = lock(&self.windows);
        let mut courses = windows.iter().enumerate().filter_map(|(at, window)| {
            let course = window.course_to(file, begin, end)?;
            Some((at, course))
        });
        let (at, course) = courses.next()?;
        Some((windows.remove(at)?, course))
    }

    fn put(&self, window: Window) {
        let mut windows = lock(&self.windows);
        windows.push_back(window);
        if windows.len() > WINDOWS_MAX {
            windows.pop_front();
        }
    }
}
