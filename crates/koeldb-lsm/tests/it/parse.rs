//! Parses the text forms of `koeldb_lsm::text`, with defaults to keep scripts short.
//!
//! ```text
//! L0
//!   12:[a-z] 64M                  keys with the file's number as sequence number, type SET
//!   11:[a#5,SET-c#inf,RANGEDEL] 1K seqs=3-5 epoch=2 created=100 compacting marked
//!   13:[a-z] 1M entries=2K deletions=1K values=1M frees=2M
//!   10:[a-c) 1K                   `)` for an exclusive end: that of a range tombstone
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::key::MAX_SEQNO;
use koeldb_base::{KeyOrder, ValueType};
use koeldb_lsm::{FileMeta, Level, Version};

use crate::entries::{key, number};

/// Parses a number of bytes with an optional unit: `64M`.
pub(crate) fn bytes(text: &str) -> u64 {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    number(digits) << shift
}

/// Parses one table.
pub(crate) fn file(line: &str) -> FileMeta {
    let (own_number, rest) = line.split_once(":[").expect("NUMBER:[FIRST-LAST] BYTES");
    let own_number = number(own_number.trim());
    let end = rest.find([']', ')']).expect("the last key's bracket");
    let (smallest, largest) = rest[..end].split_once('-').expect("FIRST-LAST");
    let smallest = key(smallest, own_number, ValueType::Value);
    let largest = match rest.as_bytes()[end] {
        b')' => key(largest, MAX_SEQNO, ValueType::RangeDeletion),
        _ => key(largest, own_number, ValueType::Value),
    };
    let mut words = rest[end + 1..].split_whitespace();
    let file_bytes = words.next().map_or(1 << 20, bytes);
    let mut file = FileMeta::new(own_number, file_bytes, smallest, largest);
    (file.smallest_seqno, file.largest_seqno) = (own_number, own_number);
    file.epoch = own_number;
    for word in words {
        match word.split_once('=') {
            Some(("seqs", seqs)) => {
                let (from, to) = seqs.split_once('-').expect("seqs=FROM-TO");
                (file.smallest_seqno, file.largest_seqno) = (number(from), number(to));
            }
            Some(("frees", freed)) => file.compensated_range_deletion_bytes = bytes(freed),
            Some(("entries", entries)) => {
                let entries = bytes(entries);
                file.entry_stats.entries.store(entries, Ordering::Relaxed);
            }
            Some(("deletions", deletions)) => {
                let deletions = bytes(deletions);
                file.entry_stats
                    .deletions
                    .store(deletions, Ordering::Relaxed);
            }
            Some(("values", value_bytes)) => {
                let value_bytes = bytes(value_bytes);
                file.entry_stats
                    .value_bytes
                    .store(value_bytes, Ordering::Relaxed);
            }
            Some(("epoch", epoch)) => file.epoch = number(epoch),
            Some(("created", time)) => file.creation_time = number(time),
            Some(("ancestor", time)) => file.oldest_ancestor_time = number(time),
            None if word == "marked" => file.marked_for_compaction = true,
            None if word == "compacting" => file.being_compacted.store(true, Ordering::Relaxed),
            _ => panic!("{word:?} says nothing about a table"),
        }
    }
    file
}

/// Parses a tree of `level_count` levels in bytewise order.
pub(crate) fn tree(text: &str, level_count: usize) -> Version {
    let mut levels = vec![Level::default(); level_count];
    let mut level = 0;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix('L') {
            Some(deeper) => level = usize::try_from(number(deeper)).unwrap(),
            None => levels[level].files.push(Arc::new(file(line))),
        }
    }
    Version::new(KeyOrder::Bytewise, levels)
}
