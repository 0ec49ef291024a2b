//! The values of a batch of lookups that are in blob files, read together.
//!
//! Lookups end at references. When all of a batch have ended, the parts of the blob files that they
//! refer to are read in one round, and the values are taken from these bytes. Values that the round
//! left out, as those beyond `value_size_soft_limit`, are read alone if they are taken after all.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use koeldb_base::merge_operator::{FetchBlob, FetchOptions};
use koeldb_base::{Lookup, PinnedSlice, Result};
use koeldb_fs::read_driver::{ReadDriver, ReadSession};
use koeldb_lsm::version::BlobRead;
use koeldb_table::blob::{BlobBatch, BlobBytes, BlobParts, WantedBlobs};

use super::suspended::SearchContext;
use crate::options::ReadTier;
use crate::state::super_version::SuperVersion;

/// The source of the values of a batch: what was read together, and otherwise the files.
#[derive(Clone, Copy)]
pub(super) struct BatchBlobs<'b> {
    super_version: &'b SuperVersion,
    parts: &'b BlobParts,
}

impl<'b> BatchBlobs<'b> {
    pub(super) fn new(super_version: &'b SuperVersion, parts: &'b BlobParts) -> Self {
        BatchBlobs {
            super_version,
            parts,
        }
    }
}

impl FetchBlob for BatchBlobs<'_> {
    fn fetch(&self, user_key: &[u8], reference: &[u8]) -> Result<PinnedSlice> {
        self.fetch_with(user_key, reference, FetchOptions::default())
    }

    fn fetch_with(
        &self,
        user_key: &[u8],
        reference: &[u8],
        options: FetchOptions,
    ) -> Result<PinnedSlice> {
        let how = BlobRead {
            options,
            lacks_timestamps: true,
            bytes: BlobBytes::Batch(self.parts),
        };
        (self.super_version.version).blob_value(
            &self.super_version.tables,
            user_key,
            reference,
            how,
        )
    }
}

/// Returns the parts of blob files that the values of finished lookups need.
///
/// `all_columns`: those of all columns of entities, not of the default column alone.
fn wanted(context: &SearchContext<'_>, lookups: &[Lookup], all_columns: bool) -> WantedBlobs {
    let mut wanted = WantedBlobs::default();
    let options = context.options;
    let (version, tables) = (
        &context.super_version.version,
        &context.super_version.tables,
    );
    let reads = !matches!(options.read_tier, ReadTier::BlockCache | ReadTier::Memtable);
    if version.blob_files.is_empty() || !reads {
        return wanted;
    }
    let how = BlobRead {
        options: options.fetch_options(),
        lacks_timestamps: true,
        bytes: BlobBytes::Alone,
    };
    let mut bytes = 0_u64;
    for lookup in lookups {
        if bytes > options.value_size_soft_limit {
            break;
        }
        lookup.visit_references(all_columns, |reference| {
            let key = lookup.user_key();
            let stored = version.want_blob(tables, key, reference, how, &mut wanted);
            bytes = bytes.saturating_add(stored);
        });
    }
    wanted
}

/// Reads the values of finished lookups together, blocking; `overlaps` tells whether reads overlap.
pub(super) fn read_together(
    context: &SearchContext<'_>,
    lookups: &[Lookup],
    all_columns: bool,
    overlaps: bool,
) -> BlobParts {
    let wanted = wanted(context, lookups, all_columns);
    if wanted.is_empty() {
        return BlobParts::default();
    }
    if !overlaps {
        return wanted.read_in_place();
    }
    let reads = &context.reads.async_reads;
    // Reads abandoned at a time limit outlive the call.
    let driver: Box<dyn ReadDriver> = match context.options.is_bounded() {
        true => Box::new(reads.shared()),
        false => Box::new(reads.inline()),
    };
    let limits = context.options.flight_limits();
    let batch = BlobBatch::start(driver, wanted, limits, context.now());
    batch.wait(deadline(context), || context.now())
}

/// The reads of the values of a batch for a future, which begin when its lookups have ended.
#[derive(Default)]
pub(super) enum PolledBlobs {
    /// Some lookups have not ended.
    #[default]
    Waiting,
    /// Reads are in flight.
    Reading(Box<BlobBatch<ReadSession>>),
    /// What was read.
    Done(BlobParts),
}

impl PolledBlobs {
    /// Reads the values of finished lookups together; ready when all reads have ended.
    pub(super) fn poll(
        &mut self,
        context: &SearchContext<'_>,
        lookups: &[Lookup],
        task: &mut Context<'_>,
    ) -> Poll<()> {
        if let PolledBlobs::Waiting = self {
            let wanted = wanted(context, lookups, false);
            *self = match wanted.is_empty() {
                true => PolledBlobs::Done(BlobParts::default()),
                false => PolledBlobs::Reading(Box::new(BlobBatch::start(
                    context.reads.async_reads.shared(),
                    wanted,
                    context.options.flight_limits(),
                    context.now(),
                ))),
            };
        }
        if let PolledBlobs::Reading(batch) = self {
            let now = context.now();
            if deadline(context).is_some_and(|deadline| now >= deadline) {
                batch.abandon();
            }
            ready!(batch.poll(task, now));
            let done = std::mem::take(self);
            if let PolledBlobs::Reading(batch) = done {
                *self = PolledBlobs::Done(batch.into_parts());
            }
        }
        Poll::Ready(())
    }

    /// Returns what was read, once all reads have ended.
    pub(super) fn parts(&self) -> Option<&BlobParts> {
        match self {
            PolledBlobs::Done(parts) => Some(parts),
            PolledBlobs::Waiting | PolledBlobs::Reading(_) => None,
        }
    }
}

/// Whether values of finished lookups are in blob files and not in the cache.
pub(super) fn needs_blobs(context: &SearchContext<'_>, lookups: &[Lookup]) -> bool {
    !wanted(context, lookups, false).is_empty()
}

/// The deadline of a read, on the clock of the driver.
fn deadline(context: &SearchContext<'_>) -> Option<Duration> {
    let deadline = context.options.deadline;
    deadline.map(|at| context.reads.async_reads.clock().time_of(at))
}
