//! Point reads as futures.
//!
//! A poll proceeds as far as possible without waiting. If all blocks of a lookup are cached, it
//! completes at the first poll, which allocates nothing and reads no device. Missing blocks are
//! then read on the shared driver of the database, which wakes the task; from then on the
//! super-version is pinned. When its block has arrived, a lookup resumes in the run where it
//! suspended.
//!
//! Dropping a future drops its session: reads in flight complete by themselves, and nothing stays
//! pinned.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use koeldb_base::{Lookup, PinnedSlice, Result};
use koeldb_fs::read_driver::ReadSession;
use koeldb_table::blob::BlobParts;

use super::blob_values::{BatchBlobs, PolledBlobs, needs_blobs};
use super::get::search_memtables_of;
use super::multi_get::PinnedSlices;
use super::options::ReadOptions;
use super::suspended::{SearchContext, SuspendedLookups};
use crate::engine::reads::Reads;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::super_version::SuperVersion;
use crate::state::ttl;

/// A point lookup of one key that waits for device reads.
struct SuspendedGet {
    super_version: Arc<SuperVersion>,
    lookup: Lookup,
    suspended: SuspendedLookups<ReadSession>,
    blobs: PolledBlobs,
}

/// A batch of point lookups that wait for device reads.
pub(super) struct SuspendedBatch {
    pub(super) super_version: Arc<SuperVersion>,
    pub(super) suspended: SuspendedLookups<ReadSession>,
    /// The values in blob files.
    pub(super) blobs: PolledBlobs,
}

/// The outcome of starting an asynchronous read: its result, or its suspended state.
pub(super) enum First<T, S> {
    Done(T),
    Suspended(S),
}

impl Reads {
    /// Reads the value of a key asynchronously, without blocking the polling thread.
    pub(crate) async fn get_async(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        options.check_async()?;
        self.health.check_open()?;
        let begun = self.context.measures().then(|| self.context.clock.now());
        let found = match self.begin_get(family, key, options)? {
            First::Done(found) => found,
            First::Suspended(mut get) => {
                poll_fn(|context| self.poll_get(&mut get, options, context)).await?
            }
        };
        let found = match family.ttl {
            Some(_) => ttl::strip(Ok(found))?,
            None => found,
        };
        if let Some(begun) = begun {
            self.record_get(found.as_ref(), begun);
        }
        Ok(found)
    }

    /// Starts a lookup on memtables and cached blocks; suspends it at the first missing block.
    fn begin_get(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<First<Option<PinnedSlice>, Box<SuspendedGet>>> {
        family.super_version.with(|super_version| {
            let (super_version, seqno) = self.view(family, super_version, options)?;
            if let Some(level) = super_version.cuckoo_level(options.takes_level()) {
                let mut found = Ok(None);
                level.get_to(key, seqno, &mut found);
                return Ok(First::Done(found?));
            }
            let mut lookup = Lookup::new(key, seqno);
            search_memtables_of(self, super_version, &mut lookup, options)?;
            let context = SearchContext::new(super_version, options, self);
            let mut suspended = SuspendedLookups::polled(&context);
            let is_in_memtables = lookup.is_settled();
            let is_done = is_in_memtables
                || suspended.begin_one(&context, &mut lookup)?
                    && !needs_blobs(&context, std::slice::from_ref(&lookup));
            if is_done {
                let merger = || super_version.merger(options.fetch_options());
                return Ok(First::Done(lookup.finish(merger)?));
            }
            Ok(First::Suspended(Box::new(SuspendedGet {
                super_version: Arc::clone(super_version),
                lookup,
                suspended,
                blobs: PolledBlobs::default(),
            })))
        })
    }

    /// Resumes a suspended point lookup if its block has arrived; returns the result once complete.
    fn poll_get(
        &self,
        get: &mut SuspendedGet,
        options: &ReadOptions,
        task: &mut Context<'_>,
    ) -> Poll<Result<Option<PinnedSlice>>> {
        let SuspendedGet {
            super_version,
            lookup,
            suspended,
            blobs,
        } = get;
        let mut failure = Ok(());
        let context = SearchContext::new(super_version, options, self);
        let lookups = std::slice::from_mut(lookup);
        // Once it has ended, the lookup has nothing to wait for.
        ready!(suspended.poll(&context, lookups, task, &mut |_, error| {
            failure = Err(error);
        }));
        if let Err(error) = failure {
            return Poll::Ready(Err(error));
        }
        ready!(blobs.poll(&context, lookups, task));
        let merger = super_version.merger(options.fetch_options());
        Poll::Ready(match blobs.parts() {
            Some(parts) => {
                let blobs = BatchBlobs::new(super_version, parts);
                lookup.take_answer(merger.with_blobs(&blobs))
            }
            None => lookup.take_answer(merger),
        })
    }

    /// Reads several keys of one column family asynchronously, without blocking the polling thread.
    pub(crate) async fn multi_get_async<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamilyData,
        keys: &[K],
        options: &ReadOptions,
    ) -> PinnedSlices {
        let begun = self.context.measures().then(|| self.context.clock.now());
        let mut values = PinnedSlices::with_capacity(keys.len());
        match self.begin_multi_get(family, keys, options, &mut values) {
            Err(error) => values.fail(&error),
            Ok(None) => {}
            Ok(Some(mut batch)) => {
                poll_fn(|task| self.poll_multi_get(&mut batch, &mut values, options, task)).await;
                let none = BlobParts::default();
                let parts = batch.blobs.parts().unwrap_or(&none);
                let blobs = BatchBlobs::new(&batch.super_version, parts);
                let merger = batch.super_version.merger(options.fetch_options());
                values.finish(merger.with_blobs(&blobs), options.value_size_soft_limit);
                if family.ttl.is_some() {
                    values.strip_times();
                }
            }
        }
        if let Some(begun) = begun {
            self.record_multi_get(values.len(), values.found(), begun);
        }
        values
    }

    /// Starts a multi-get on memtables and cached blocks; returns a batch if lookups must wait.
    pub(super) fn begin_multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamilyData,
        keys: &[K],
        options: &ReadOptions,
        values: &mut PinnedSlices,
    ) -> Result<Option<SuspendedBatch>> {
        options.check_async()?;
        self.search_batch(family, keys, options, values, |context, batch| {
            let mut suspended = SuspendedLookups::polled(context);
            let (lookups, mut fail) = batch.split();
            let is_done = suspended.begin(context, lookups, &mut fail);
            (!is_done || needs_blobs(context, lookups)).then(|| SuspendedBatch {
                super_version: Arc::clone(context.super_version),
                suspended,
                blobs: PolledBlobs::default(),
            })
        })
    }

    /// Resumes the lookups of a batch whose blocks have arrived; ready when none waits any more.
    ///
    /// `values` gets the errors of failed lookups; the values of the others are taken afterwards.
    pub(super) fn poll_multi_get(
        &self,
        batch: &mut SuspendedBatch,
        values: &mut PinnedSlices,
        options: &ReadOptions,
        task: &mut Context<'_>,
    ) -> Poll<()> {
        let context = SearchContext::new(&batch.super_version, options, self);
        let (lookups, mut fail) = values.split();
        // Once they have ended, the lookups have nothing to wait for.
        ready!(batch.suspended.poll(&context, lookups, task, &mut fail));
        batch.blobs.poll(&context, lookups, task)
    }
}
