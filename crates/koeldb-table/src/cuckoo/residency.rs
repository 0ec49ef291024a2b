//! Where an open cuckoo table lies.

use koeldb_fs::RandomAccessFile;

/// Where a cuckoo table lies while it is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residency {
    /// Mapped, if files are, with huge pages where the system gives them as pages are met; otherwise read in pieces, if
    /// files are read directly; otherwise copied.
    #[default]
    Auto,
    /// Mapped with pages of 4 KiB: least memory, for tables much larger than it.
    Mapped,
    /// Mapped with huge pages, and read in when it is opened.
    MappedHuge,
    /// In memory of its own, of huge pages: fastest, and not shared with other processes.
    Copied,
    /// Nowhere: every look-up reads the pieces its windows lie in, of which a cache of the family keeps 32 MiB. A scan
    /// reads the table in first, and it stays. Not for tables with versions.
    Paged,
}

impl Residency {
    /// Whether a table in this file is read piece by piece.
    pub(crate) fn is_paged(self, file: &dyn RandomAccessFile) -> bool {
        match self {
            Residency::Auto => file.mapped().is_none() && file.alignment() > 1,
            Residency::Mapped | Residency::MappedHuge | Residency::Copied => false,
            Residency::Paged => true,
        }
    }
}

/// Where a table was found to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a mapping of its file.
    Mapped,
    /// In memory of its own.
    Copied,
    /// In its file alone.
    Paged,
}

impl Place {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Place::Mapped => "mmap",
            Place::Copied => "copy",
            Place::Paged => "read",
        }
    }
}

/// Where a table lies, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Where it lies.
    pub place: Place,
    /// The address of its first byte, if it has one.
    pub address: Option<usize>,
    /// Its bytes there.
    pub bytes: u64,
}
