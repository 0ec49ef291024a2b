//! Scans as streams.
//!
//! The cursor of a stream runs on a background thread of the environment, for a chunk of entries at
//! a time: a scan may wait for devices, open tables and run merge operators, which must not block a
//! polling thread. A poll yields entries that have arrived, or requests the next chunk and waits
//! for a wake-up.
//!
//! The cursor is either in the stream or in use by the thread. A stream that is dropped in the
//! meantime sets a flag; the thread sees it after the current entry, and drops the cursor.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use futures_core::Stream;
use koeldb_base::error::ErrorDetail;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, PinnedSlice, Result};

use super::iterator::DbIterator;
use crate::env::Pool;

/// The number of entries of the first chunk; each further one is twice as large, up to a maximum.
const FIRST_CHUNK: usize = 16;
/// The maximum number of entries of a chunk.
const LAST_CHUNK: usize = 256;

/// The size in bytes at which a chunk of large entries ends.
const CHUNK_BYTES: usize = 256 << 10;

type Item = Result<(PinnedSlice, PinnedSlice)>;

/// An asynchronous [`Stream`] of the entries of a [`DbIterator`], read on background threads.
///
/// It can be polled by any executor, and dropped at any moment. Yields an error once, then ends.
///
/// ```
/// use std::pin::pin;
/// use std::task::{Context, Poll, Wake, Waker};
///
/// use koeldb::{Db, Env, Options};
///
/// // Any executor will do; this one parks its thread.
/// struct Unpark(std::thread::Thread);
/// impl Wake for Unpark {
///     fn wake(self: std::sync::Arc<Self>) {
///         self.0.unpark();
///     }
/// }
/// fn block_on<T>(future: impl Future<Output = T>) -> T {
///     let waker = Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
///     let mut future = pin!(future);
///     loop {
///         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
///             Poll::Ready(output) => return output,
///             Poll::Pending => std::thread::park(),
///         }
///     }
/// }
///
/// # fn main() -> koeldb::Result<()> {
/// let mut options = Options::new();
/// options.create_if_missing(true).set_env(&Env::mem_env());
/// let db = Db::open(&options, "/db")?;
/// for id in 0..100_u64 {
///     db.put(id.to_be_bytes(), "value")?;
/// }
/// block_on(async {
///     assert!(db.get_async(42_u64.to_be_bytes()).await?.is_some());
///     let keys = [7_u64.to_be_bytes(), 700_u64.to_be_bytes()];
///     let values = db.multi_get_async(&keys).await;
///     assert!(values.get(0)?.is_some() && values.get(1)?.is_none());
///     let mut stream = db.range(..).into_stream();
///     let mut count = 0;
///     while let Some(entry) = stream.next().await {
///         entry?;
///         count += 1;
///     }
///     assert_eq!(count, 100);
///     Ok(())
/// })
/// # }
/// ```
pub struct DbStream {
    /// Entries that have arrived, to be yielded.
    ready: VecDeque<Item>,
    state: StreamState,
    chunk: usize,
    pool: Pool,
}

/// Where the iterator of a stream is: in the stream, with a reading thread, or ended.
enum StreamState {
    Idle(Box<DbIterator>),
    Reading(Arc<Mutex<PendingChunk>>),
    Ended,
}

/// The mailbox between a stream and the thread that reads its next chunk of entries.
#[derive(Default)]
struct PendingChunk {
    made: Option<Chunk>,
    waker: Option<Waker>,
    is_abandoned: bool,
}

/// A chunk of entries that a background thread has read, with the iterator to continue.
struct Chunk {
    items: VecDeque<Item>,
    /// The iterator after the chunk; `None` at the end of the range.
    rest: Option<Box<DbIterator>>,
}

impl DbStream {
    pub(super) fn new(iterator: DbIterator, pool: Pool) -> Self {
        DbStream {
            ready: VecDeque::new(),
            state: StreamState::Idle(Box::new(iterator)),
            chunk: FIRST_CHUNK,
            pool,
        }
    }

    /// Returns the next entry as a future; `None` at the end. A dropped future has taken no entry.
    #[expect(
        clippy::should_implement_trait,
        reason = "what every stream calls its next item, without a trait to import"
    )]
    pub fn next(&mut self) -> impl Future<Output = Option<Item>> + Send {
        poll_fn(|context| self.poll(context))
    }

    /// Returns up to `max` next entries as a future: those that have arrived, but at least one.
    ///
    /// At the end there are none. A dropped future has taken no entry.
    pub fn next_chunk(
        &mut self,
        max: usize,
    ) -> impl Future<Output = Result<Vec<(PinnedSlice, PinnedSlice)>>> + Send {
        poll_fn(move |context| {
            if max == 0 {
                return Poll::Ready(Ok(Vec::new()));
            }
            let Some(first) = ready!(self.poll(context)) else {
                return Poll::Ready(Ok(Vec::new()));
            };
            let mut entries = vec![first?];
            // The next call returns an error that has already arrived.
            while entries.len() < max
                && let Some(Ok(_)) = self.ready.front()
                && let Some(item) = self.ready.pop_front()
            {
                entries.push(item?);
            }
            Poll::Ready(Ok(entries))
        })
    }

    /// Polls for the next entry; submits a background read of the next chunk if none is ready.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            match std::mem::replace(&mut self.state, StreamState::Ended) {
                StreamState::Ended => return Poll::Ready(None),
                StreamState::Idle(iterator) => self.send(iterator),
                StreamState::Reading(pending) => {
                    let mut state = lock(&pending);
                    let Some(chunk) = state.made.take() else {
                        match &mut state.waker {
                            Some(waker) => waker.clone_from(context.waker()),
                            None => state.waker = Some(context.waker().clone()),
                        }
                        drop(state);
                        self.state = StreamState::Reading(pending);
                        return Poll::Pending;
                    };
                    self.ready = chunk.items;
                    if let Some(rest) = chunk.rest {
                        self.state = StreamState::Idle(rest);
                    }
                }
            }
        }
    }

    /// Submits a background job that reads the next chunk with `iterator`.
    fn send(&mut self, iterator: Box<DbIterator>) {
        let pending = Arc::new(Mutex::new(PendingChunk::default()));
        let count = self.chunk;
        self.chunk = (count * 2).min(LAST_CHUNK);
        self.state = StreamState::Reading(Arc::clone(&pending));
        let job = move || {
            let made = AssertUnwindSafe(|| make_chunk(&pending, iterator, count));
            let chunk = panic::catch_unwind(made).unwrap_or_else(|_| Chunk {
                items: VecDeque::from([Err(panicked())]),
                rest: None,
            });
            deliver(&pending, chunk);
        };
        // No thread that could run the job waits for the chunk.
        self.pool.submit_or_run(job);
    }
}

/// Returns the error of a panic in a comparator, merge operator or other plug-in.
#[cold]
fn panicked() -> Error {
    Error::with_kind(ErrorKind::Aborted, "a plug-in panicked during a scan")
        .with_detail(ErrorDetail::PluginPanicked)
}

/// Reads up to `count` entries of `iterator` into a chunk; stops early if the stream was dropped.
fn make_chunk(pending: &Mutex<PendingChunk>, mut iterator: Box<DbIterator>, count: usize) -> Chunk {
    let mut items = VecDeque::with_capacity(count);
    let mut bytes = 0;
    let mut has_ended = false;
    while !has_ended && items.len() < count && bytes < CHUNK_BYTES {
        if lock(pending).is_abandoned {
            break;
        }
        match iterator.next() {
            Some(item) => {
                if let Ok((key, value)) = &item {
                    bytes += key.len() + value.len();
                }
                items.push_back(item);
            }
            None => has_ended = true,
        }
    }
    Chunk {
        items,
        rest: (!has_ended).then_some(iterator),
    }
}

/// Passes a chunk to its stream and wakes the polling task; drops it if the stream was dropped.
fn deliver(pending: &Mutex<PendingChunk>, chunk: Chunk) {
    let mut state = lock(pending);
    if state.is_abandoned {
        drop(state);
        drop(chunk);
        return;
    }
    state.made = Some(chunk);
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Stream for DbStream {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        self.get_mut().poll(context)
    }
}

impl Drop for DbStream {
    fn drop(&mut self) {
        if let StreamState::Reading(pending) = &self.state {
            let mut state = lock(pending);
            state.is_abandoned = true;
            state.waker = None;
            let made = state.made.take();
            drop(state);
            drop(made);
        }
    }
}

impl fmt::Debug for DbStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DbStream({} entries ready)", self.ready.len())
    }
}
