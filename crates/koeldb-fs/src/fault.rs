//! A file system that injects faults.
//!
//! A [`FaultRule`] selects calls, the occurrences at which it strikes, and the action. Rules may be
//! added and removed while the file system is in use. Every injected fault has a number, which is
//! in the text of the error; the last [`LOG_LIMIT`] injections are kept for the report of a failed
//! test.
//!
//! Faults strike calls above the file's buffer: after a failed append, no byte of it has reached
//! the file below; after a torn one, a part of it has. Reads through a mapping are not calls.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use koeldb_base::coding::to_usize;
use koeldb_base::file_name::{self, FileKind};
use koeldb_base::{Error, Result};

use crate::clock::{Clock, SystemClock};
use crate::file::{FileSystem, Purpose, RandomAccessFile, WritableFile};
use crate::layer::{Call, Layer, Layered, Operation};
use crate::random::Random;

/// The number of injections that the log keeps.
pub const LOG_LIMIT: usize = 10_000;

/// A file system that fails, corrupts and delays calls by rules.
pub type FaultFileSystem = Layered<Faults>;

/// The operating-system error with which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// The device failed (`EIO`).
    Device,
    /// The device is full (`ENOSPC`).
    NoSpace,
    /// The quota is exceeded (`EDQUOT`).
    Quota,
    /// The file has reached the maximum size (`EFBIG`).
    FileTooLarge,
    /// Too many files are open (`EMFILE`).
    TooManyFiles,
    /// Memory is exhausted (`ENOMEM`).
    NoMemory,
    /// Permission is denied (`EACCES`).
    PermissionDenied,
    /// The file system is read-only (`EROFS`).
    ReadOnly,
    /// The path does not exist (`ENOENT`).
    NotFound,
    /// The two names are on different devices (`EXDEV`).
    OtherDevice,
    /// The file has the maximum number of links (`EMLINK`).
    TooManyLinks,
    /// The operation is not permitted (`EPERM`).
    NotPermitted,
}

impl Failure {
    #[cfg(unix)]
    fn to_io(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Failure::Device => libc::EIO,
            Failure::NoSpace => libc::ENOSPC,
            Failure::Quota => libc::EDQUOT,
            Failure::FileTooLarge => libc::EFBIG,
            Failure::TooManyFiles => libc::EMFILE,
            Failure::NoMemory => libc::ENOMEM,
            Failure::PermissionDenied => libc::EACCES,
            Failure::ReadOnly => libc::EROFS,
            Failure::NotFound => libc::ENOENT,
            Failure::OtherDevice => libc::EXDEV,
            Failure::TooManyLinks => libc::EMLINK,
            Failure::NotPermitted => libc::EPERM,
        })
    }

    #[cfg(not(unix))]
    fn to_io(self) -> io::Error {
        io::Error::from(match self {
            Failure::Device | Failure::TooManyFiles => io::ErrorKind::Other,
            Failure::NoSpace => io::ErrorKind::StorageFull,
            Failure::Quota => io::ErrorKind::QuotaExceeded,
            Failure::FileTooLarge => io::ErrorKind::FileTooLarge,
            Failure::NoMemory => io::ErrorKind::OutOfMemory,
            Failure::PermissionDenied => io::ErrorKind::PermissionDenied,
            Failure::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            Failure::NotFound => io::ErrorKind::NotFound,
            Failure::OtherDevice => io::ErrorKind::CrossesDevices,
            Failure::TooManyLinks => io::ErrorKind::TooManyLinks,
            Failure::NotPermitted => io::ErrorKind::PermissionDenied,
        })
    }
}

/// The effect on a call that a rule strikes. An action that does not apply to a call has no effect.
#[derive(Clone)]
#[non_exhaustive]
pub enum FaultAction {
    /// The call fails without effect.
    Fail(Failure),
    /// The call takes effect but reports failure.
    FailAfter(Failure),
    /// An append passes a random part of its bytes to the operating system and fails.
    TornWrite(Failure),
    /// A read returns fewer bytes than are available.
    ShortRead,
    /// A read returns the bytes at a different offset of the file.
    MisplacedRead,
    /// The given number of bits in the result of a read are flipped.
    FlipReadBits(u32),
    /// The given number of bits in the appended bytes are flipped.
    FlipWrittenBits(u32),
    /// A sync succeeds without effect: a lie that tests must detect.
    DropSync,
    /// The call takes this much longer. Other rules may strike it too.
    Delay(Duration),
    /// The calling thread panics.
    Panic,
    /// The function runs before the call proceeds, for example to take a crash image.
    Call(Arc<dyn Fn(&Injection) + Send + Sync>),
}

impl fmt::Debug for FaultAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultAction::Fail(failure) => write!(f, "Fail({failure:?})"),
            FaultAction::FailAfter(failure) => write!(f, "FailAfter({failure:?})"),
            FaultAction::TornWrite(failure) => write!(f, "TornWrite({failure:?})"),
            FaultAction::ShortRead => f.write_str("ShortRead"),
            FaultAction::MisplacedRead => f.write_str("MisplacedRead"),
            FaultAction::FlipReadBits(bits) => write!(f, "FlipReadBits({bits})"),
            FaultAction::FlipWrittenBits(bits) => write!(f, "FlipWrittenBits({bits})"),
            FaultAction::DropSync => f.write_str("DropSync"),
            FaultAction::Delay(delay) => write!(f, "Delay({delay:?})"),
            FaultAction::Panic => f.write_str("Panic"),
            FaultAction::Call(_) => f.write_str("Call"),
        }
    }
}

impl FaultAction {
    fn suits(&self, operation: Operation) -> bool {
        match self {
            FaultAction::Fail(_)
            | FaultAction::FailAfter(_)
            | FaultAction::Delay(_)
            | FaultAction::Panic
            | FaultAction::Call(_) => true,
            FaultAction::TornWrite(_) | FaultAction::FlipWrittenBits(_) => {
                operation == Operation::Append
            }
            FaultAction::ShortRead | FaultAction::MisplacedRead | FaultAction::FlipReadBits(_) => {
                operation == Operation::Read
            }
            FaultAction::DropSync => matches!(
                operation,
                Operation::SyncData | Operation::SyncAll | Operation::SyncDir
            ),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum When {
    Nth(u64),
    From(u64),
    Chance { per_million: u32 },
}

/// A rule that selects calls, occurrences and an action. It matches every call until it is
/// narrowed.
#[derive(Clone, Debug)]
pub struct FaultRule {
    action: FaultAction,
    operations: Vec<Operation>,
    purpose: Option<Purpose>,
    suffix: Option<String>,
    kind: Option<fn(FileKind) -> bool>,
    active: Option<Arc<AtomicBool>>,
    when: When,
    limit: u64,
}

impl FaultRule {
    /// Creates a rule that applies `action` to every call.
    #[must_use]
    pub fn new(action: FaultAction) -> Self {
        FaultRule {
            action,
            operations: Vec::new(),
            purpose: None,
            suffix: None,
            kind: None,
            active: None,
            when: When::From(1),
            limit: u64::MAX,
        }
    }

    /// Fails calls without effect.
    #[must_use]
    pub fn fail(failure: Failure) -> Self {
        Self::new(FaultAction::Fail(failure))
    }

    /// Matches only these kinds of calls.
    #[must_use]
    pub fn on(mut self, operations: &[Operation]) -> Self {
        self.operations = operations.to_vec();
        self
    }

    /// Matches only syncs of files and directories.
    #[must_use]
    pub fn on_syncs(self) -> Self {
        self.on(&[Operation::SyncData, Operation::SyncAll, Operation::SyncDir])
    }

    /// Matches only calls that change something or make it durable.
    #[must_use]
    pub fn on_mutations(self) -> Self {
        self.on(&[
            Operation::Create,
            Operation::OpenAppend,
            Operation::Rename,
            Operation::Link,
            Operation::RemoveFile,
            Operation::CreateDir,
            Operation::RemoveDir,
            Operation::SyncDir,
            Operation::Lock,
            Operation::Truncate,
            Operation::Append,
            Operation::Flush,
            Operation::SyncData,
            Operation::SyncAll,
            Operation::Close,
        ])
    }

    /// Matches only calls with this purpose. Calls on paths (renames, removals, directories) have
    /// none and never match.
    #[must_use]
    pub fn purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = Some(purpose);
        self
    }

    /// Matches only paths with this suffix; for a rename or link, either path.
    #[must_use]
    pub fn suffix(mut self, suffix: impl Into<String>) -> Self {
        self.suffix = Some(suffix.into());
        self
    }

    /// Matches only database files of this kind, by name; for a rename or link, either name.
    #[must_use]
    pub fn kind(mut self, kind: fn(FileKind) -> bool) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Matches only while the flag is set; other calls are not counted.
    #[must_use]
    pub fn only_while(mut self, flag: Arc<AtomicBool>) -> Self {
        self.active = Some(flag);
        self
    }

    /// Strikes only the `n`-th matching call, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.when = When::Nth(n);
        self
    }

    /// Strikes the `n`-th matching call, counted from 1, and all later ones.
    #[must_use]
    pub fn from_nth(mut self, n: u64) -> Self {
        self.when = When::From(n);
        self
    }

    /// Strikes each matching call with this probability in a million, seeded by the file system.
    #[must_use]
    pub fn chance(mut self, per_million: u32) -> Self {
        self.when = When::Chance { per_million };
        self
    }

    /// Strikes at most this many times.
    #[must_use]
    pub fn limit(mut self, times: u64) -> Self {
        self.limit = times;
        self
    }

    fn matches(&self, call: &Call<'_>) -> bool {
        (self.operations.is_empty() || self.operations.contains(&call.operation))
            && self.action.suits(call.operation)
            && (self.purpose.is_none() || self.purpose == call.purpose)
            && (self.matches_path(call.path) || call.to.is_some_and(|to| self.matches_path(to)))
            && self
                .active
                .as_ref()
                .is_none_or(|flag| flag.load(Ordering::Acquire))
    }

    fn matches_path(&self, path: &Path) -> bool {
        let suffix = self
            .suffix
            .as_ref()
            .is_none_or(|suffix| path.to_string_lossy().ends_with(suffix));
        let kind = self.kind.is_none_or(|kind| {
            path.file_name()
                .and_then(|name| file_name::parse(name.to_str()?))
                .is_some_and(kind)
        });
        suffix && kind
    }
}

/// The identity of a rule, for [`FaultFileSystem::remove_rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(u64);

/// A fault that was injected.
#[derive(Clone, Debug)]
pub struct Injection {
    /// The number of the injection, from 1; the text of the error contains "injected fault 1".
    pub id: u64,
    /// The rule that struck.
    pub rule: RuleId,
    /// The call it struck.
    pub operation: Operation,
    /// The call's path.
    pub path: PathBuf,
    /// The purpose of the call.
    pub purpose: Option<Purpose>,
    /// The action taken.
    pub action: FaultAction,
}

#[derive(Debug)]
struct ActiveRule {
    rule: FaultRule,
    matches: u64,
    injections: u64,
}

#[derive(Debug)]
struct RuleSet {
    rules: BTreeMap<RuleId, ActiveRule>,
    next_rule: u64,
    random: Random,
    injections: u64,
    log: VecDeque<Injection>,
}

/// The layer of a [`FaultFileSystem`].
#[derive(Debug)]
pub struct Faults {
    clock: Arc<dyn Clock>,
    book: Mutex<RuleSet>,
}

impl FaultFileSystem {
    /// Creates a fault layer without rules over `below`. `seed` decides probabilities, bits and
    /// torn ends.
    pub fn new(below: Arc<dyn FileSystem>, seed: u64) -> Self {
        Self::with_clock(below, seed, Arc::new(SystemClock))
    }

    /// Creates the layer like [`FaultFileSystem::new`], with delays on `clock`.
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

    /// Adds a rule. If several rules would strike the same call, the oldest does.
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

    /// The number of calls that a rule matched, struck or not; 0 once it is removed.
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
    /// Returns the faults to inject into a call: delays and functions, then at most one other.
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
    fn error(&self, failure: Failure, call: &Call<'_>) -> Error {
        Error::io(failure.to_io(), "injected", call.path).context(format!(
            "injected fault {} at {:?}",
            self.id, call.operation
        ))
    }
}

impl Faults {
    fn book(&self) -> MutexGuard<'_, RuleSet> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs delays, functions, panics and failures; returns the action that the caller must
    /// perform.
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

    fn below(&self, bound: usize) -> usize {
        to_usize(self.book().random.below(bound as u64))
    }

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

/// Returns the rule's error for a call that took effect, if its action is `FailAfter`.
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
