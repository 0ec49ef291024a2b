//! Crash images of a run, taken while it goes on.
//!
//! A [`Camera`] is called before every mutating operation of a [`MemoryFileSystem`], in whatever thread makes it, and
//! takes images under some of the survival policies; which ones, a seed decides. The images go through a channel of
//! bounded length to whoever checks them, so that taking them keeps pace with checking them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use koeldb_fs::{MemoryFileSystem, SurvivalPolicy};

use crate::oracle::{Bounds, Crash, History};
use crate::random::mix;

/// What a crash leaves, and what must be found in it.
#[derive(Debug)]
pub struct Shot {
    /// The files.
    pub image: MemoryFileSystem,
    /// What luck the unsynced bytes had.
    pub policy: SurvivalPolicy,
    /// What chose among the unsynced bytes.
    pub seed: u64,
    /// The operation that did not happen any more.
    pub operation: u64,
    /// What must and what may be there.
    pub bounds: Bounds,
    /// What the run had to say of the moment.
    pub note: u64,
}

impl fmt::Display for Shot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "crash before operation {} under {:?} with seed {:#x}, batches {}..={}",
            self.operation, self.policy, self.seed, self.bounds.owed, self.bounds.begun
        )
    }
}

/// One in how many images are taken, for all policies together; 1 takes all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// What chooses.
    pub seed: u64,
    /// One in so many.
    pub one_in: u64,
}

/// Takes crash images.
pub struct Camera {
    history: Arc<History>,
    sampling: Sampling,
    shots: SyncSender<Shot>,
    moments: AtomicU64,
    note: AtomicU64,
}

/// Images that wait to be checked.
const QUEUE_LEN: usize = 32;

impl Camera {
    /// A camera that judges moments by `history`, and where its images come out. It ends when the camera is dropped
    /// and detached from all file systems.
    #[must_use]
    pub fn new(history: &Arc<History>, sampling: Sampling) -> (Arc<Self>, Receiver<Shot>) {
        let (shots, receiver) = sync_channel(QUEUE_LEN);
        let camera = Camera {
            history: Arc::clone(history),
            sampling,
            shots,
            moments: AtomicU64::new(0),
            note: AtomicU64::new(0),
        };
        (Arc::new(camera), receiver)
    }

    /// Takes images of `fs` from now on.
    pub fn attach(self: &Arc<Self>, fs: &MemoryFileSystem) {
        let camera = Arc::clone(self);
        fs.observe_mutations(move |fs, operation| camera.expose(fs, operation));
    }

    /// Takes no more images of `fs`.
    pub fn detach(fs: &MemoryFileSystem) {
        fs.observe_mutations(|_, _| ());
    }

    /// Leaves a note on the images to come.
    pub fn set_note(&self, note: u64) {
        self.note.store(note, Ordering::Release);
    }

    /// How many moments there were.
    #[must_use]
    pub fn moments(&self) -> u64 {
        self.moments.load(Ordering::Relaxed)
    }

    fn expose(&self, fs: &MemoryFileSystem, operation: u64) {
        self.moments.fetch_add(1, Ordering::Relaxed);
        for (index, policy) in (0_u64..).zip(SurvivalPolicy::ALL) {
            let seed = mix(self.sampling.seed ^ mix(operation ^ (index << 40)));
            if !seed.is_multiple_of(self.sampling.one_in) {
                continue;
            }
            let crash = match policy {
                SurvivalPolicy::Generous => Crash::Process,
                _ => Crash::Power,
            };
            // In this order: what is acknowledged meanwhile is not owed, what is begun meanwhile may be there.
            let note = self.note.load(Ordering::Acquire);
            let owed = self.history.owed(crash);
            let image = fs.crash_image(policy, seed);
            let bounds = self.history.bounds(&owed);
            // Nobody listens any more: the run is over.
            let _ = self.shots.send(Shot {
                image,
                policy,
                seed,
                operation,
                bounds,
                note,
            });
        }
    }
}

impl fmt::Debug for Camera {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Camera({:?})", self.sampling)
    }
}
