//! Reads in an order, at times and with results that a seed and a script decide, all on the threads that wait.
//!
//! A read that was submitted is held. When somebody waits, one of those held makes an attempt: which one, the seed
//! decides. Bytes are copied at that moment, not before, so that memory freed too early is written to where a checker
//! sees it. Time is a [`ManualClock`]'s and passes with every attempt.

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

/// What comes of one attempt to read.
#[derive(Clone, Debug)]
pub enum SimAttempt {
    /// What the file has.
    Read,
    /// So many bytes of it, at most.
    Short(usize),
    /// This error.
    Fail(Error),
    /// Success, of so many bytes, with nothing written.
    Unwritten,
}

type Script = Box<dyn FnMut(&Request) -> SimAttempt + Send>;

/// A backend that is a simulation; clones are handles of one.
#[derive(Clone, Debug)]
pub struct SimReads {
    state: Arc<Mutex<State>>,
    clock: ManualClock,
}

struct State {
    random: Random,
    held: Vec<Request>,
    script: Script,
    latency: Duration,
    stopped: bool,
}

impl SimReads {
    /// Attempts succeed and take 100 microseconds; `seed` decides their order.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        SimReads {
            state: Arc::new(Mutex::new(State {
                random: Random::new(seed),
                held: Vec::new(),
                script: Box::new(|_| SimAttempt::Read),
                latency: Duration::from_micros(100),
                stopped: false,
            })),
            clock: ManualClock::new(),
        }
    }

    /// Reads that are carried out by this simulation, on its clock.
    #[must_use]
    pub fn reads(&self) -> AsyncReads {
        AsyncReads::with_backend(Arc::new(self.clone()), Arc::new(self.clock.clone()))
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Lets `script` decide what comes of each attempt.
    pub fn set_script(&self, script: impl FnMut(&Request) -> SimAttempt + Send + 'static) {
        self.state().script = Box::new(script);
    }

    /// How long an attempt takes.
    pub fn set_latency(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// Whether nothing completes when somebody waits: a device that hangs. Time then passes up to the deadline.
    pub fn set_stopped(&self, stopped: bool) {
        self.state().stopped = stopped;
    }

    /// How many reads are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.state().held.len()
    }

    /// Lets one of the held reads make an attempt. False if there is none.
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

    /// Completes all held reads.
    pub fn run(&self) {
        while self.step() {}
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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

    /// # Panics
    /// If a simulation that is stopped, or holds nothing, is waited for without a deadline: nobody would ever wake
    /// the waiter.
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

/// As a layer, it carries out the reads of the files below:
/// `Layered::with_layer(fs, sim.clone())` is a file system whose reads this simulation orders.
impl Layer for SimReads {
    fn around<T>(&self, _call: &Call<'_>, proceed: impl FnOnce() -> Result<T>) -> Result<T> {
        proceed()
    }

    fn read_backend(&self, _below: &dyn FileSystem) -> Option<Arc<dyn ReadBackend>> {
        Some(Arc::new(self.clone()))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}
