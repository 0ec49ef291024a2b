//! Compares the merging cursor with a sorted list.

use koeldb_base::cursor::{Blocking, Fault};
use koeldb_base::key::{ValueType, encode};
use koeldb_base::{Cursor, KeyOrder, PinnedSlice};
use koeldb_lsm::cursor::MergingCursor;

use super::{Target, join, parts};

/// A cursor over a sorted list of keys, which are also its values.
#[derive(Debug)]
struct ListCursor {
    keys: Vec<Vec<u8>>,
    at: Option<usize>,
}

impl Cursor for ListCursor {
    type Suspend = Blocking;

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
        self.at = (!self.keys.is_empty()).then_some(0);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
        self.at = self.keys.len().checked_sub(1);
        Ok(())
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        let order = KeyOrder::Bytewise;
        let at = (self.keys).partition_point(|key| order.compare_internal(key, target).is_lt());
        self.at = (at < self.keys.len()).then_some(at);
        Ok(())
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        let order = KeyOrder::Bytewise;
        let behind = (self.keys).partition_point(|key| order.compare_internal(key, target).is_le());
        self.at = behind.checked_sub(1);
        Ok(())
    }

    fn next(&mut self) -> Result<(), Fault<Blocking>> {
        self.at = self.at.map(|at| at + 1).filter(|&at| at < self.keys.len());
        Ok(())
    }

    fn prev(&mut self) -> Result<(), Fault<Blocking>> {
        self.at = self.at.and_then(|at| at.checked_sub(1));
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.at.map_or(&[], |at| &self.keys[at])
    }

    fn value(&self) -> &[u8] {
        self.key()
    }

    fn pinned_value(&self) -> PinnedSlice {
        PinnedSlice::copy_of(self.value())
    }
}

/// The first byte of a part selects the run of its key; its position is the sequence number.
pub(super) const MERGING: Target = Target {
    name: "merging",
    run: merging_run,
    seeds: || {
        vec![join([
            "\u{1}\u{0}a",
            "\u{2}\u{0}b",
            "\u{1}\u{0}c",
            "\u{3}\u{0}a",
        ])]
    },
};

/// Runs the fuzz target `merging`: compares a merging cursor with a cursor over one sorted list.
fn merging_run(data: &[u8]) {
    let mut runs = vec![Vec::new(); 4];
    for (seqno, part) in (0..64_u64).zip(parts(data)) {
        if let [run, key @ ..] = part {
            runs[usize::from(run % 4)].push(encode(key, seqno, ValueType::Value));
        }
    }
    let order = |a: &Vec<u8>, b: &Vec<u8>| KeyOrder::Bytewise.compare_internal(a, b);
    runs.iter_mut().for_each(|run| run.sort_by(order));
    let mut all = runs.concat();
    all.sort_by(order);
    let list = |keys| ListCursor { keys, at: None };
    let mut merged = MergingCursor::new(KeyOrder::Bytewise, runs.into_iter().map(list).collect());
    let mut model = list(all.clone());
    let agree = |merged: &MergingCursor<ListCursor>, model: &ListCursor| {
        assert_eq!(merged.valid(), model.valid());
        assert!(!merged.valid() || merged.key() == model.key());
    };
    for target in &all {
        for backward in [false, true] {
            let _ = (merged.seek(target), model.seek(target));
            agree(&merged, &model);
            // Two steps forward and one back, and vice versa.
            for step in [false, false, true, true, true, false] {
                if !model.valid() {
                    break;
                }
                let _ = match step ^ backward {
                    false => (merged.next(), model.next()),
                    true => (merged.prev(), model.prev()),
                };
                agree(&merged, &model);
            }
            let _ = (merged.seek_for_prev(target), model.seek_for_prev(target));
            agree(&merged, &model);
        }
    }
}
