//! A file system that fails where it is told to.
//!
//! A [`FaultRule`] says which calls it is about, at which of them it strikes, and what happens then. Rules come and
//! go while the file system is in use. Every injected fault has a number; it is in the text of the error, and the
//! last [`LOG_LIMIT`] are kept for the report of a failed test.
//!
//! Faults strike calls, above the file's buffer: a failed append is one of which nothing reached the file below, a
//! torn one has handed down a part. Reads through a mapping are no calls.

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

/// How many injections the log keeps.
pub const LOG_LIMIT: usize = 10_000;

/// Fails, spoils and delays calls by rules.
pub type FaultFileSystem = Layered<Faults>;

/// The way in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// The device failed (`EIO`).
    Device,
    /// The device is full (`ENOSPC`).
    NoSpace,
    /// The quota is used up (`EDQUOT`).
    Quota,
    /// The file is as large as files get (`EFBIG`).
    FileTooLarge,
    /// Too many files are open (`EMFILE`).
    TooManyFiles,
    /// There is no memory (`ENOMEM`).
    NoMemory,
    /// It is not allowed (`EACCES`).
    PermissionDenied,
    /// The file system is read-only (`EROFS`).
    ReadOnly,
    /// The path does not exist (`ENOENT`).
    NotFound,
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
        })
    }
}

/// What happens to a call that a rule strikes. An action that means nothing for a call lets it pass.
#[derive(Clone)]
#[non_exhaustive]
pub enum FaultAction {
    /// The call fails and does nothing.
    Fail(Failure),
    /// The call does its work and reports failure.
    FailAfter(Failure),
    /// An append hands a random part of its bytes to the operating system and fails.
    TornWrite(Failure),
    /// A read returns fewer bytes than there are.
    ShortRead,
    /// A read returns the bytes of another place in the file.
    MisplacedRead,
    /// So many bits of what a read returns are flipped.
    FlipReadBits(u32),
    /// So many bits of what an append was given are flipped.
    FlipWrittenBits(u32),
    /// A sync succeeds and does nothing: a lie that tests must find out.
    DropSync,
    /// The call takes so much longer. Other rules may strike it as well.
    Delay(Duration),
    /// The calling thread panics.
    Panic,
    /// The function is called before the call proceeds, to take a crash image for instance.
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

/// Which calls, when, and what then. Every call is meant until the rule is narrowed down.
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
    /// Does `action` to every call it suits.
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

    /// Fails calls and lets them do nothing.
    #[must_use]
    pub fn fail(failure: Failure) -> Self {
        Self::new(FaultAction::Fail(failure))
    }

    /// Only these kinds of calls.
    #[must_use]
    pub fn on(mut self, operations: &[Operation]) -> Self {
        self.operations = operations.to_vec();
        self
    }

    /// Only syncs, of files and directories.
    #[must_use]
    pub fn on_syncs(self) -> Self {
        self.on(&[Operation::SyncData, Operation::SyncAll, Operation::SyncDir])
    }

    /// Only calls that change something or make it durable.
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

    /// Only on this behalf. Calls on paths (renames, removals, directories) have none and are out.
    #[must_use]
    pub fn purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = Some(purpose);
        self
    }

    /// Only paths that end so; of a rename or link, either path.
    #[must_use]
    pub fn suffix(mut self, suffix: impl Into<String>) -> Self {
        self.suffix = Some(suffix.into());
        self
    }

    /// Only files of a database of this kind, by name; of a rename or link, either name.
    #[must_use]
    pub fn kind(mut self, kind: fn(FileKind) -> bool) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Only while the flag is set; calls at other times are not counted.
    #[must_use]
    pub fn only_while(mut self, flag: Arc<AtomicBool>) -> Self {
        self.active = Some(flag);
        self
    }

    /// Only the `n`-th such call, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.when = When::Nth(n);
        self
    }

    /// The `n`-th such call, counted from 1, and all after it.
    #[must_use]
    pub fn from_nth(mut self, n: u64) -> Self {
        self.when = When::From(n);
        self
    }

    /// Each such call with this chance of a million; the file system's seed decides.
    #[must_use]
    pub fn chance(mut self, per_million: u32) -> Self {
        self.when = When::Chance { per_million };
        self
    }

    /// At most so many times.
    #[must_use]
    pub fn limit(mut self, times: u64) -> Self {
        self.limit = times;
        self
    }

    fn is_about(&self, call: &Call<'_>) -> bool {
        (self.operations.is_empty() || self.operations.contains(&call.operation))
            && self.action.suits(call.operation)
            && (self.purpose.is_none() || self.purpose == call.purpose)
            && (self.is_about_path(call.path) || call.to.is_some_and(|to| self.is_about_path(to)))
            && self
                .active
                .as_ref()
                .is_none_or(|flag| flag.load(Ordering::Acquire))
    }

    fn is_about_path(&self, path: &Path) -> bool {
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

/// Names a rule that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(u64);

/// A fault that was injected.
#[derive(Clone, Debug)]
pub struct Injection {
    /// Its number, from 1; "injected fault 1" is in the text of the error.
    pub id: u64,
    /// The rule that struck.
    pub rule: RuleId,
    /// The call it struck.
    pub operation: Operation,
    /// The call's path.
    pub path: PathBuf,
    /// On whose behalf the call was made.
    pub purpose: Option<Purpose>,
    /// What was done to it.
    pub action: FaultAction,
}

#[derive(Debug)]
struct ActiveRule {
    rule: FaultRule,
    matches: u64,
    injections: u64,
}

#[derive(Debug)]
struct RuleBook {
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
    book: Mutex<RuleBook>,
}

impl FaultFileSystem {
    /// Without rules, `below` as it is. `seed` decides about chances, bits and torn ends.
    pub fn new(below: Arc<dyn FileSystem>, seed: u64) -> Self {
        Self::with_clock(below, seed, Arc::new(SystemClock))
    }

    /// As [`FaultFileSystem::new`], with delays on `clock`.
    pub fn with_clock(below: Arc<dyn FileSystem>, seed: u64, clock: Arc<dyn Clock>) -> Self {
        Layered::with_layer(
            below,
            Faults {
                clock,
                book: Mutex::new(RuleBook {
                    rules: BTreeMap::new(),
                    next_rule: 0,
                    random: Random::new(seed),
                    injections: 0,
                    log: VecDeque::new(),
                }),
            },
        )
    }

    /// Adds a rule. Of several that would strike the same call, the one added first does.
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

    /// How many calls a rule was about, struck or not; 0 once it is removed.
    #[must_use]
    pub fn match_count(&self, id: RuleId) -> u64 {
        self.layer().book().rules.get(&id).map_or(0, |r| r.matches)
    }

    /// How many faults were injected by all rules.
    #[must_use]
    pub fn injection_count(&self) -> u64 {
        self.layer().book().injections
    }

    /// The last injections, oldest first.
    #[must_use]
    pub fn injections(&self) -> Vec<Injection> {
        self.layer().book().log.iter().cloned().collect()
    }
}

impl RuleBook {
    /// What strikes the call: any number of delays and functions, and at most one of the others, last.
    fn strike(&mut self, call: &Call<'_>) -> Vec<Injection> {
        let mut struck = Vec::new();
        for (&id, active) in &mut self.rules {
            if !active.rule.is_about(call) {
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
    fn book(&self) -> MutexGuard<'_, RuleBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delays, calls, panics and failures are dealt with here; what is left is for the caller to do.
    fn strike(&self, call: &Call<'_>) -> Result<Option<Injection>> {
        // Advice cannot fail, and would only shift the count of calls that can.
        if call.operation == Operation::Prefetch {
            return Ok(None);
        }
        let struck = self.book().strike(call);
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

/// Reports failure of a call that was made.
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
        let injection = self.strike(call)?;
        fail_after(injection.as_ref(), call, proceed())
    }

    fn read(
        &self,
        call: &Call<'_>,
        buffer: &mut [u8],
        below: &dyn RandomAccessFile,
    ) -> Result<usize> {
        let injection = self.strike(call)?;
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
        let injection = self.strike(call)?;
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
        let injection = self.strike(call)?;
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
        let injection = self.strike(call)?;
        if let Some(FaultAction::DropSync) = injection.as_ref().map(|injection| &injection.action) {
            return Ok(());
        }
        fail_after(injection.as_ref(), call, below.sync_dir(call.path))
    }
}
