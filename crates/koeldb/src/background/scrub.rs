//! Scrubbing: reads every table, on demand or periodically, to detect damage early.
//!
//! A scrub bypasses the cache and verifies the checksums of all blocks and of all records of blob
//! files, and of whole files if the MANIFEST has one. It continues after a damaged table, reports each to listeners and the LOG, and
//! changes nothing: the reaction to damage is up to the user. A rate limit bounds its impact.

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::{ErrorKind, Result};

use super::Background;
use crate::report::ScrubReport;
use crate::report::listener::Event;

impl Background {
    /// Verifies the checksums of every live table and blob file once, at a limited read rate.
    pub(crate) fn scrub(&self, bytes_per_sec: u64) -> Result<ScrubReport> {
        // A close waits for the table that is being read.
        let _foreground = self.slots.enter()?;
        let begun = self.context.clock.now();
        let mut report = ScrubReport::default();
        let mut bytes = 0;
        let mut pace = |more: u64| {
            bytes += more;
            if bytes_per_sec > 0 && !self.health.is_closing() {
                let due = Duration::from_secs_f64(seconds(bytes, bytes_per_sec));
                let ahead = due.saturating_sub(self.context.clock.now().saturating_sub(begun));
                // Short pauses would cost more than they give back.
                if ahead >= Duration::from_millis(1) {
                    self.pause(ahead);
                }
            }
        };
        // The first error of each file, and how far the scrub has come.
        let note = |report: &mut ScrubReport, number, compared: Result<bool>| match compared {
            Ok(compared) => report.file_checksums += u64::from(compared),
            // The files of a closed database may be gone.
            Err(_) if self.health.is_closing() => report.cancelled = true,
            Err(error) => {
                self.context.info_log.warn(format_args!("scrub: {error}"));
                self.context.notify(&Event::DamageFound(&error));
                report.damaged.push((number, error));
            }
        };
        self.families.for_each_table(|tables, file, level| {
            if self.health.is_closing() {
                report.cancelled = true;
                return Ok(());
            }
            report.tables += 1;
            let compared = tables
                .reader(file, level)
                .and_then(|reader| reader.verify_checksums(&mut pace))
                .and_then(|()| tables.compare_file_checksum(file, &mut pace));
            note(&mut report, file.number, compared);
            Ok(())
        })?;
        self.families.for_each_blob_file(|tables, file, family| {
            if self.health.is_closing() {
                report.cancelled = true;
                return Ok(());
            }
            report.blob_files += 1;
            let compared = tables
                .verify_blob_file(file, family, &mut pace)
                .and_then(|()| tables.compare_blob_file_checksum(file, &mut pace));
            note(&mut report, file.number, compared);
            Ok(())
        })?;
        report.bytes = bytes;
        report.elapsed = self.context.clock.now().saturating_sub(begun);
        self.context.info_log.info(format_args!(
            "scrub: {} tables, {} blob files, {} bytes, {} damaged",
            report.tables,
            report.blob_files,
            report.bytes,
            report.damaged.len()
        ));
        self.context.notify(&Event::ScrubCompleted(&report));
        Ok(report)
    }

    /// Runs scrubs periodically, if enabled, until the database is closed.
    pub(crate) fn begin_scrubbing(self: &Arc<Self>) {
        let Some(options) = self.context.plugins.scrub.clone() else {
            return;
        };
        let jobs = Arc::clone(self);
        self.context.env.pool.submit_waiting(move || {
            while jobs.pause(options.interval) {
                match jobs.scrub(options.bytes_per_sec) {
                    Err(error) if error.kind() != ErrorKind::ShutdownInProgress => {
                        jobs.context.info_log.warn(format_args!("scrub: {error}"));
                    }
                    _ => {}
                }
            }
        });
    }
}

/// Returns the seconds that `bytes` take at this rate.
#[expect(clippy::cast_precision_loss, reason = "a pause, not a count")]
fn seconds(bytes: u64, bytes_per_sec: u64) -> f64 {
    bytes as f64 / bytes_per_sec as f64
}
