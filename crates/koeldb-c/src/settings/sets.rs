//! Options that are sets of numbers, kept without effect: the file systems of the engine take
//! neither checksums nor lifetimes.

use std::collections::BTreeSet;

use crate::settings::options::Options;

/// The sets of a database's options.
#[derive(Clone)]
pub(crate) struct Sets {
    /// The types of files whose checksums the file system would verify.
    checksum_handoff: BTreeSet<i32>,
    /// The styles of compaction that tell the file system how long files live.
    lifetime_hints: BTreeSet<i32>,
}

impl Default for Sets {
    fn default() -> Self {
        Sets {
            checksum_handoff: BTreeSet::new(),
            lifetime_hints: BTreeSet::from([0]),
        }
    }
}

pub(crate) mod checksum_handoff {
    //! Functions of the set `checksum_handoff`.

    use super::Options;

    pub(crate) fn clear(options: &mut Options) {
        options.sets.checksum_handoff.clear();
    }

    pub(crate) fn add(options: &mut Options, number: i32) {
        options.sets.checksum_handoff.insert(number);
    }

    pub(crate) fn remove(options: &mut Options, number: i32) {
        options.sets.checksum_handoff.remove(&number);
    }

    pub(crate) fn contains(options: &mut Options, number: i32) -> bool {
        options.sets.checksum_handoff.contains(&number)
    }

    pub(crate) fn count(options: &mut Options) -> usize {
        options.sets.checksum_handoff.len()
    }
}

pub(crate) mod lifetime_hints {
    //! Functions of the set `lifetime_hints`.

    use super::Options;

    pub(crate) fn clear(options: &mut Options) {
        options.sets.lifetime_hints.clear();
    }

    pub(crate) fn add(options: &mut Options, number: i32) {
        options.sets.lifetime_hints.insert(number);
    }

    pub(crate) fn remove(options: &mut Options, number: i32) {
        options.sets.lifetime_hints.remove(&number);
    }

    pub(crate) fn contains(options: &mut Options, number: i32) -> bool {
        options.sets.lifetime_hints.contains(&number)
    }

    pub(crate) fn count(options: &mut Options) -> usize {
        options.sets.lifetime_hints.len()
    }
}
