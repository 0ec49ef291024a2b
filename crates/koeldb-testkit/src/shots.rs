//! Crash images taken during a run.
//!
//! A [`Camera`] is called before every mutating operation of a [`MemoryFileSystem`], by the thread
//! that performs it, and takes images under some of the survival policies, chosen by a seed. The
//! images go through a bounded channel to a checker, so that taking them keeps pace with checking
//! them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use koeldb_fs::{MemoryFileSystem, SurvivalPolicy};

use crate::oracle::{Bounds, Crash, History};
use crate::random::mix;

/// A crash image, and the expectations of it.
#[derive(Debug)]
pub struct Shot {
    /// The files.
    pub image: MemoryFileSystem,
    /// The survival policy of the unsynced bytes.
    pub policy: SurvivalPolicy,
    /// The seed that selected the unsynced bytes.
    pub seed: u64,
    /// The number of the operation that did not happen.
    pub operation: u64,
    /// The owed and possible changes.
    pub bounds: Bounds,
    /// The run's note at that moment.
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

/// The sampling rate of images, over all policies; 1 takes all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The seed of the choice.
    pub seed: u64,
    /// One image in this many is taken.
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

/// The number of images that wait for the checker.
const QUEUE_LEN: usize = 32;

impl Camera {
    /// Creates a camera with the bounds of `history`, and the receiver of its images.
    ///
    /// The receiver ends when the camera is dropped and detached from all file systems.
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

    /// Stops taking images of `fs`.
    pub fn detach(fs: &MemoryFileSystem) {
        fs.observe_mutations(|_, _| ());
    }

    /// Sets the note of later images.
    pub fn set_note(&self, note: u64) {
        self.note.store(note, Ordering::Release);
    }

    /// The number of moments at which images could have been taken.
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
            // The order matters: batches acknowledged meanwhile are not owed, batches begun
            // meanwhile may be present.
            let note = self.note.load(Ordering::Acquire);
            let owed = self.history.owed(crash);
            let image = fs.crash_image(policy, seed);
            let bounds = self.history.bounds(&owed);
            // The receiver is gone: the run is over.
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
