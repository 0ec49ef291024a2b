//! Flushes on request: of the log, and of memtables.

use std::sync::Arc;

use koeldb_base::Result;

use super::protocol::CommitPipeline;
use crate::options::{CompactRangeOptions, FlushOptions};
use crate::report::listener::Event;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::key_bounds::KeyBounds;
use crate::wal::Wal;

impl CommitPipeline {
    /// Writes the log to the operating system, and makes it durable if `sync`.
    ///
    /// Writers continue while the device syncs.
    pub(crate) fn flush_wal(&self, sync: bool) -> Result<()> {
        self.health.check_open()?;
        if self.context.read_only {
            return self.health.check_writable();
        }
        let _foreground = self.slots.enter()?;
        let flushed = match sync {
            true => self.sync_wal(),
            false => self.with_wal_of_writes(|wal| self.wals.flush(wal)),
        };
        self.health.report_failures();
        flushed
    }

    /// Syncs the logs; starts over if error recovery replaced the current log meanwhile.
    fn sync_wal(&self) -> Result<()> {
        loop {
            self.wals.sync_before_log()?;
            let pending = self.with_wal_of_writes(|wal| self.wals.begin_sync(wal))?;
            match pending {
                Some(pending) if !self.wals.finish_sync(&pending)? => {}
                _ => return Ok(()),
            }
        }
    }

    /// Calls `act` with the current log, as the write leader; fails if earlier logs were given up.
    fn with_wal_of_writes<R>(&self, act: impl FnOnce(&mut Wal) -> Result<R>) -> Result<R> {
        let mut leadership = self.queue.lead();
        if self.health.gave_up_logs()
            && let Some(failure) = self.health.failure()
        {
            return Err(failure);
        }
        act(leadership.commit.wal()?)
    }

    /// The total size of all logs that are not removed yet.
    pub(crate) fn log_bytes(&self) -> u64 {
        let current = {
            let leadership = self.queue.lead();
            let wal = leadership.commit.wal.as_ref();
            wal.map_or(0, |wal| wal.writer.len())
        };
        current + self.wals.closed_bytes()
    }

    /// Switches the memtables of `families` and, if requested, waits for their flush.
    pub(crate) fn flush_families(
        &self,
        families: &[Arc<ColumnFamilyData>],
        options: &FlushOptions,
    ) -> Result<()> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        if !options.allow_write_stall {
            for family in families {
                self.background.wait_until_flush_stalls_no_write(family)?;
            }
        }
        let sealed = self.seal_families(families);
        if sealed.is_err() {
            self.health.report_failures();
        }
        sealed?;
        self.report_manual_flush(families);
        self.background.schedule();
        if options.wait {
            self.background.wait_until_flushed(families)?;
        }
        Ok(())
    }

    /// Flushes `families` as the first step of another operation; with `atomic_flush` all families.
    pub(crate) fn flush_first(
        &self,
        families: &[Arc<ColumnFamilyData>],
        options: &FlushOptions,
    ) -> Result<()> {
        match self.families.cuts() {
            Some(_) => self.flush_families(&self.families.all(), options),
            None => self.flush_families(families, options),
        }
    }

    /// Reports a manual flush, and the memtables it sealed, to listeners.
    fn report_manual_flush(&self, families: &[Arc<ColumnFamilyData>]) {
        if !self.context.listeners.is_empty() {
            self.context.listeners.report_sealed();
            let names: Vec<_> = families
                .iter()
                .map(|family| family.name.to_string())
                .collect();
            self.context.notify(&Event::ManualFlushScheduled(&names));
        }
    }

    /// Flushes `family`, and compacts its entries within `bounds` to the last level in use.
    pub(crate) fn compact_range(
        &self,
        family: &Arc<ColumnFamilyData>,
        bounds: &KeyBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let mut flush = FlushOptions::new();
        flush.set_allow_write_stall(options.allow_write_stall);
        self.flush_first(std::slice::from_ref(family), &flush)?;
        self.background.compact_range(family, bounds, options)
    }

    /// Flushes all memtables at close if data was written with `disable_wal`.
    ///
    /// Does nothing with `avoid_flush_during_shutdown`.
    pub(crate) fn flush_unlogged(&self) -> Result<()> {
        if self.context.mutable_options().avoid_flush_during_shutdown {
            return Ok(());
        }
        for family in self.seal_unlogged()? {
            self.background.flush_until_empty(&family)?;
        }
        Ok(())
    }
}
