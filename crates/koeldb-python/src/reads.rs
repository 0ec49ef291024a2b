//! The options of point reads, of memory alone and of anything.

use std::sync::LazyLock;

use koeldb::{ReadOptions, ReadTier};

/// The options of reads of the newest versions.
pub(crate) static NEWEST: LazyLock<Reads> = LazyLock::new(|| Reads::new(ReadOptions::new()));

/// The options of reads at one moment: now, or a snapshot.
pub(crate) struct Reads {
    pub(crate) anywhere: ReadOptions,
    /// For reads of memory alone, which keep the GIL: to release it takes longer than the read.
    pub(crate) in_memory: ReadOptions,
}

impl Reads {
    pub(crate) fn new(anywhere: ReadOptions) -> Self {
        let mut in_memory = anywhere.clone();
        in_memory.set_read_tier(ReadTier::BlockCache);
        Reads {
            anywhere,
            in_memory,
        }
    }
}
