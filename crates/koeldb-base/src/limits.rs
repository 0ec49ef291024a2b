//! Bounds on the sizes that database files may declare.

/// Upper bounds on the sizes that a database file may declare.
///
/// Larger values are errors, before memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest decompressed block of a table, in bytes.
    pub block_bytes: usize,
    /// The largest compression dictionary of a table, in bytes.
    pub dictionary_bytes: u64,
    /// The largest record of a log, in bytes.
    pub record_bytes: u64,
    /// The largest number of column families.
    pub family_count: usize,
    /// The largest OPTIONS file, in bytes.
    pub options_bytes: u64,
}

impl Limits {
    /// Limits for trusted databases.
    pub const NORMAL: Limits = Limits {
        block_bytes: u32::MAX as usize,
        dictionary_bytes: 256 << 20,
        record_bytes: (4 << 30) + (64 << 10),
        family_count: 1 << 20,
        options_bytes: 256 << 20,
    };

    /// Limits for files from untrusted sources.
    pub const UNTRUSTED: Limits = Limits {
        block_bytes: 256 << 20,
        dictionary_bytes: 16 << 20,
        record_bytes: 256 << 20,
        family_count: 1 << 16,
        options_bytes: 4 << 20,
    };
}

/// The maximum size of a user key and its value together, in bytes.
///
/// A block or a log record that contains only them is within [`Limits::NORMAL`].
pub const ENTRY_BYTES_MAX: usize = u32::MAX as usize - (1 << 20);

impl Default for Limits {
    fn default() -> Self {
        Limits::NORMAL
    }
}
