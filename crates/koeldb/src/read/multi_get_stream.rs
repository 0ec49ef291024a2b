//! Batches of point reads as streams: each answer comes as soon as it is known.
//!
//! The batch goes on as one that is awaited whole does; a poll hands out the answers of the look-ups that do not wait any
//! more.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use koeldb_base::{PinnedSlice, Result};

use super::futures::{First, SuspendedBatch};
use super::multi_get::{PinnedSlices, too_much};
use crate::column_family::ColumnFamily;
use crate::options::ReadOptions;

/// The place of a key among those asked for, and its answer.
type Item = (usize, Result<Option<PinnedSlice>>);

/// The answers of a multi-get as a [`Stream`], each with the index of its key, in the order in which they are found. Every
/// key is answered once.
///
/// It can be polled by any executor, and dropped at any moment. Of deadlines, see [`ColumnFamily::get_async_opt`];
/// `value_size_soft_limit` counts the values that were handed out before.
pub struct MultiGetStream {
    family: ColumnFamily,
    options: ReadOptions,
    place: Place,
    /// What can be handed out.
    ready: VecDeque<Item>,
    key_count: usize,
    value_bytes: u64,
    begun: Option<Duration>,
}

enum Place {
    /// The keys, before anything was looked for.
    Fresh(Vec<Vec<u8>>),
    Running(Box<Running>),
    Ended,
}

/// A batch of which some look-ups wait.
struct Running {
    batch: SuspendedBatch,
    values: PinnedSlices,
    /// So many look-ups were probed when answers were taken last, and these of them waited.
    probed: usize,
    waited: Vec<usize>,
    /// Of each look-up, whether it waits; only while answers are taken.
    waits: Vec<bool>,
}

impl Running {
    /// Takes the answers of the look-ups that are done. It looks at those that waited before and those that were probed
    /// since, so that a long batch is not gone through again at each poll.
    fn take_done(&mut self, ready: &mut VecDeque<Item>) {
        let Running {
            batch,
            values,
            probed,
            waited,
            waits,
        } = self;
        let operator = batch.super_version.options.merge_operator.as_deref();
        let (probed_now, waiting) = batch.probing.progress();
        let waited_before = std::mem::replace(waited, waiting.collect());
        waited.iter().for_each(|&at| waits[at] = true);
        let probed_since = std::mem::replace(probed, probed_now)..probed_now;
        for at in waited_before.into_iter().chain(probed_since) {
            if waits[at] {
                continue;
            }
            let found = values.lookups[at].take_answer(operator);
            let index = values.order[at] as usize;
            let failed = std::mem::replace(&mut values.answers[index], Ok(None));
            ready.push_back((index, failed.and(found)));
        }
        waited.iter().for_each(|&at| waits[at] = false);
    }
}

impl MultiGetStream {
    pub(crate) fn new(family: &ColumnFamily, keys: Vec<Vec<u8>>, options: &ReadOptions) -> Self {
        MultiGetStream {
            family: family.clone(),
            options: options.clone(),
            key_count: keys.len(),
            place: Place::Fresh(keys),
            ready: VecDeque::new(),
            value_bytes: 0,
            begun: None,
        }
    }

    /// The next answer; `None` after the last. A future that is dropped has taken none.
    #[expect(
        clippy::should_implement_trait,
        reason = "what every stream calls its next item, without a trait to import"
    )]
    pub fn next(&mut self) -> impl Future<Output = Option<Item>> + Send {
        poll_fn(|context| self.poll(context))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(self.limited(item)));
            }
            match &mut self.place {
                Place::Ended => return Poll::Ready(None),
                Place::Fresh(keys) => {
                    let keys = std::mem::take(keys);
                    self.begin(&keys);
                }
                Place::Running(running) => {
                    let Running { batch, values, .. } = &mut **running;
                    let inner = self.family.inner();
                    let polled = inner.poll_lookups(batch, values, &self.options, context);
                    running.take_done(&mut self.ready);
                    if polled.is_ready() {
                        self.place = Place::Ended;
                    } else if self.ready.is_empty() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Looks for all keys, as far as that needs no device.
    fn begin(&mut self, keys: &[Vec<u8>]) {
        let inner = self.family.inner();
        self.begun = inner.measures().then(|| inner.clock.now());
        let mut values = PinnedSlices::with_capacity(keys.len());
        values.begin(keys.len());
        let data = self.family.data();
        match inner.begin_multi_get(data, keys, &self.options, &mut values) {
            Ok(First::Suspended(batch)) => {
                self.place = Place::Running(Box::new(Running {
                    batch,
                    probed: 0,
                    waited: Vec::new(),
                    waits: vec![false; values.lookups.len()],
                    values,
                }));
                return;
            }
            Ok(First::Done(())) => {}
            Err(error) => values.answers.fill(Err(error)),
        }
        self.ready.extend(values.answers.drain(..).enumerate());
        self.place = Place::Ended;
    }

    /// An answer that is handed out, unless the values before it were too large.
    fn limited(&mut self, (index, answer): Item) -> Item {
        let limit = self.options.value_size_soft_limit;
        let answer = match answer {
            Ok(_) if self.value_bytes > limit => Err(too_much(limit)),
            answer => answer,
        };
        if let Ok(Some(value)) = &answer {
            self.value_bytes = self.value_bytes.saturating_add(value.len() as u64);
        }
        let is_last = self.ready.is_empty() && matches!(self.place, Place::Ended);
        if let (Some(begun), true) = (self.begun, is_last) {
            let inner = self.family.inner();
            inner.note_multi_get(self.key_count, self.value_bytes, begun);
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
