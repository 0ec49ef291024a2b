//! Batches of point reads as streams: each result is yielded as soon as it is known.
//!
//! The batch proceeds like that of an awaited multi-get; a poll yields the results of the lookups
//! that no longer wait.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use koeldb_base::{PinnedSlice, Result};
use koeldb_table::blob::BlobParts;

use super::blob_values::BatchBlobs;
use super::futures::SuspendedBatch;
use super::multi_get::{FoundValues, PinnedSlices, too_much};
use super::options::ReadOptions;
use crate::engine::inner::OpenColumnFamily;
use crate::state::ttl;

/// The index of a key, and its result.
type Item = (usize, Result<Option<PinnedSlice>>);

/// An asynchronous [`Stream`] of the results of a multi-get, each with the index of its key.
///
/// The order is that of completion, and every key has one result. The stream can be polled by any
/// executor, and dropped at any time. For deadlines, see [`ColumnFamily::get_async_opt`](crate::ColumnFamily::get_async_opt);
/// `value_size_soft_limit` counts the values already yielded.
pub struct MultiGetStream {
    family: OpenColumnFamily,
    options: ReadOptions,
    state: StreamState,
    /// Results that have arrived, to be yielded.
    ready: VecDeque<Item>,
    key_count: usize,
    found: FoundValues,
    begun: Option<Duration>,
}

/// The progress of a [`MultiGetStream`]: not started, waiting for reads, or ended.
enum StreamState {
    /// The keys, before the lookups start.
    Fresh(Vec<Vec<u8>>),
    Running(Box<RunningBatch>),
    Ended,
}

/// A multi-get batch that waits for device reads, and which of its results were taken.
struct RunningBatch {
    batch: SuspendedBatch,
    values: PinnedSlices,
    /// The number of lookups probed when results were last taken.
    probed: usize,
    /// The lookups that waited when results were last taken.
    waited: Vec<usize>,
    /// For each lookup, whether it waits; used only while results are taken.
    waits: Vec<bool>,
    /// The lookups whose values are in blob files, which are read together at the end.
    in_blobs: Vec<usize>,
}

impl RunningBatch {
    /// Moves the results of lookups that have finished since the last call to `ready`.
    ///
    /// It checks those that waited before and those probed since, so that a poll does not scan a
    /// long batch again.
    fn take_done(&mut self, has_times: bool, options: &ReadOptions, ready: &mut VecDeque<Item>) {
        let RunningBatch {
            batch,
            values,
            probed,
            waited,
            waits,
            in_blobs,
        } = self;
        let none = BlobParts::default();
        let parts = batch.blobs.parts();
        let blobs = BatchBlobs::new(&batch.super_version, parts.unwrap_or(&none));
        let merger = batch.super_version.merger(options.fetch_options());
        let merger = merger.with_blobs(&blobs);
        let (probed_now, waiting) = batch.suspended.progress();
        let waited_before = std::mem::replace(waited, waiting.collect());
        waited.iter().for_each(|&at| waits[at] = true);
        let probed_since = std::mem::replace(probed, probed_now)..probed_now;
        let read = match parts {
            Some(_) => std::mem::take(in_blobs),
            None => Vec::new(),
        };
        for at in waited_before.into_iter().chain(probed_since).chain(read) {
            if waits[at] {
                continue;
            }
            let mut refers = false;
            values.lookups[at].visit_references(false, |_| refers = true);
            if refers && parts.is_none() {
                in_blobs.push(at);
                continue;
            }
            let found = values.lookups[at].take_answer(merger);
            let index = values.order[at] as usize;
            let failed = std::mem::replace(&mut values.answers[index], Ok(None));
            let found = failed.and(found);
            ready.push_back((index, if has_times { ttl::strip(found) } else { found }));
        }
        waited.iter().for_each(|&at| waits[at] = false);
    }
}

impl MultiGetStream {
    pub(crate) fn new(
        family: &OpenColumnFamily,
        keys: Vec<Vec<u8>>,
        options: &ReadOptions,
    ) -> Self {
        MultiGetStream {
            family: family.clone(),
            options: options.clone(),
            key_count: keys.len(),
            state: StreamState::Fresh(keys),
            ready: VecDeque::new(),
            found: FoundValues::default(),
            begun: None,
        }
    }

    /// Returns the next result as a future; `None` after the last. A dropped future has taken none.
    #[expect(
        clippy::should_implement_trait,
        reason = "what every stream calls its next item, without a trait to import"
    )]
    pub fn next(&mut self) -> impl Future<Output = Option<Item>> + Send {
        poll_fn(|context| self.poll(context))
    }

    /// Polls for the next result; the first call starts the lookups.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(self.limited(item)));
            }
            match &mut self.state {
                StreamState::Ended => return Poll::Ready(None),
                StreamState::Fresh(keys) => {
                    let keys = std::mem::take(keys);
                    self.begin(&keys);
                }
                StreamState::Running(running) => {
                    let RunningBatch { batch, values, .. } = &mut **running;
                    let reads = &self.family.inner().reads;
                    let polled = reads.poll_multi_get(batch, values, &self.options, context);
                    let has_times = self.family.data().ttl.is_some();
                    running.take_done(has_times, &self.options, &mut self.ready);
                    if polled.is_ready() {
                        self.state = StreamState::Ended;
                    } else if self.ready.is_empty() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Starts the lookups of all keys on memtables and cached blocks.
    fn begin(&mut self, keys: &[Vec<u8>]) {
        let reads = &self.family.inner().reads;
        self.begun = reads.context.measures().then(|| reads.context.clock.now());
        let mut values = PinnedSlices::with_capacity(keys.len());
        let data = self.family.data();
        match reads.begin_multi_get(data, keys, &self.options, &mut values) {
            Ok(Some(batch)) => {
                self.state = StreamState::Running(Box::new(RunningBatch {
                    batch,
                    probed: 0,
                    waited: Vec::new(),
                    waits: vec![false; values.lookups.len()],
                    in_blobs: Vec::new(),
                    values,
                }));
                return;
            }
            Ok(None) => {}
            Err(error) => values.fail(&error),
        }
        self.ready.extend(values.answers.drain(..).enumerate());
        self.state = StreamState::Ended;
    }

    /// Replaces a result by an error if the values before it exceed `value_size_soft_limit`.
    fn limited(&mut self, (index, answer): Item) -> Item {
        let limit = self.options.value_size_soft_limit;
        let answer = match answer {
            Ok(_) if self.found.bytes > limit => Err(too_much(limit)),
            answer => answer,
        };
        if let Ok(Some(value)) = &answer {
            self.found.add(value);
        }
        let is_last = self.ready.is_empty() && matches!(self.state, StreamState::Ended);
        if let (Some(begun), true) = (self.begun, is_last) {
            let reads = &self.family.inner().reads;
            reads.record_multi_get(self.key_count, self.found, begun);
        }
        (index, answer)
    }
}

impl Stream for MultiGetStream {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        self.get_mut().poll(context)
    }
}

impl fmt::Debug for MultiGetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MultiGetStream({} answers ready)", self.ready.len())
    }
}
