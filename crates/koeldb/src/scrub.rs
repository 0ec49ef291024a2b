//! Reading every table again, on demand or from time to time, so that damage is found while there is still a copy.
//!
//! A scrub reads past the cache and compares the checksums of all blocks, and of whole files where the MANIFEST has one. It
//! goes on behind a damaged table, tells listeners and the LOG of each, and changes nothing: what to do about damage is
//! the user's decision. A rate keeps it out of the way of others.

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_lsm::{FileMeta, TableCache};

use crate::env::JobPriority;
use crate::inner::DbInner;
use crate::listener::Event;
use crate::options::Options;

/// How often tables are read again, and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubOptions {
    interval: Duration,
    bytes_per_sec: u64,
}

impl ScrubOptions {
    /// A scrub every `interval`, of at most 16 MiB a second.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        ScrubOptions {
            interval,
            bytes_per_sec: 16 << 20,
        }
    }

    /// Reads at most so many bytes a second; 0 for as fast as possible.
    pub fn set_bytes_per_sec(&mut self, bytes: u64) -> &mut Self {
        self.bytes_per_sec = bytes;
        self
    }
}

/// What a scrub found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ScrubReport {
    /// The tables that were read.
    pub tables: u64,
    /// Those of them whose checksum as a whole was compared, too.
    pub file_checksums: u64,
    /// The bytes that were read.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// The tables that are damaged or cannot be read, and what was met first in each.
    pub damaged: Vec<(FileNumber, Error)>,
    /// The database was closed meanwhile.
    pub cancelled: bool,
}

impl Options {
    /// Reads all tables again from time to time; `None`, the default, never does. Takes a background thread.
    pub fn set_scrub(&mut self, scrub: impl Into<Option<ScrubOptions>>) -> &mut Self {
        self.plugins.scrub = scrub.into();
        self
    }
}

impl DbInner {
    /// Calls `work` for every table of every family.
    pub(crate) fn for_each_table(
        &self,
        mut work: impl FnMut(&TableCache, &FileMeta, usize) -> Result<()>,
    ) -> Result<()> {
        for family in self.all_families() {
            let super_version = family.super_version.load();
            for (level, file) in super_version.version.files() {
                work(&super_version.tables, file, level)?;
            }
        }
        Ok(())
    }

    /// Reads every table once.
    pub(crate) fn scrub(&self, bytes_per_sec: u64) -> Result<ScrubReport> {
        // A close waits for the table that is being read.
        let _foreground = self.background.enter()?;
        let begun = self.clock.now();
        let mut report = ScrubReport::default();
        let mut bytes = 0;
        let mut pace = |more: u64| {
            bytes += more;
            if bytes_per_sec > 0 && !self.is_closing() {
                let due = Duration::from_secs_f64(seconds(bytes, bytes_per_sec));
                let ahead = due.saturating_sub(self.clock.now().saturating_sub(begun));
                // Short pauses would cost more than they give back.
                if ahead >= Duration::from_millis(1) {
                    self.background.pause(self, ahead);
                }
            }
        };
        self.for_each_table(|tables, file, level| {
            if self.is_closing() {
                report.cancelled = true;
                return Ok(());
            }
            report.tables += 1;
            let compared = tables
                .reader(file, level)
                .and_then(|reader| reader.verify_checksums(&mut pace))
                .and_then(|()| tables.compare_file_checksum(file, &mut pace));
            match compared {
                Ok(compared) => report.file_checksums += u64::from(compared),
                Err(error) => {
                    self.info_log.warn(format_args!("scrub: {error}"));
                    self.notify(&Event::DamageFound(&error));
                    report.damaged.push((file.number, error));
                }
            }
            Ok(())
        })?;
        report.bytes = bytes;
        report.elapsed = self.clock.now().saturating_sub(begun);
        self.info_log.info(format_args!(
            "scrub: {} tables, {} bytes, {} damaged",
            report.tables,
            report.bytes,
            report.damaged.len()
        ));
        self.notify(&Event::ScrubCompleted(&report));
        Ok(report)
    }

    /// Scrubs from time to time, if that is asked for, until the database is closed.
    pub(crate) fn begin_scrubbing(self: &Arc<Self>) {
        let Some(options) = self.plugins.scrub.clone() else {
            return;
        };
        let inner = Arc::clone(self);
        self.env.pool.submit(JobPriority::Low, move || {
            while inner.background.pause(&inner, options.interval) {
                match inner.scrub(options.bytes_per_sec) {
                    Err(error) if error.kind() != ErrorKind::ShutdownInProgress => {
                        inner.info_log.warn(format_args!("scrub: {error}"));
                    }
                    _ => {}
                }
            }
        });
    }
}

/// How long `bytes` take at this rate.
#[expect(clippy::cast_precision_loss, reason = "a pause, not a count")]
fn seconds(bytes: u64, bytes_per_sec: u64) -> f64 {
    bytes as f64 / bytes_per_sec as f64
}
