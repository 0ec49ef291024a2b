//! The placement of an open cuckoo table in memory.

use koeldb_fs::RandomAccessFile;

/// The configured placement of cuckoo tables while they are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residency {
    /// Mapped, if files are, with huge pages where the system provides them on access; otherwise
    /// paged, if files use direct I/O; otherwise copied.
    #[default]
    Auto,
    /// Mapped with pages of 4 KiB: least memory, for tables much larger than memory.
    Mapped,
    /// Mapped with huge pages, and populated at open.
    MappedHuge,
    /// Copied to private memory in huge pages: fastest, and not shared with other processes.
    Copied,
    /// Not in memory: every lookup reads the pieces of its windows, of which a cache of the column
    /// family keeps 32 MiB. A scan loads the table first, and it stays loaded. Not for tables with
    /// versions.
    Paged,
}

impl Residency {
    /// Whether a table in this file is read piece by piece through the block cache.
    pub(crate) fn is_paged(self, file: &dyn RandomAccessFile) -> bool {
        match self {
            Residency::Auto => file.mapped().is_none() && file.alignment() > 1,
            Residency::Mapped | Residency::MappedHuge | Residency::Copied => false,
            Residency::Paged => true,
        }
    }
}

/// The actual placement of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectiveResidency {
    /// In a mapping of its file.
    Mapped,
    /// In private memory.
    Copied,
    /// Only in its file.
    Paged,
}

impl EffectiveResidency {
    /// The name of the placement in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EffectiveResidency::Mapped => "mmap",
            EffectiveResidency::Copied => "copy",
            EffectiveResidency::Paged => "read",
        }
    }
}

/// The placement of a table, with its address and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The placement of the table.
    pub place: EffectiveResidency,
    /// The address of the first byte, if the table is in memory.
    pub address: Option<usize>,
    /// The size of the table in its place.
    pub bytes: u64,
}
