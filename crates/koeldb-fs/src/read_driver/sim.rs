//! Simulated reads whose order, timing and results come from a seed and a script.
//!
//! All of it runs on the waiting threads. A submitted read is held. When a thread waits, one of the
//! held reads, chosen by the seed, makes an attempt. Bytes are copied at that moment, not earlier,
//! so that memory freed too early is written where a checker sees it. Time is that of a
//! [`ManualClock`] and advances with every attempt.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use koeldb_base::{Error, Result};

use super::request::{Advanced, Request};
use super::{AsyncReads, Caps, OpId, ReadBackend};
use crate::clock::{Clock, ManualClock};
use crate::file::FileSystem;
use crate::layer::{Call, Layer};
use crate::random::Random;

/// The scripted result of one read attempt.
#[derive(Clone, Debug)]
pub enum SimAttempt {
    /// The bytes of the file.
    Read,
    /// At most this many bytes of the file.
    Short(usize),
    /// The attempt fails with this error.
    Fail(Error),
    /// Success with the full length, without writing any byte.
    Unwritten,
}

type Script = Box<dyn FnMut(&Request) -> SimAttempt + Send>;

/// A simulated read backend; clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct SimReads {
    state: Arc<Mutex<SimState>>,
    clock: ManualClock,
}

/// The submitted requests, and the script and random source that complete them.
struct SimState {
    random: Random,
    held: Vec<Request>,
    script: Script,
    latency: Duration,
    stopped: bool,
}

impl SimReads {
    /// Creates a simulation whose reads succeed, 100 microseconds each, in random order by `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        SimReads {
            state: Arc::new(Mutex::new(SimState {
                random: Random::new(seed),
                held: Vec::new(),
                script: Box::new(|_| SimAttempt::Read),
                latency: Duration::from_micros(100),
                stopped: false,
            })),
            clock: ManualClock::new(),
        }
    }

    /// Creates a read engine over this simulation and its clock.
    #[must_use]
    pub fn reads(&self) -> AsyncReads {
        AsyncReads::with_backend(Arc::new(self.clone()), Arc::new(self.clock.clone()))
    }

    /// The simulated clock of the driver.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Sets the script that decides the result of each attempt.
    pub fn set_script(&self, script: impl FnMut(&Request) -> SimAttempt + Send + 'static) {
        self.state().script = Box::new(script);
    }

    /// Sets the simulated duration of an attempt.
    pub fn set_latency(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// Stops or resumes completions, like a device that hangs.
    ///
    /// While stopped, time passes up to the deadline.
    pub fn set_stopped(&self, stopped: bool) {
        self.state().stopped = stopped;
    }

    /// The number of submitted reads that have not completed.
    #[must_use]
    pub fn held(&self) -> usize {
        self.state().held.len()
    }

    /// Performs one attempt of a submitted read, chosen at random; returns false if there is none.
    pub fn step(&self) -> bool {
        let (mut request, attempt) = {
            let mut state = self.state();
            let count = state.held.len() as u64;
            if count == 0 {
                return false;
            }
            let at = koeldb_base::coding::to_usize(state.random.below(count));
            let request = state.held.swap_remove(at);
            self.clock.advance(state.latency);
            let attempt = (state.script)(&request);
            (request, attempt)
        };
        let result = attempted(&mut request, &attempt);
        match request.advance(result) {
            Advanced::Answered => {}
            Advanced::Again(request) => self.state().held.push(request),
            Advanced::Elsewhere(request) => request.read_in_place(),
        }
        true
    }

    /// Completes all submitted reads.
    pub fn run(&self) {
        while self.step() {}
    }

    fn state(&self) -> MutexGuard<'_, SimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Executes an attempt of a read as the script says; returns the bytes read.
fn attempted(request: &mut Request, attempt: &SimAttempt) -> Result<usize> {
    let (file, offset, memory) = request.attempt();
    match attempt {
        SimAttempt::Read => file.read_at(offset, memory),
        SimAttempt::Short(bytes) => {
            let bytes = (*bytes).min(memory.len());
            file.read_at(offset, &mut memory[..bytes])
        }
        SimAttempt::Fail(error) => Err(error.clone()),
        SimAttempt::Unwritten => Ok(memory.len()),
    }
}

impl ReadBackend for SimReads {
    fn caps(&self) -> Caps {
        Caps {
            parallel: true,
            batch: usize::MAX,
        }
    }

    fn submit(&self, requests: &mut Vec<Request>) {
        self.state().held.append(requests);
    }

    fn cancel(&self, id: OpId) {
        let mut state = self.state();
        let at = state.held.iter().position(|request| request.id() == id);
        let cancelled = at.map(|at| state.held.swap_remove(at));
        drop(state);
        drop(cancelled);
    }

    /// Simulates one attempt of a submitted read, or advances the clock to `until`.
    ///
    /// # Panics
    /// If a simulation that is stopped, or holds nothing, is waited for without a deadline: nothing
    /// would ever wake the waiter.
    fn drive(&self, until: Option<Duration>) -> bool {
        if !self.state().stopped && self.step() {
            return true;
        }
        let Some(until) = until else {
            panic!("a read is waited for that the simulation does not complete");
        };
        self.clock.advance(until.saturating_sub(self.clock.now()));
        true
    }
}

/// As a layer, the simulation executes the reads of the files below.
///
/// `Layered::with_layer(fs, sim.clone())` is a file system whose reads this simulation orders.
impl Layer for SimReads {
    fn around<T>(&self, _call: &Call<'_>, proceed: impl FnOnce() -> Result<T>) -> Result<T> {
        proceed()
    }

    fn read_backend(&self, _below: &dyn FileSystem) -> Option<Arc<dyn ReadBackend>> {
        Some(Arc::new(self.clone()))
    }
}

impl fmt::Debug for SimState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}
