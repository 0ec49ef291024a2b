//! A cursor that waits for device reads where the inner cursor suspends.
//!
//! The block sources of the inner cursor record the blocks they need; when it suspends, all of them
//! are read together, and the call is repeated until it completes or times out.

use std::sync::Arc;

use koeldb_base::cursor::Blocking;
use koeldb_base::timestamp::EntryVersion;
use koeldb_base::{Cursor, Fault, PinnedSlice};
use koeldb_lsm::cursor::RunsCursor;
use koeldb_table::block_based::readahead::scan_reads::{ScanReads, ScanSuspended};

/// A cursor that waits for device reads when the inner cursor suspends for missing blocks.
pub(super) struct BlockingCursor<C> {
    inner: C,
    /// The recorded needs of suspended sources; `None` if the sources wait themselves.
    reads: Option<Arc<ScanReads>>,
}

impl<C: Cursor<Suspend = ScanSuspended>> BlockingCursor<C> {
    pub(super) fn new(inner: C, reads: Option<Arc<ScanReads>>) -> Self {
        BlockingCursor { inner, reads }
    }

    /// Repeats a suspended cursor call whenever missing blocks have arrived, until it completes.
    #[cold]
    fn wait_and_retry(
        &mut self,
        call: impl Fn(&mut C) -> Result<(), Fault<ScanSuspended>>,
    ) -> Result<(), Fault<Blocking>> {
        loop {
            let waited = self.reads.as_ref().map_or(Ok(()), |reads| reads.wait());
            let ended = match waited
                .map_err(Fault::Error)
                .and_then(|()| call(&mut self.inner))
            {
                Ok(()) => Ok(()),
                Err(Fault::Error(error)) => Err(Fault::Error(error)),
                Err(Fault::Suspend(ScanSuspended)) => continue,
            };
            if let Some(reads) = &self.reads {
                reads.settle();
            }
            return ended;
        }
    }

    /// Performs a seek or step of the inner cursor, and waits for missing blocks if it suspends.
    #[inline]
    fn run_call(
        &mut self,
        call: impl Fn(&mut C) -> Result<(), Fault<ScanSuspended>>,
    ) -> Result<(), Fault<Blocking>> {
        match call(&mut self.inner) {
            Ok(()) => Ok(()),
            Err(Fault::Error(error)) => Err(Fault::Error(error)),
            Err(Fault::Suspend(ScanSuspended)) => self.wait_and_retry(call),
        }
    }
}

impl<C: RunsCursor<Suspend = ScanSuspended>> RunsCursor for BlockingCursor<C> {
    fn run(&self) -> usize {
        self.inner.run()
    }

    fn skip_in_run(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        self.run_call(|inner| inner.skip_in_run(target))
    }
}

impl<C: Cursor<Suspend = ScanSuspended>> Cursor for BlockingCursor<C> {
    type Suspend = Blocking;

    #[inline]
    fn valid(&self) -> bool {
        self.inner.valid()
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
        self.run_call(C::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
        self.run_call(C::seek_to_last)
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        self.run_call(|inner| inner.seek(target))
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        self.run_call(|inner| inner.seek_for_prev(target))
    }

    #[inline]
    fn next(&mut self) -> Result<(), Fault<Blocking>> {
        self.run_call(C::next)
    }

    #[inline]
    fn prev(&mut self) -> Result<(), Fault<Blocking>> {
        self.run_call(C::prev)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.inner.value()
    }

    fn pinned_value(&self) -> PinnedSlice {
        self.inner.pinned_value()
    }

    fn version(&self) -> Option<EntryVersion> {
        self.inner.version()
    }
}
