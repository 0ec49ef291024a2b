//! The rules of faults: the calls that they select, and the action.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use koeldb_base::file_name::{self, FileKind};

use super::Injection;
use crate::file::Purpose;
use crate::layer::{Call, Operation};

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
    /// Returns the operating system's error for the failure.
    #[cfg(unix)]
    pub(super) fn to_io(self) -> io::Error {
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

    /// Returns the nearest portable error for the failure.
    #[cfg(not(unix))]
    pub(super) fn to_io(self) -> io::Error {
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

/// The fault that a rule injects into a call; none if the action does not apply to the call.
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
    /// A sync reports success without making anything durable.
    DropSync,
    /// The call takes this much longer. Other rules may also inject faults into it.
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
    /// Whether the action applies to an operation.
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

/// The occurrences among the matching calls at which a rule injects its fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Nth(u64),
    From(u64),
    Chance { per_million: u32 },
}

/// A rule of a `FaultFileSystem`: which calls it matches, which it strikes, and the fault.
///
/// It matches every call until it is narrowed.
#[derive(Clone, Debug)]
pub struct FaultRule {
    pub(super) action: FaultAction,
    operations: Vec<Operation>,
    purpose: Option<Purpose>,
    suffix: Option<String>,
    kind: Option<fn(FileKind) -> bool>,
    active: Option<Arc<AtomicBool>>,
    pub(super) when: When,
    pub(super) limit: u64,
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

    /// Creates a rule that makes every call fail without effect.
    #[must_use]
    pub fn fail(failure: Failure) -> Self {
        Self::new(FaultAction::Fail(failure))
    }

    /// Restricts the rule to calls of these kinds.
    #[must_use]
    pub fn on(mut self, operations: &[Operation]) -> Self {
        self.operations = operations.to_vec();
        self
    }

    /// Restricts the rule to syncs of files and directories.
    #[must_use]
    pub fn on_syncs(self) -> Self {
        self.on(&[Operation::SyncData, Operation::SyncAll, Operation::SyncDir])
    }

    /// Restricts the rule to calls that change something or make it durable.
    #[must_use]
    pub fn on_mutations(self) -> Self {
        self.on(&[
            Operation::Create,
            Operation::OpenAppend,
            Operation::Reuse,
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

    /// Restricts the rule to calls with this purpose.
    ///
    /// Calls on paths (renames, removals, directories) have none and never match.
    #[must_use]
    pub fn purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = Some(purpose);
        self
    }

    /// Restricts the rule to paths with this suffix; for a rename, link or reuse, either path.
    #[must_use]
    pub fn suffix(mut self, suffix: impl Into<String>) -> Self {
        self.suffix = Some(suffix.into());
        self
    }

    /// Restricts the rule to database files of this kind, by name.
    ///
    /// For a rename, link or reuse, either name counts.
    #[must_use]
    pub fn kind(mut self, kind: fn(FileKind) -> bool) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Restricts the rule to calls made while the flag is set; other calls are not counted.
    #[must_use]
    pub fn only_while(mut self, flag: Arc<AtomicBool>) -> Self {
        self.active = Some(flag);
        self
    }

    /// Injects the fault only into the `n`-th matching call, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.when = When::Nth(n);
        self
    }

    /// Injects the fault into the `n`-th matching call, counted from 1, and all later ones.
    #[must_use]
    pub fn from_nth(mut self, n: u64) -> Self {
        self.when = When::From(n);
        self
    }

    /// Injects the fault into each matching call with this probability in a million.
    ///
    /// The seed of the file system decides.
    #[must_use]
    pub fn chance(mut self, per_million: u32) -> Self {
        self.when = When::Chance { per_million };
        self
    }

    /// Injects the fault at most this many times.
    #[must_use]
    pub fn limit(mut self, times: u64) -> Self {
        self.limit = times;
        self
    }

    /// Whether the rule matches a call, which need not be one of those it strikes.
    pub(super) fn matches(&self, call: &Call<'_>) -> bool {
        (self.operations.is_empty() || self.operations.contains(&call.operation))
            && self.action.suits(call.operation)
            && (self.purpose.is_none() || self.purpose == call.purpose)
            && (self.matches_path(call.path) || call.to.is_some_and(|to| self.matches_path(to)))
            && self
                .active
                .as_ref()
                .is_none_or(|flag| flag.load(Ordering::Acquire))
    }

    /// Whether a path has the suffix and the kind of file that the rule requests.
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
