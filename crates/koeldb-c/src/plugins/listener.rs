//! Listeners of functions.
//!
//! Functions are called in the thread of the event.

#![expect(unsafe_code, reason = "calls functions of the caller")]

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use koeldb::Event;

use crate::boundary::Failure;
use crate::functions::callbacks::{
    on_background_error_cb, on_compaction_begin_cb, on_compaction_completed_cb,
    on_external_file_ingested_cb, on_flush_begin_cb, on_flush_completed_cb, on_memtable_sealed_cb,
    on_stall_conditions_changed_cb, on_subcompaction_begin_cb, on_subcompaction_completed_cb,
};
use crate::handle::{self, Handle};
use crate::settings::options::Options;

use super::callbacks::{Destructor, State, given};
use super::compaction_info::{CompactionJob, Subcompaction};
use super::job_info::{FlushJob, Ingestion, Memtable, Stall};

/// A listener (`rocksdb_eventlistener_t`).
///
/// Its functions get a null pointer for the database: events of the engine do not have it.
#[derive(Clone)]
pub(crate) struct Listener(Arc<Functions>);

struct Functions {
    state: State,
    jobs: Jobs,
    flush_begin: on_flush_begin_cb,
    flush_completed: on_flush_completed_cb,
    compaction_begin: on_compaction_begin_cb,
    compaction_completed: on_compaction_completed_cb,
    subcompaction_begin: on_subcompaction_begin_cb,
    subcompaction_completed: on_subcompaction_completed_cb,
    external_file_ingested: on_external_file_ingested_cb,
    background_error: on_background_error_cb,
    stall_conditions_changed: on_stall_conditions_changed_cb,
    memtable_sealed: on_memtable_sealed_cb,
}

/// The error of background work (`rocksdb_status_ptr_t`).
pub(crate) struct Status(koeldb::Error);

impl Status {
    /// Fails with the error.
    pub(crate) fn get(&self) -> Result<(), Failure> {
        Err(self.0.clone().into())
    }
}

/// The error reason of the job that runs in each thread, as its number in C.
#[derive(Default)]
struct Jobs(Mutex<HashMap<ThreadId, u32>>);

/// The error reason of flushes.
const FLUSH: u32 = 0;

/// The error reason of compactions.
const COMPACTION: u32 = 1;

/// The error reason of writes.
const WRITE: u32 = 2;

/// The error reason of writes of the MANIFEST.
const MANIFEST: u32 = 4;

impl Jobs {
    /// Calls `change` with all jobs and the id of this thread.
    fn with<R>(&self, change: impl FnOnce(&mut HashMap<ThreadId, u32>, ThreadId) -> R) -> R {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut jobs, thread::current().id())
    }

    fn begin(&self, error_reason: u32) {
        self.with(|jobs, thread| jobs.insert(thread, error_reason));
    }

    fn end(&self) {
        self.with(|jobs, thread| jobs.remove(&thread));
    }

    /// Returns the reason of an error, as its number in C.
    fn error_reason(&self, error: &koeldb::Error) -> u32 {
        let file = error.file().and_then(|file| file.path.file_name());
        if file.is_some_and(|name| name.to_string_lossy().starts_with("MANIFEST")) {
            return MANIFEST;
        }
        self.with(|jobs, thread| jobs.get(&thread).copied().unwrap_or(WRITE))
    }
}

impl koeldb::EventListener for Listener {
    fn on_event(&self, event: &Event<'_>) {
        let of = &*self.0;
        let state = of.state.get();
        match event {
            Event::FlushBegin(info) => {
                of.jobs.begin(FLUSH);
                if let Some(call) = of.flush_begin {
                    let info = Handle::new(FlushJob::from(*info));
                    // SAFETY: the function takes this state and borrows the object.
                    unsafe { call(state, ptr::null_mut(), &raw const info) };
                }
            }
            Event::FlushCompleted(info) => {
                of.jobs.end();
                if let Some(call) = of.flush_completed {
                    let info = Handle::new(FlushJob::from(*info));
                    // SAFETY: the function takes this state and borrows the object.
                    unsafe { call(state, ptr::null_mut(), &raw const info) };
                }
            }
            Event::CompactionBegin(info) => {
                of.jobs.begin(COMPACTION);
                if let Some(call) = of.compaction_begin {
                    let info = Handle::new(CompactionJob::from(*info));
                    // SAFETY: the function takes this state and borrows the object.
                    unsafe { call(state, ptr::null_mut(), &raw const info) };
                }
            }
            Event::CompactionCompleted(info) => {
                of.jobs.end();
                if let Some(call) = of.compaction_completed {
                    let info = Handle::new(CompactionJob::from(*info));
                    // SAFETY: the function takes this state and borrows the object.
                    unsafe { call(state, ptr::null_mut(), &raw const info) };
                }
            }
            Event::SubcompactionBegin(info) => {
                if let Some(call) = of.subcompaction_begin {
                    let info = Handle::new(Subcompaction::from(*info));
                    // SAFETY: the function takes this state and borrows the object.
                    unsafe { call(state, &raw const info) };
                }
            }
            Event::SubcompactionCompleted(info) => {
                if let Some(call) = of.subcompaction_completed {
                    let info = Handle::new(Subcompaction::from(*info));
                    // SAFETY: the function takes this state and borrows the object.
                    unsafe { call(state, &raw const info) };
                }
            }
            Event::ExternalFileIngested(info) => {
                if let Some(call) = of.external_file_ingested {
                    let info = Handle::new(Ingestion::from(*info));
                    // SAFETY: the function takes this state and borrows the object.
                    unsafe { call(state, ptr::null_mut(), &raw const info) };
                }
            }
            Event::BackgroundError(error) => {
                if let Some(call) = of.background_error {
                    let mut status = Handle::new(Status((*error).clone()));
                    let reason = of.jobs.error_reason(error);
                    // SAFETY: the function takes this state and borrows the object.
                    unsafe { call(state, reason, &raw mut status) };
                }
            }
            Event::StallConditionsChanged {
                column_family,
                condition,
                previous,
            } => {
                if let Some(call) = of.stall_conditions_changed {
                    let info = Handle::new(Stall::new(column_family, *condition, *previous));
                    // SAFETY: the function takes this state and borrows the object.
                    unsafe { call(state, &raw const info) };
                }
            }
            Event::MemtableSealed(info) => {
                if let Some(call) = of.memtable_sealed {
                    let info = Handle::new(Memtable::from(*info));
                    // SAFETY: the function takes this state and borrows the object.
                    unsafe { call(state, &raw const info) };
                }
            }
            _ => {}
        }
    }
}

/// Creates a listener. Functions may be null.
#[expect(clippy::too_many_arguments, reason = "C has a function for each event")]
pub(crate) fn create(
    state: *mut c_void,
    destructor: Destructor,
    flush_begin: on_flush_begin_cb,
    flush_completed: on_flush_completed_cb,
    compaction_begin: on_compaction_begin_cb,
    compaction_completed: on_compaction_completed_cb,
    subcompaction_begin: on_subcompaction_begin_cb,
    subcompaction_completed: on_subcompaction_completed_cb,
    external_file_ingested: on_external_file_ingested_cb,
    background_error: on_background_error_cb,
    stall_conditions_changed: on_stall_conditions_changed_cb,
    memtable_sealed: on_memtable_sealed_cb,
) -> *mut Handle<Listener> {
    handle::give(Listener(Arc::new(Functions {
        state: State::new(state, destructor),
        jobs: Jobs::default(),
        flush_begin,
        flush_completed,
        compaction_begin,
        compaction_completed,
        subcompaction_begin,
        subcompaction_completed,
        external_file_ingested,
        background_error,
        stall_conditions_changed,
        memtable_sealed,
    })))
}

/// Adds a listener to options.
pub(super) fn apply(options: &mut Options, listener: Option<Listener>) {
    if let Some(listener) = listener {
        options.inner.add_event_listener(listener);
    }
}

given! {
    /// Gives options a listener; null adds none.
    add(Options, Listener) = |options, listener| apply(options, listener)
}
