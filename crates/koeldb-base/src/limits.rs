//! How much of what files say is believed.

/// Bounds on what a file may ask for. What is beyond them is an error before memory is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest block of a table, decompressed, in bytes.
    pub block_bytes: usize,
    /// The longest dictionary of a table, in bytes.
    pub dictionary_bytes: u64,
    /// The longest record of a log, in bytes.
    pub record_bytes: u64,
    /// The most column families.
    pub family_count: usize,
    /// The longest OPTIONS file, in bytes.
    pub options_bytes: u64,
}

impl Limits {
    /// For databases of one's own.
    pub const NORMAL: Limits = Limits {
        block_bytes: u32::MAX as usize,
        dictionary_bytes: 256 << 20,
        record_bytes: (4 << 30) + (64 << 10),
        family_count: 1 << 20,
        options_bytes: 256 << 20,
    };

    /// For files that anybody may have made.
    pub const UNTRUSTED: Limits = Limits {
        block_bytes: 256 << 20,
        dictionary_bytes: 16 << 20,
        record_bytes: 256 << 20,
        family_count: 1 << 16,
        options_bytes: 4 << 20,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::NORMAL
    }
}
