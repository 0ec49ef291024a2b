//! A column family of each thread: imported from a shared one, clipped, and dropped.
//!
//! A thread exports a shared column family when it knows the versions of its own keys, and imports
//! the tables as a column family that nobody else uses. That has exactly these versions, and some
//! of the keys of other threads until it is clipped to keys of its own. A file has the state of
//! each, so that the next worker knows what a kill may have left: all of an import or nothing, all
//! of a clip or nothing.
//!
//! ```text
//! slot of a thread: phase, the own keys kept (from, to), those that the next clip keeps (from, to),
//!                   the number of keys of other threads (8 bytes each, little-endian)
//! ```

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::{ColumnFamily, Db, ExportOptions, ImportColumnFamilyOptions, Options};
use koeldb_testkit::Random;

use crate::copies::remove;
use crate::expected::Version;
use crate::worker::{Life, NamedFamily, is_dated, key, newest, note, number_of};

const PHASE: usize = 0;
const KEPT: usize = 1;
const NEXT: usize = 3;
const OTHERS: usize = 5;
const NUMBERS: usize = 6;

/// The operation on a thread's own column family that was last recorded, perhaps cut off by a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Absent,
    /// It is absent, empty, or whole.
    Importing,
    /// It has the kept keys, and those of other threads.
    Stable,
    /// It is as before the clip or as after it.
    Clipping,
    Clipped,
    /// It is absent or as before.
    Dropping,
}

const PHASES: [Phase; 6] = [
    Phase::Absent,
    Phase::Importing,
    Phase::Stable,
    Phase::Clipping,
    Phase::Clipped,
    Phase::Dropping,
];

/// The recorded state of each thread's own column family, in a file that outlives the process.
pub(crate) struct OwnFamilies {
    file: File,
    slots: Vec<[AtomicU64; NUMBERS]>,
}

impl OwnFamilies {
    /// Opens or creates the file of states, beside that of the expected versions.
    pub(crate) fn open(expected: &Path, threads: u64) -> std::io::Result<Self> {
        let mut path = expected.to_owned().into_os_string();
        path.push(".own");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(PathBuf::from(path))?;
        let slot_bytes = 8 * NUMBERS as u64;
        if file.metadata()?.len() == 0 {
            file.set_len(threads * slot_bytes)?;
        }
        let mut slots = Vec::new();
        for thread in 0..threads {
            let mut numbers = [0; NUMBERS];
            for (at, number) in (0..).zip(&mut numbers) {
                let mut bytes = [0; 8];
                file.read_exact_at(&mut bytes, thread * slot_bytes + at * 8)?;
                *number = u64::from_le_bytes(bytes);
            }
            slots.push(numbers.map(AtomicU64::new));
        }
        Ok(OwnFamilies { file, slots })
    }

    /// Returns field `which` in the slot of a thread.
    fn number(&self, thread: u64, which: usize) -> u64 {
        self.slots[koeldb_base::coding::to_usize(thread)][which].load(Ordering::Relaxed)
    }

    /// Stores a field of a thread in memory and then in the file, in one write of eight bytes.
    fn set(&self, thread: u64, which: usize, number: u64) -> Result<(), String> {
        let slot = &self.slots[koeldb_base::coding::to_usize(thread)];
        slot[which].store(number, Ordering::Relaxed);
        let offset = (thread * NUMBERS as u64 + which as u64) * 8;
        note(self.file.write_all_at(&number.to_le_bytes(), offset))
    }

    /// Returns the recorded operation on a thread's own column family.
    fn phase(&self, thread: u64) -> Phase {
        let number = koeldb_base::coding::to_usize(self.number(thread, PHASE));
        PHASES.get(number).copied().unwrap_or(Phase::Absent)
    }

    /// Records the operation on a thread's own column family.
    fn set_phase(&self, thread: u64, phase: Phase) -> Result<(), String> {
        self.set(thread, PHASE, phase as u64)
    }

    /// Returns the recorded range of key numbers in the fields `which` and `which + 1`.
    fn keys(&self, thread: u64, which: usize) -> Range<u64> {
        self.number(thread, which)..self.number(thread, which + 1)
    }

    /// Records a range of key numbers in the fields `which` and `which + 1`.
    fn set_keys(&self, thread: u64, which: usize, keys: &Range<u64>) -> Result<(), String> {
        self.set(thread, which, keys.start)?;
        self.set(thread, which + 1, keys.end)
    }
}

/// Returns the name of a thread's own column family.
fn name(thread: u64) -> String {
    format!("own{thread}")
}

/// Adds the threads' own column families that exist at `path` to the shared ones.
///
/// A thread's column family has the options of the shared one that it is made from.
pub(crate) fn with_own(
    options: &Options,
    path: &Path,
    shared: &[NamedFamily],
    threads: u64,
) -> Vec<NamedFamily> {
    // A new database has none; opening another one that cannot be listed fails, too.
    let names = Db::list_cf(options, path).unwrap_or_default();
    let mut families = shared.to_vec();
    for thread in (0..threads).filter(|thread| names.contains(&name(*thread))) {
        let (_, options) = &shared[origin(thread, shared.len())];
        families.push((name(thread), options.clone()));
    }
    families
}

/// Returns the index of the shared column family that a thread's own family is imported from.
fn origin(thread: u64, shared: usize) -> usize {
    koeldb_base::coding::to_usize(thread) % shared
}

/// The content of a thread's own column family: the thread's entries, and a count of other keys.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    /// The own keys with their values.
    own: Vec<(u64, Vec<u8>)>,
    /// The number of keys of other threads.
    others: u64,
}

impl Life {
    /// Reads a thread's own column family; the outer error is a wrong key or value.
    fn own_content(
        &self,
        family: &ColumnFamily,
        thread: u64,
    ) -> Result<koeldb::Result<Content>, String> {
        let mut content = Content {
            own: Vec::new(),
            others: 0,
        };
        for entry in family.range_opt(.., &newest(family, None)) {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(error) => return Ok(Err(error)),
            };
            let number = number_of(&key).ok_or_else(|| format!("own family with key {key:?}"))?;
            if self.own(thread).contains(&number) {
                content.own.push((number, value.to_vec()));
                continue;
            }
            content.others += 1;
            let last = self.expected.begun(number);
            if !Version::NONE.permits(last, number, Some(&value)) {
                return Err(format!("own family with a wrong value of key {number}"));
            }
        }
        Ok(Ok(content))
    }

    /// Returns the expected content of a thread's own column family that keeps the imported `keys`.
    fn kept(&self, keys: Range<u64>, others: u64) -> Content {
        let value = |number: u64| Some((number, self.expected.imported(number).value(number)?));
        Content {
            own: keys.filter_map(value).collect(),
            others,
        }
    }

    /// Checks a thread's own column family, and records which of the possible contents it has.
    ///
    /// The inner error is one of the database.
    pub(crate) fn settle_own(&self, thread: u64) -> Result<koeldb::Result<()>, String> {
        let states = &self.own_families;
        let phase = states.phase(thread);
        let Some(family) = self.db.cf_handle(&name(thread)) else {
            return match phase {
                Phase::Absent | Phase::Importing | Phase::Dropping => {
                    states.set_phase(thread, Phase::Absent).map(Ok)
                }
                _ => Err(format!("{} is gone while {phase:?}", name(thread))),
            };
        };
        let found = match self.own_content(&family, thread)? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let own = self.own(thread);
        let before = (states.keys(thread, KEPT), states.number(thread, OTHERS));
        let after = (states.keys(thread, NEXT), 0);
        let possible = match phase {
            Phase::Absent => vec![],
            Phase::Importing => vec![(own.start..own.start, 0), (own, found.others)],
            Phase::Stable | Phase::Dropping => vec![before],
            Phase::Clipping => vec![before, after],
            Phase::Clipped => vec![after],
        };
        let is_found =
            |(keys, others): &(Range<u64>, u64)| self.kept(keys.clone(), *others) == found;
        let Some((keys, others)) = possible.iter().find(|content| is_found(content)) else {
            let numbers: Vec<u64> = found.own.iter().map(|(number, _)| *number).collect();
            return Err(format!(
                "{} while {phase:?} has {} keys of other threads and {numbers:?}, which is none of {possible:?}",
                name(thread),
                found.others
            ));
        };
        states.set_keys(thread, KEPT, keys)?;
        states.set(thread, OTHERS, *others)?;
        states.set_phase(thread, Phase::Stable).map(Ok)
    }

    /// Imports, clips or drops the thread's own column family.
    pub(crate) fn change_own(&self, thread: u64, random: &mut Random) -> Result<bool, String> {
        if let Err(error) = self.settle_own(thread)? {
            return self.tolerate(Err(error));
        }
        let Some(family) = self.db.cf_handle(&name(thread)) else {
            return self.import_own(thread, random);
        };
        let states = &self.own_families;
        let kept = states.keys(thread, KEPT);
        // Families whose keys have timestamps are not clipped.
        if kept.is_empty() || random.chance(1, 4) || is_dated(&family) {
            states.set_phase(thread, Phase::Dropping)?;
            let dropped = self.db.drop_cf(&family);
            if dropped.is_ok() {
                states.set_phase(thread, Phase::Absent)?;
            }
            return self.tolerate(dropped);
        }
        let from = kept.start + random.below((kept.end - kept.start).min(20));
        let next = from..from + random.below(kept.end - from + 1);
        states.set_keys(thread, NEXT, &next)?;
        states.set_phase(thread, Phase::Clipping)?;
        if let Err(error) = family.clip(key(next.start), key(next.end)) {
            return self.tolerate(Err(error));
        }
        states.set_phase(thread, Phase::Clipped)?;
        let settled = self.settle_own(thread)?;
        self.tolerate(settled)
    }

    /// Exports a shared column family and imports it as the thread's own column family.
    fn import_own(&self, thread: u64, random: &mut Random) -> Result<bool, String> {
        let path = self.copies.path(&format!("own-{thread}"));
        remove(&path)?;
        let index = origin(thread, self.families.len());
        // A family with values in blob files is exported only with them in the tables.
        let mut what = ExportOptions::new();
        what.set_inline_blobs(true);
        let export = match self.families[index].export_opt(&path, &what) {
            Ok(export) => export,
            Err(error) => return self.tolerate(Err(error)),
        };
        for number in self.own(thread) {
            note(self.expected.import(number))?;
        }
        let mut how = ImportColumnFamilyOptions::new();
        how.set_move_files(random.chance(1, 2));
        self.own_families.set_phase(thread, Phase::Importing)?;
        let options = self.families[index].options();
        let imported =
            self.db
                .create_column_family_with_import(&name(thread), &options, &[export], &how);
        if let Err(error) = imported {
            return self.tolerate(Err(error));
        }
        let settled = self.settle_own(thread)?;
        self.tolerate(settled)
    }
}
