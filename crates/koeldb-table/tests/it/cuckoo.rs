//! Cuckoo tables: reads RocksDB's, and compares ours with what RocksDB would write.

use std::sync::Arc;

use koeldb_base::key::{InternalKey, MAX_SEQNO};
use koeldb_base::merge_operator::Merger;
use koeldb_base::{KeyOrder, Lookup};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, OpenOptions};
use koeldb_table::TableReader;
use koeldb_table::cuckoo::reader::CuckooReader;
use koeldb_table::reader::TableReadContext;
use koeldb_table::source::BlockingSource;

use crate::golden::{bytes_of, expected, tables};
use crate::judge::{self, FileBytes, find, judge};

pub(crate) fn cuckoo(table: &TableReader) -> &CuckooReader {
    match table {
        TableReader::Cuckoo(table) => table.whole().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Searches for all keys in one batch.
pub(crate) fn find_all(table: &TableReader, keys: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    let mut lookups: Vec<Lookup> = keys.iter().map(|key| Lookup::new(key, MAX_SEQNO)).collect();
    let mut batch: Vec<&mut Lookup> = lookups.iter_mut().collect();
    let mut outcomes = vec![0; keys.len()];
    table.search_batch(
        &mut batch,
        &mut BlockingSource::default(),
        |index, outcome| {
            outcome.unwrap();
            outcomes[index] += 1;
        },
    );
    assert!(outcomes.iter().all(|&count| count == 1));
    lookups
        .into_iter()
        .map(|lookup| {
            lookup
                .finish(Merger::default)
                .unwrap()
                .map(|value| value.to_vec())
        })
        .collect()
}

#[test]
fn tables_of_rocksdb_are_read_mapped_and_copied() {
    let paths = tables("cuckoo-");
    assert_eq!(paths.len(), 5);
    for path in paths {
        let directory = path.parent().unwrap().file_name().unwrap();
        let expected = expected(directory.to_str().unwrap());
        for mmap in [false, true] {
            let options = OpenOptions {
                mmap,
                ..OpenOptions::default()
            };
            let file = PosixFileSystem::new().open(&path, &options).unwrap();
            let table = TableReader::open(file, &TableReadContext::default()).unwrap();
            assert_eq!(table.memory_bytes() > 0, !mmap);
            let entries = judge(&table, &KeyOrder::Bytewise, 50);
            let found = entries
                .into_iter()
                .map(|(key, value)| (InternalKey::parse(&key).unwrap().user_key.to_vec(), value));
            assert!(found.eq(expected.clone()), "{path:?}");
            for (key, value) in &expected {
                let (_, found) = find(&table, key, MAX_SEQNO).unwrap();
                assert_eq!(found.unwrap().as_slice(), value);
            }
            let mut keys: Vec<Vec<u8>> = expected.keys().cloned().collect();
            assert!(
                find_all(&table, &keys)
                    .into_iter()
                    .flatten()
                    .eq(expected.values().cloned())
            );
            for key in &mut keys {
                // Changes the last byte of a key, or its length.
                match key.len() % 3 {
                    0 => *key.last_mut().unwrap() ^= 0x55,
                    1 => key.push(0),
                    _ => _ = key.pop(),
                }
                assert!(
                    expected.contains_key(key) || find(&table, key, MAX_SEQNO).unwrap().1.is_none()
                );
            }
            let examination = cuckoo(&table).examine().unwrap();
            assert_eq!(examination.entry_count, expected.len() as u64);
            let empty = cuckoo(&table).layout().empty_user_key.clone();
            assert_eq!(find(&table, &empty, MAX_SEQNO).unwrap().1, None);
        }
    }
}

#[test]
fn damage_is_an_error_or_one_slot() {
    for path in [&tables("cuckoo-l0")[0], &tables("cuckoo-identity")[0]] {
        let bytes = bytes_of(path);
        let open = |bytes: Vec<u8>| -> koeldb_base::Result<Arc<TableReader>> {
            TableReader::open(FileBytes::new(path, bytes), &TableReadContext::default())
        };
        let whole = judge::scan(&open(bytes.clone()).unwrap()).unwrap();
        let data = usize::try_from(open(bytes.clone()).unwrap().properties().data_bytes).unwrap();
        let places = (0..data)
            .step_by(4999)
            .chain((data..bytes.len()).step_by(17));
        for at in places {
            for flip in [0x01, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let Ok(table) = open(damaged) else { continue };
                for (key, _) in whole.iter().step_by(97) {
                    let _ = find(&table, InternalKey::parse(key).unwrap().user_key, MAX_SEQNO);
                }
                let _ = table.verify_checksums(&mut |_| {});
                if let Ok(seen) = judge::scan(&table) {
                    let changed = whole.iter().zip(&seen).filter(|(a, b)| a != b).count();
                    assert!(
                        at < data || changed == 0,
                        "byte {at} ^ {flip:#x} of {path:?}"
                    );
                }
            }
        }
        for len in (0..data).step_by(997).chain(data..bytes.len()) {
            assert!(open(bytes[..len].to_vec()).is_err(), "cut to {len}");
        }
    }
}
