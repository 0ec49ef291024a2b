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
    /// Nowhere: every look-up reads the pieces its windows lie in, which the block cache keeps.
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

/// Where a table lies, as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// `mmap`, `copy` or `read`.
    pub place: &'static str,
    /// Its bytes there.
    pub bytes: u64,
    /// How many of them are in huge pages.
    pub huge_bytes: u64,
}
