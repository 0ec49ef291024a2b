//! The delivery of events to the listeners of a database.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use koeldb_base::SeqNo;
use koeldb_base::sync::lock_plain as lock;
use koeldb_memtable::Memtable;

use crate::report::listener::{Event, EventListener, MemtableInfo};
use crate::state::info_log::InfoLog;

/// The listeners of a database.
pub(crate) struct Listeners {
    all: Vec<Arc<dyn EventListener>>,
    /// The memtables sealed since the last report.
    sealed: Mutex<Vec<MemtableInfo>>,
    info_log: Arc<InfoLog>,
}

impl Listeners {
    pub(crate) fn new(all: Vec<Arc<dyn EventListener>>, info_log: Arc<InfoLog>) -> Self {
        Listeners {
            all,
            sealed: Mutex::default(),
            info_log,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Reports an event; must be called without locks.
    pub(crate) fn notify(&self, event: &Event<'_>) {
        for listener in &self.all {
            if catch_unwind(AssertUnwindSafe(|| listener.on_event(event))).is_err() {
                self.info_log
                    .warn(format_args!("an event listener panicked"));
            }
        }
    }

    /// Stores the event of a sealed memtable, which [`Listeners::report_sealed`] reports later.
    ///
    /// `earliest_seqno` is the newest sequence number from when the memtable became the active one.
    pub(crate) fn memtable_sealed(
        &self,
        column_family: &str,
        memtable: &Memtable,
        earliest_seqno: SeqNo,
    ) {
        if !self.is_empty() {
            let first_seqno = memtable.first_seqno();
            lock(&self.sealed).push(MemtableInfo {
                column_family: column_family.to_owned(),
                first_seqno: first_seqno.unwrap_or(0),
                earliest_seqno: first_seqno.unwrap_or(earliest_seqno).min(earliest_seqno),
                num_entries: memtable.entry_count(),
                num_deletes: memtable.deletion_count(),
                newest_timestamp: memtable.newest_timestamp(),
            });
        }
    }

    /// Reports the memtables that were sealed; must be called without locks.
    pub(crate) fn report_sealed(&self) {
        if self.is_empty() {
            return;
        }
        // A listener may seal another one.
        let sealed = std::mem::take(&mut *lock(&self.sealed));
        for info in sealed {
            self.notify(&Event::MemtableSealed(&info));
        }
    }
}
