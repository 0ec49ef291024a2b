//! The placement of an open cuckoo table in memory.

pub use crate::read_context::Residency;

/// Where an open cuckoo table is held: mapped, copied into memory, or only in its file.
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
    /// Returns the placement's name in reports: `mmap`, `copy` or `read`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EffectiveResidency::Mapped => "mmap",
            EffectiveResidency::Copied => "copy",
            EffectiveResidency::Paged => "read",
        }
    }
}

/// Where an open cuckoo table is held, with address and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The placement of the table.
    pub place: EffectiveResidency,
    /// The address of the first byte, if the table is in memory.
    pub address: Option<usize>,
    /// The size of the table in its place.
    pub bytes: u64,
}
