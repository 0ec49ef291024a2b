//! The boundary up to which the log may be purged.

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

/// The shared index of the last log entry that is durable in the state or a snapshot.
///
/// A state machine raises it, and the log is not purged beyond it: the Raft log is the write-ahead
/// log of the state. A log that is opened is compared with the position that the state machine
/// found.
#[derive(Clone, Debug, Default)]
pub struct DurableIndex {
    reached: watch::Sender<Reached>,
    /// The position of the state when it was opened: the index and the encoded id of the last entry.
    opened: Arc<OnceLock<(u64, Vec<u8>)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    /// The number of durable entries: one more than the index of the last one.
    count: u64,
    /// Whether the last installation of a snapshot failed.
    has_failed: bool,
}

impl DurableIndex {
    /// Marks the entries up to `index`, inclusive, as durable; never lowers the index.
    pub(crate) fn raise(&self, index: u64) {
        self.reached.send_modify(|reached| {
            reached.count = reached.count.max(index.saturating_add(1));
            reached.has_failed = false;
        });
    }

    /// Notes that a snapshot could not be installed: who waits for it must not wait on.
    pub(crate) fn fail(&self) {
        self.reached
            .send_modify(|reached| reached.has_failed = true);
    }

    /// Stores the applied position found when the state was opened: entry index and encoded log id.
    pub(crate) fn set_opened(&self, index: u64, id: Vec<u8>) {
        let _ = self.opened.set((index, id));
        self.raise(index);
    }

    /// Returns the position set by [`DurableIndex::set_opened`].
    pub(crate) fn opened(&self) -> Option<&(u64, Vec<u8>)> {
        self.opened.get()
    }

    /// Returns whether the entry at `index` is durable in the state or a snapshot.
    pub(crate) fn covers(&self, index: u64) -> bool {
        index < self.reached.borrow().count
    }

    /// Waits until the entry at `index` is durable; fails if the installation of a snapshot does.
    pub(crate) async fn wait_for(&self, index: u64) -> io::Result<()> {
        let mut reached = self.reached.subscribe();
        let reached = reached.wait_for(|reached| index < reached.count || reached.has_failed);
        let has_failed = match reached.await {
            Ok(reached) => index >= reached.count,
            Err(_) => true,
        };
        match has_failed {
            false => Ok(()),
            true => Err(io::Error::other("the snapshot could not be installed")),
        }
    }
}
