//! Calls that wait for a device or for other writers, as futures.
//!
//! Such a call runs on a background thread of the [`Env`](crate::Env); the task that polls the
//! future blocks no thread. A call begins at the first poll: a future that was never polled does
//! nothing, and one that is dropped later does not stop its call.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use koeldb_base::error::WriteOutcome;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};

use super::Db;
use crate::batch::WriteBatch;
use crate::options::{FlushOptions, WriteOptions};

impl Db {
    /// Like [`Db::write_opt`], as a future that waits through stalls and syncs.
    ///
    /// Each such write costs a hand-off to a background thread. Without `sync` a write is an
    /// insertion into memory and into the page cache, so [`Db::write`] suits a task as well where
    /// no stalls are expected. A future that is dropped after its first poll may still apply the
    /// batch, as a whole.
    ///
    /// # Errors
    /// See [`Db::write_opt`]; `Aborted` if the write panicked.
    pub fn write_async(
        &self,
        batch: WriteBatch,
        options: &WriteOptions,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let options = *options;
        self.in_background(move |db| db.write_opt(&batch, &options))
    }

    /// Like [`Db::flush_wal`], as a future.
    ///
    /// # Errors
    /// See [`Db::flush_wal`].
    pub fn flush_wal_async(&self, sync: bool) -> impl Future<Output = Result<()>> + Send + use<> {
        self.in_background(move |db| db.flush_wal(sync))
    }

    /// Like [`Db::flush_opt`], as a future.
    ///
    /// # Errors
    /// See [`Db::flush`].
    pub fn flush_async(
        &self,
        options: &FlushOptions,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let options = *options;
        self.in_background(move |db| db.flush_opt(&options))
    }

    /// Like [`Db::close`], as a future.
    ///
    /// # Errors
    /// See [`Db::close`].
    pub fn close_async(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        self.in_background(Db::close)
    }

    /// Returns a future that runs `call` on a background thread, starting at its first poll.
    fn in_background<F: FnOnce(&Db) -> Result<()> + Send + 'static>(
        &self,
        call: F,
    ) -> impl Future<Output = Result<()>> + Send + use<F> {
        let db = self.clone();
        async move {
            let outcome = Arc::new(Outcome::default());
            let finish = FinishOnDrop(Arc::clone(&outcome));
            let pool = db.inner().context.env.pool.clone();
            pool.submit_call(move || {
                let result = call(&db);
                // If this is the last handle, the database is closed when the caller continues.
                drop(db);
                finish.0.set(result);
            });
            poll_fn(|context| outcome.poll(context)).await
        }
    }
}

/// A one-shot channel for the result of a call that runs on another thread.
#[derive(Default)]
struct Outcome(Mutex<OutcomeState>);

/// The result of a call, and the waker of the task that awaits it.
#[derive(Default)]
struct OutcomeState {
    result: Option<Result<()>>,
    waker: Option<Waker>,
}

impl Outcome {
    /// Sets the result, unless there is one, and wakes the task.
    fn set(&self, result: Result<()>) {
        let waker = {
            let mut state = lock(&self.0);
            state.result.get_or_insert(result);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Polls for the result; registers the task's waker if there is none yet.
    fn poll(&self, context: &Context<'_>) -> Poll<Result<()>> {
        let mut state = lock(&self.0);
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A guard that sets an `Aborted` error on drop if the call set no result, because it panicked.
struct FinishOnDrop(Arc<Outcome>);

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        self.0.set(Err(Error::with_kind(
            ErrorKind::Aborted,
            "a call on a background thread panicked",
        )
        .with_outcome(WriteOutcome::Indeterminate)));
    }
}
