//! Parses entries and tombstones of scripts, and iterates over them in memory.
//!
//! ```text
//! a#5,SET = one                   key, sequence number, type, value; values have escapes: `\x01`
//! b-d#4,RANGEDEL                  a range tombstone from `b` up to `d`, exclusive
//! ```

use koeldb_base::key::{MAX_SEQNO, encode};
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::{Blocking, Cursor, Fault, KeyOrder, Result, SeqNo, ValueType};

pub(crate) fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

/// A text with escapes as `\x01`, in bytes.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).unwrap());
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}

fn value_type(name: &str) -> ValueType {
    let mut types = (0..=u8::MAX).filter_map(ValueType::from_byte);
    types
        .find(|kind| koeldb_lsm::text::type_name(*kind as u8) == Some(name))
        .unwrap_or_else(|| panic!("{name:?} is no type of entry"))
}

/// Parses `a#12,SET`; sequence number and type default to those given.
pub(crate) fn key(text: &str, seqno: SeqNo, kind: ValueType) -> Vec<u8> {
    match text.split_once('#') {
        None => encode(text.as_bytes(), seqno, kind),
        Some((user_key, footer)) => {
            let (seqno, kind) = footer.split_once(',').unwrap_or((footer, "SET"));
            let seqno = match seqno {
                "inf" => MAX_SEQNO,
                _ => number(seqno),
            };
            encode(user_key.as_bytes(), seqno, value_type(kind))
        }
    }
}

/// Parses `a-c#7,RANGEDEL`: the range from `a` up to `c`, exclusive.
pub(crate) fn tombstone(line: &str) -> Option<RangeTombstone> {
    let range = line.strip_suffix(",RANGEDEL")?;
    let (range, seqno) = range.split_once('#')?;
    let (start, end) = range.split_once('-')?;
    Some(RangeTombstone {
        start: start.into(),
        end: end.into(),
        seqno: number(seqno),
    })
}

/// An internal key and its value.
pub(crate) type Entry = (Vec<u8>, Vec<u8>);

/// Parses lines of entries and tombstones; sorts the entries.
pub(crate) fn entries(text: &str, order: &KeyOrder) -> (Vec<Entry>, Vec<RangeTombstone>) {
    let (mut entries, mut tombstones) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        if let Some(tombstone) = tombstone(line) {
            tombstones.push(tombstone);
            continue;
        }
        let (internal, value) = line.split_once(" = ").unwrap_or((line, ""));
        entries.push((key(internal, 0, ValueType::Value), unescaped(value)));
    }
    entries.sort_by(|(a, _), (b, _)| order.compare_internal(a, b));
    (entries, tombstones)
}

/// A cursor over entries in memory, which counts its movements.
pub(crate) struct Entries {
    order: KeyOrder,
    entries: Vec<Entry>,
    /// The index of the current entry; out of range if there is none.
    at: usize,
    pub(crate) steps: usize,
    pub(crate) seeks: usize,
}

impl Entries {
    pub(crate) fn new(order: &KeyOrder, entries: Vec<Entry>) -> Self {
        Entries {
            order: order.clone(),
            entries,
            at: 0,
            steps: 0,
            seeks: 0,
        }
    }

    /// Counts a seek to the entry with this index.
    fn moved(&mut self, at: usize) -> Result<(), Fault<Blocking>> {
        self.seeks += 1;
        self.at = at;
        Ok(())
    }
}

impl Cursor for Entries {
    type Suspend = Blocking;

    fn valid(&self) -> bool {
        self.at < self.entries.len()
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
        self.moved(0)
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
        self.moved(self.entries.len().wrapping_sub(1))
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        let is_before = |key: &[u8]| self.order.compare_internal(key, target).is_lt();
        self.moved(self.entries.partition_point(|(key, _)| is_before(key)))
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        let is_up_to = |key: &[u8]| self.order.compare_internal(key, target).is_le();
        let behind = self.entries.partition_point(|(key, _)| is_up_to(key));
        self.moved(behind.wrapping_sub(1))
    }

    fn next(&mut self) -> Result<(), Fault<Blocking>> {
        self.steps += 1;
        self.at += 1;
        Ok(())
    }

    fn prev(&mut self) -> Result<(), Fault<Blocking>> {
        self.steps += 1;
        self.at = self.at.wrapping_sub(1);
        Ok(())
    }

    fn key(&self) -> &[u8] {
        &self.entries[self.at].0
    }

    fn value(&self) -> &[u8] {
        &self.entries[self.at].1
    }
}
