//! A file system that injects faults.
//!
//! A [`FaultRule`] selects calls, the occurrences at which it strikes, and the action. Rules may be
//! added and removed while the file system is in use. Every injected fault has a number, which is
//! in the text of the error; the last [`LOG_LIMIT`] injections are kept for the report of a failed
//! test.
//!
//! Faults strike calls above the file's buffer: after a failed append, no byte of it has reached
//! the file below; after a torn one, a part of it has. Reads through a mapping are not calls.

mod rule;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};

use crate::clock::{Clock, SystemClock};
use crate::file::{FileSystem, Purpose, RandomAccessFile, WritableFile};
use crate::layer::{Call, Layer, Layered, Operation};
use crate::random::Random;
use rule::When;
pub use rule::{Failure, FaultAction, FaultRule};

/// The number of injections that the log keeps.
pub const LOG_LIMIT: usize = 10_000;

/// A file system that fails, corrupts and delays calls by rules.
pub type FaultFileSystem = Layered<Faults>;

/// The identity of a rule, for [`FaultFileSystem::remove_rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(u64);

/// A fault that was injected.
#[derive(Clone, Debug)]
pub struct Injection {
    /// The number of the injection, from 1; the text of the error contains "injected fault 1".
    pub id: u64,
    /// The rule that injected the fault.
    pub rule: RuleId,
    /// The kind of the affected call.
    pub operation: Operation,
    /// The path of the affected call.
    pub path: PathBuf,
    /// The purpose of the call.
    pub purpose: Option<Purpose>,
    /// The action taken.
    pub action: FaultAction,
}

/// A rule in force, and the counts of its matches and injections.
#[derive(Debug)]
struct ActiveRule {
    rule: FaultRule,
    matches: u64,
    injections: u64,
}

/// The rules in force, the source of random choices, and the log of injections.
#[derive(Debug)]
struct RuleSet {
    rules: BTreeMap<RuleId, ActiveRule>,
    next_rule: u64,
    random: Random,
    injections: u64,
    log: VecDeque<Injection>,
}

/// The [`Layer`] that injects faults into the calls to a [`FaultFileSystem`].
#[derive(Debug)]
pub struct Faults {
    clock: Arc<dyn Clock>,
    book: Mutex<RuleSet>,
}

impl FaultFileSystem {
    /// Creates a file system over `below` that injects faults once rules are added.
    ///
    /// `seed` decides all random choices: strikes, bits, lengths and offsets.
    pub fn new(below: Arc<dyn FileSystem>, seed: u64) -> Self {
        Self::with_clock(below, seed, Arc::new(SystemClock))
    }

    /// Creates a file system like [`FaultFileSystem::new`], whose delays pass on `clock`.
    pub fn with_clock(below: Arc<dyn FileSystem>, seed: u64, clock: Arc<dyn Clock>) -> Self {
        Layered::with_layer(
            below,
            Faults {
                clock,
                book: Mutex::new(RuleSet {
                    rules: BTreeMap::new(),
                    next_rule: 0,
                    random: Random::new(seed),
                    injections: 0,
                    log: VecDeque::new(),
                }),
            },
        )
    }

    /// Adds a rule. If several rules select the same call, only the oldest injects its fault.
    pub fn add_rule(&self, rule: FaultRule) -> RuleId {
        let mut book = self.layer().book();
        let id = RuleId(book.next_rule);
        book.next_rule += 1;
        book.rules.insert(
            id,
            ActiveRule {
                rule,
                matches: 0,
                injections: 0,
            },
        );
        id
    }

    /// Removes a rule, if it is still there.
    pub fn remove_rule(&self, id: RuleId) {
        self.layer().book().rules.remove(&id);
    }

    /// Removes all rules.
    pub fn clear_rules(&self) {
        self.layer().book().rules.clear();
    }

    /// The number of calls that a rule matched, with or without a fault; 0 once it is removed.
    #[must_use]
    pub fn match_count(&self, id: RuleId) -> u64 {
        self.layer().book().rules.get(&id).map_or(0, |r| r.matches)
    }

    /// The number of faults that all rules injected.
    #[must_use]
    pub fn injection_count(&self) -> u64 {
        self.layer().book().injections
    }

    /// The most recent injections, oldest first.
    #[must_use]
    pub fn injections(&self) -> Vec<Injection> {
        self.layer().book().log.iter().cloned().collect()
    }
}

impl RuleSet {
    /// Returns and logs the faults of a call: delays and functions, then at most one other.
    fn inject(&mut self, call: &Call<'_>) -> Vec<Injection> {
        let mut struck = Vec::new();
        for (&id, active) in &mut self.rules {
            if !active.rule.matches(call) {
                continue;
            }
            active.matches += 1;
            let strikes = match active.rule.when {
                When::Nth(n) => active.matches == n,
                When::From(n) => active.matches >= n,
                When::Chance { per_million } => {
                    self.random.chance(u64::from(per_million), 1_000_000)
                }
            };
            if !strikes || active.injections >= active.rule.limit {
                continue;
            }
            active.injections += 1;
            self.injections += 1;
            let injection = Injection {
                id: self.injections,
                rule: id,
                operation: call.operation,
                path: call.path.to_owned(),
                purpose: call.purpose,
                action: active.rule.action.clone(),
            };
            if self.log.len() == LOG_LIMIT {
                self.log.pop_front();
            }
            self.log.push_back(injection.clone());
            let passes = matches!(
                injection.action,
                FaultAction::Delay(_) | FaultAction::Call(_)
            );
            struck.push(injection);
            if !passes {
                break;
            }
        }
        struck
    }
}

impl Injection {
    /// Returns the error that the rule injects into a call.
    fn error(&self, failure: Failure, call: &Call<'_>) -> Error {
        Error::io(failure.to_io(), "injected", call.path).context(format!(
            "injected fault {} at {:?}",
            self.id, call.operation
        ))
    }
}

impl Faults {
    /// Locks the set of rules.
    fn book(&self) -> MutexGuard<'_, RuleSet> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Injects the faults of a call; returns the one, if any, that the caller must perform itself.
    ///
    /// Delays, functions, panics and failures are performed here.
    fn inject(&self, call: &Call<'_>) -> Result<Option<Injection>> {
        // Advice cannot fail, and counting it would only shift the count of calls that can.
        if call.operation == Operation::Prefetch {
            return Ok(None);
        }
        let struck = self.book().inject(call);
        for injection in struck {
            match &injection.action {
                FaultAction::Delay(delay) => self.clock.sleep(*delay),
                FaultAction::Call(function) => function(&injection),
                FaultAction::Panic => panic!("injected fault {} at {call:?}", injection.id),
                FaultAction::Fail(failure) => return Err(injection.error(*failure, call)),
                _ => return Ok(Some(injection)),
            }
        }
        Ok(None)
    }

    /// Returns a random number below `bound`.
    fn below(&self, bound: usize) -> usize {
        to_usize(self.book().random.below(bound as u64))
    }

    /// Flips random bits of `bytes`; a bit may be chosen more than once.
    fn flip(&self, bytes: &mut [u8], bits: u32) {
        if bytes.is_empty() {
            return;
        }
        for _ in 0..bits {
            let bit = self.below(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Replaces the result of a call that took effect by the rule's error if its action is `FailAfter`.
fn fail_after<T>(injection: Option<&Injection>, call: &Call<'_>, result: Result<T>) -> Result<T> {
    match injection.map(|injection| (injection, &injection.action)) {
        Some((injection, FaultAction::FailAfter(failure))) => {
            result.and(Err(injection.error(*failure, call)))
        }
        _ => result,
    }
}

impl Layer for Faults {
    fn around<T>(&self, call: &Call<'_>, proceed: impl FnOnce() -> Result<T>) -> Result<T> {
        let injection = self.inject(call)?;
        fail_after(injection.as_ref(), call, proceed())
    }

    fn read(
        &self,
        call: &Call<'_>,
        buffer: &mut [u8],
        below: &dyn RandomAccessFile,
    ) -> Result<usize> {
        let injection = self.inject(call)?;
        match injection.as_ref().map(|injection| &injection.action) {
            Some(FaultAction::ShortRead) => {
                let len = self.below(buffer.len());
                below.read_at(call.offset, &mut buffer[..len])
            }
            Some(FaultAction::MisplacedRead) => {
                let grid = below.alignment() as u64;
                let elsewhere = self.book().random.below(below.len());
                below.read_at(elsewhere - elsewhere % grid, buffer)
            }
            Some(FaultAction::FlipReadBits(bits)) => {
                let read = below.read_at(call.offset, buffer)?;
                self.flip(&mut buffer[..read], *bits);
                Ok(read)
            }
            _ => fail_after(injection.as_ref(), call, below.read_at(call.offset, buffer)),
        }
    }

    fn append(&self, call: &Call<'_>, bytes: &[u8], below: &mut dyn WritableFile) -> Result<()> {
        let injection = self.inject(call)?;
        let Some(struck) = &injection else {
            return below.append(bytes);
        };
        match struck.action {
            FaultAction::TornWrite(failure) => {
                let len = self.below(bytes.len() + 1);
                below.append(&bytes[..len])?;
                below.flush()?;
                Err(struck.error(failure, call))
            }
            FaultAction::FlipWrittenBits(bits) => {
                let mut spoilt = bytes.to_vec();
                self.flip(&mut spoilt, bits);
                below.append(&spoilt)
            }
            _ => fail_after(injection.as_ref(), call, below.append(bytes)),
        }
    }

    fn sync_file(&self, call: &Call<'_>, below: &mut dyn WritableFile) -> Result<()> {
        let injection = self.inject(call)?;
        if let Some(FaultAction::DropSync) = injection.as_ref().map(|injection| &injection.action) {
            return below.flush();
        }
        let result = match call.operation {
            Operation::SyncAll => below.sync_all(),
            _ => below.sync_data(),
        };
        fail_after(injection.as_ref(), call, result)
    }

    fn sync_dir(&self, call: &Call<'_>, below: &dyn FileSystem) -> Result<()> {
        let injection = self.inject(call)?;
        if let Some(FaultAction::DropSync) = injection.as_ref().map(|injection| &injection.action) {
            return Ok(());
        }
        fail_after(injection.as_ref(), call, below.sync_dir(call.path))
    }
}
