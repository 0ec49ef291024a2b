//! The choice of the directory of a compaction's output among those of a column family.
//!
//! The targets of the directories are approximate: the choice depends on the expected sizes of
//! levels and runs, and not on the bytes that a directory has. The last directory takes what fits in
//! no other one. (RocksDB: `GetPathId` of the compaction pickers; 11.9.)

use super::PickSettings;
use super::leveled::scaled;
use crate::data_paths::DATA_PATHS_MAX;

/// The target sizes of the directories of a column family, which decide on the output of
/// compactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathTargets {
    /// The target size in bytes of each directory; with fewer than two there is no choice.
    pub bytes: Vec<u64>,
    /// The directory that the caller of a manual compaction wants, instead of the fitting one.
    pub chosen: Option<u8>,
}

impl PathTargets {
    /// The last directory, which takes what fits in no other one.
    fn last(&self) -> u8 {
        let last = self.bytes.len().min(DATA_PATHS_MAX).saturating_sub(1);
        u8::try_from(last).unwrap_or(0)
    }

    /// The target size of a directory.
    fn target(&self, path_id: u8) -> u64 {
        self.bytes.get(usize::from(path_id)).copied().unwrap_or(0)
    }
}

impl PickSettings {
    /// Returns the path id for the output of a leveled compaction into `level`.
    ///
    /// It is the first directory in which the level fits with those above it, of which each is in
    /// the first directory with room. Level 0 counts as large as level 1.
    #[must_use]
    pub fn path_of_level(&self, level: usize) -> u8 {
        let paths = &self.paths;
        if let Some(chosen) = paths.chosen {
            return chosen;
        }
        let mut path_id = 0;
        let mut room = paths.target(0);
        let mut current = 0;
        let mut level_bytes = self.max_bytes_for_level_base;
        while path_id < paths.last() {
            if level_bytes > room {
                path_id += 1;
                room = paths.target(path_id);
                continue;
            }
            if current == level {
                return path_id;
            }
            room -= level_bytes;
            if current > 0 {
                let additional = &self.max_bytes_for_level_multiplier_additional;
                let additional = additional.get(current).map_or(1.0, |&it| f64::from(it));
                let factor = self.max_bytes_for_level_multiplier * additional;
                level_bytes = scaled(level_bytes, factor);
            }
            current += 1;
        }
        path_id
    }

    /// Returns the path id for the output of a universal compaction of about `bytes`.
    ///
    /// It is the first directory that has room for it, and where with the directories before there
    /// is also room for the newer runs that will be as large as it before it is compacted again.
    #[must_use]
    pub fn path_of_run(&self, bytes: u64) -> u8 {
        let paths = &self.paths;
        if let Some(chosen) = paths.chosen {
            return chosen;
        }
        // A ratio above 100 wraps around, as in RocksDB: no directory but the last has such room.
        let percent = u64::from(100_u32.wrapping_sub(self.universal.size_ratio));
        let future = bytes.saturating_mul(percent) / 100;
        let mut before = 0_u64;
        for path_id in 0..paths.last() {
            let target = paths.target(path_id);
            if target > bytes && before.saturating_add(target - bytes) > future {
                return path_id;
            }
            before = before.saturating_add(target);
        }
        paths.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(targets: &[u64]) -> PickSettings {
        let mut settings = PickSettings {
            max_bytes_for_level_base: 100,
            paths: PathTargets {
                bytes: targets.to_vec(),
                chosen: None,
            },
            ..PickSettings::default()
        };
        settings.universal.size_ratio = 1;
        settings
    }

    #[test]
    fn a_level_is_in_the_first_directory_with_room_for_the_levels_up_to_it() {
        let ids = |targets: &[u64]| {
            let settings = settings(targets);
            (0..5).map(|level| settings.path_of_level(level)).collect()
        };
        let ids: Vec<Vec<u8>> = vec![
            ids(&[]),
            ids(&[1]),
            ids(&[150, 1500, 0]),
            ids(&[200, 1000, 10_000]),
            ids(&[0, 0, 0, 0]),
        ];
        assert_eq!(ids[0], [0; 5]);
        assert_eq!(ids[1], [0; 5]);
        // 100 on level 0, 100 on level 1, 1000 on level 2, then 10 times as much.
        assert_eq!(ids[2], [0, 1, 1, 2, 2]);
        assert_eq!(ids[3], [0, 0, 1, 2, 2]);
        assert_eq!(ids[4], [3; 5]);
        let mut chosen = settings(&[100, 1000]);
        chosen.paths.chosen = Some(1);
        assert_eq!((chosen.path_of_level(0), chosen.path_of_run(1)), (1, 1));
    }

    #[test]
    fn a_run_is_in_the_first_directory_with_room_for_it_and_its_successors() {
        let id = |targets: &[u64], bytes| settings(targets).path_of_run(bytes);
        assert_eq!(id(&[], 5), 0);
        // Of 100 bytes, 60 leave no room for runs of 59 more.
        assert_eq!((id(&[100, 1000], 40), id(&[100, 1000], 60)), (0, 1));
        assert_eq!((id(&[100, 1000, 1], 500), id(&[100, 1000, 1], 600)), (1, 2));
    }
}
