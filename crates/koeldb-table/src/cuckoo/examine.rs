//! Measures the read costs of a cuckoo table, and checks that readers find every key.
//!
//! Every stored key is searched as a reader does. It must be found in the slot it was read from,
//! which shows that it is in one of its windows, that no slot on the way is empty, and that it
//! occurs once.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::fmt;

use koeldb_base::{Error, Result};

use super::hash::murmur64a;
use super::reader::CuckooReader;

const LINE_BYTES: u64 = 64;

/// The number of absent keys to search for.
const MISSES: u64 = 20_000;

/// The measured search costs of a cuckoo table, for every key and for absent keys.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Examination {
    /// The number of entries.
    pub entry_count: u64,
    /// The number of slots, including those beyond the range of the hash functions.
    pub slot_count: u64,
    /// The size of a slot in bytes.
    pub slot_bytes: u64,
    /// The number of slots in a cuckoo block.
    pub window_slots: u64,
    /// The number of entries found by the first hash function, by the second, and so on.
    pub found_by_function: Vec<u64>,
    /// The costs of finding a key.
    pub hit: Costs,
    /// The costs of a search for an absent key, measured with pseudo-random keys.
    pub miss: Costs,
}

/// The mean costs of one key search: cuckoo blocks, slots and cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Costs {
    /// Windows searched.
    pub windows: f64,
    /// Slots compared.
    pub slots: f64,
    /// Cache lines touched.
    pub lines: f64,
}

/// The costs of one key search, and the slot that it found.
#[derive(Clone, Copy, Default)]
struct Path {
    windows: u64,
    slots: u64,
    lines: u64,
    found: Option<u64>,
}

/// The summed costs of many key searches.
#[derive(Default)]
struct CostSum {
    searches: u64,
    windows: u64,
    slots: u64,
    lines: u64,
}

impl CostSum {
    /// Adds the costs of one search.
    fn add(&mut self, path: Path) {
        self.searches = self.searches.saturating_add(1);
        self.windows = self.windows.saturating_add(path.windows);
        self.slots = self.slots.saturating_add(path.slots);
        self.lines = self.lines.saturating_add(path.lines);
    }

    /// Returns the mean costs of a search.
    fn mean(&self) -> Costs {
        #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
        let mean = |sum: u64| sum as f64 / self.searches.max(1) as f64;
        Costs {
            windows: mean(self.windows),
            slots: mean(self.slots),
            lines: mean(self.lines),
        }
    }
}

impl CuckooReader {
    /// Measures search costs by looking up every key of the table and some absent keys.
    ///
    /// # Errors
    /// `Corruption` if a key is not found in its slot, or the number of entries is not the recorded
    /// one.
    pub fn examine(&self) -> Result<Examination> {
        let (found_by_function, hits) = self.hits()?;
        let layout = &self.layout;
        Ok(Examination {
            entry_count: layout.entry_count,
            slot_count: u64::from(layout.slot_count),
            slot_bytes: layout.slot_bytes() as u64,
            window_slots: u64::from(layout.window_slots),
            found_by_function,
            hit: hits.mean(),
            miss: self.misses().mean(),
        })
    }

    /// Verifies the span checksums, if there are any, and that every key is found in its slot.
    pub(crate) fn verify_checksums(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        match &self.checksums {
            Some(checksums) => checksums
                .verify_file(&*self.file, progress)
                .map_err(|error| error.in_file(&self.path, None, "verify"))?,
            None => progress(self.layout.data_bytes()),
        }
        self.hits().map(|_| ())
    }

    /// Looks up every key; returns how many each hash function found, and the summed costs.
    fn hits(&self) -> Result<(Vec<u64>, CostSum)> {
        self.find_all()
            .map_err(|error| error.in_file(&self.path, None, "verify"))
    }

    /// Implements [`CuckooReader::hits`], and checks the entry counts in the properties.
    fn find_all(&self) -> Result<(Vec<u64>, CostSum)> {
        let layout = &self.layout;
        let mut found_by_function = vec![0_u64; layout.function_count as usize];
        let mut hits = CostSum::default();
        let mut entries = 0_u64;
        for slot in (0..layout.slot_count).filter(|&slot| self.is_occupied(slot)) {
            let bytes = self.slot(slot);
            entries = entries.saturating_add(self.entries_in(bytes)?);
            let path = self.path_of(self.user_key_in(bytes));
            if path.found != Some(u64::from(slot)) {
                return Err(Error::corruption(format!(
                    "cuckoo table: a search for the key in slot {slot} does not find it"
                )));
            }
            let by = path.windows.checked_sub(1).and_then(|index| {
                let index = usize::try_from(index).ok()?;
                found_by_function.get_mut(index)
            });
            if let Some(count) = by {
                *count = count.saturating_add(1);
            }
            hits.add(path);
        }
        if hits.searches != layout.entry_count {
            return Err(Error::corruption(format!(
                "cuckoo table: {} entries are recorded, but {} exist",
                layout.entry_count, hits.searches
            )));
        }
        if entries != self.properties.entry_count {
            return Err(Error::corruption(format!(
                "cuckoo table: {} entries are recorded, but {entries} exist",
                self.properties.entry_count
            )));
        }
        Ok((found_by_function, hits))
    }

    /// Counts the versions stored for the key in a slot; fails if they are malformed.
    fn entries_in(&self, slot: &[u8]) -> Result<u64> {
        if self.layout.heap_bytes.is_none() {
            return self.footer_of(slot).map(|_| 1);
        }
        let (_, mut versions) = self.versions_in(slot)?;
        let mut entries = 0_u64;
        while versions.next()?.is_some() {
            entries = entries.saturating_add(1);
        }
        Ok(entries)
    }

    /// Looks up pseudorandom keys, and sums the costs of those that are absent.
    fn misses(&self) -> CostSum {
        let mut misses = CostSum::default();
        if self.layout.slot_count == 0 {
            return misses;
        }
        let mut key = vec![0; self.layout.user_key_bytes as usize];
        for number in 0..MISSES {
            let mut word = number;
            for bytes in key.chunks_mut(8) {
                word = murmur64a(&word.to_le_bytes(), 1);
                for (byte, random) in bytes.iter_mut().zip(word.to_le_bytes()) {
                    *byte = random;
                }
            }
            let path = self.path_of(&key);
            if path.found.is_none() {
                misses.add(path);
            }
        }
        misses
    }

    /// Looks up a user key, and counts the costs.
    fn path_of(&self, user_key: &[u8]) -> Path {
        let layout = &self.layout;
        let slot_bytes = layout.slot_bytes() as u64;
        let mut path = Path::default();
        for function in 0..layout.function_count {
            path.windows = path.windows.saturating_add(1);
            let first = self.hash.slot(function, user_key);
            let line = |byte: u64| byte.checked_div(LINE_BYTES).unwrap_or(0);
            let first_line = line(first.saturating_mul(slot_bytes));
            let lines_before = path.lines;
            for slot in first..first.saturating_add(u64::from(layout.window_slots)) {
                path.slots = path.slots.saturating_add(1);
                let end = slot.saturating_add(1).saturating_mul(slot_bytes);
                let lines = line(end.saturating_sub(1)).saturating_sub(first_line);
                path.lines = lines_before.saturating_add(lines).saturating_add(1);
                let bytes = self
                    .slots
                    .bytes(slot.saturating_mul(slot_bytes), layout.slot_bytes());
                let key = self.user_key_in(bytes);
                if key == layout.empty_user_key {
                    return path;
                }
                if key == user_key {
                    path.found = Some(slot);
                    return path;
                }
            }
        }
        path
    }
}

impl fmt::Display for Examination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "shares for people")]
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let empty = self.slot_count.saturating_sub(self.entry_count);
        writeln!(
            f,
            "{} entries in {} slots of {} bytes: load {:.1} %, {empty} slots wasted ({} bytes)",
            self.entry_count,
            self.slot_count,
            self.slot_bytes,
            share(self.entry_count, self.slot_count),
            empty.saturating_mul(self.slot_bytes),
        )?;
        write!(f, "windows of {} slots; found in", self.window_slots)?;
        for (index, count) in self.found_by_function.iter().enumerate() {
            let number = index.saturating_add(1);
            write!(
                f,
                " window {number}: {:.1} %",
                share(*count, self.entry_count)
            )?;
        }
        writeln!(f)?;
        for (name, costs) in [("hit", self.hit), ("miss", self.miss)] {
            writeln!(
                f,
                "a {name} looks at {:.3} windows, {:.2} slots, {:.2} cache lines",
                costs.windows, costs.slots, costs.lines
            )?;
        }
        Ok(())
    }
}
