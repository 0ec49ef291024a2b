//! Damaged tables: an error or an unchanged answer, never a different one, and never a panic.

use std::path::Path;
use std::sync::Arc;

use koeldb_base::key::{InternalKey, MAX_SEQNO};
use koeldb_base::{KeyOrder, Result};
use koeldb_table::TableReader;
use koeldb_table::reader::TableReadContext;

use crate::golden::{bytes_of, tables};
use crate::judge::{Entry, FileBytes, find, scan, scan_backward};

/// The results of reading a whole table, unless there was an error.
#[derive(Debug, PartialEq)]
struct Sight {
    entries: Vec<Entry>,
    backward: Vec<Entry>,
    found: Vec<Option<Vec<u8>>>,
}

fn look(path: &Path, bytes: Vec<u8>, keys: &[Vec<u8>]) -> Result<Sight> {
    let context = TableReadContext {
        order: KeyOrder::Bytewise,
        ..TableReadContext::default()
    };
    let table: Arc<TableReader> = TableReader::open(FileBytes::new(path, bytes), &context)?;
    let found = keys
        .iter()
        .map(|key| match find(&table, key, MAX_SEQNO) {
            Ok((_, value)) => Ok(value.map(|value| value.to_vec())),
            Err(error) => Err(error),
        })
        .collect::<Result<_>>()?;
    Ok(Sight {
        entries: scan(&table)?,
        backward: scan_backward(&table)?,
        found,
    })
}

fn sweep(path: &Path, step: usize) -> (usize, usize) {
    let bytes = bytes_of(path);
    let whole = look(path, bytes.clone(), &[]).unwrap();
    let keys: Vec<Vec<u8>> = whole
        .entries
        .iter()
        .step_by(whole.entries.len() / 5 + 1)
        .map(|(key, _)| InternalKey::parse(key).unwrap().user_key.to_vec())
        .collect();
    let whole = look(path, bytes.clone(), &keys).unwrap();
    let (mut errors, mut unchanged) = (0, 0);
    // The last bytes are the footer, where every byte matters.
    let sampled = (0..bytes.len()).step_by(step);
    for at in sampled.chain(bytes.len() - 60..bytes.len()) {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            match look(path, damaged, &keys) {
                Err(_) => errors += 1,
                Ok(sight) => {
                    assert!(
                        sight == whole,
                        "byte {at} ^ {flip:#x} of {path:?} changes an answer"
                    );
                    unchanged += 1;
                }
            }
        }
    }
    for len in (0..bytes.len())
        .step_by(step)
        .chain(bytes.len() - 60..bytes.len())
    {
        assert!(
            look(path, bytes[..len].to_vec(), &keys).is_err(),
            "cut to {len}"
        );
    }
    (errors, unchanged)
}

#[test]
fn a_flipped_byte_is_noticed_or_harmless() {
    let (mut errors, mut unchanged) = (0, 0);
    for prefix in ["block-", "merge-", "deletes-"] {
        let mut last_directory = None;
        for path in tables(prefix) {
            // One table of each kind is enough; the smallest directories have little else.
            let directory = path.parent().map(Path::to_owned);
            if directory == last_directory {
                continue;
            }
            last_directory = directory;
            let len = bytes_of(&path).len();
            let (some_errors, some_unchanged) = sweep(&path, len / 40 + 1);
            errors += some_errors;
            unchanged += some_unchanged;
        }
    }
    // Damage is harmless where no reader looks: padding of old footers, the blocks of hash indexes.
    assert!(
        errors > 8 * unchanged,
        "{errors} errors, {unchanged} unchanged"
    );
}

#[test]
fn every_flipped_byte_of_a_small_table_is_noticed_or_harmless() {
    let small = tables("")
        .into_iter()
        .filter(|path| {
            let name = path.to_string_lossy();
            !name.contains("/cuckoo") && !name.contains("/plain") && !name.contains("reverse")
        })
        .filter(|path| look(path, bytes_of(path), &[]).is_ok())
        .min_by_key(|path| bytes_of(path).len())
        .unwrap();
    sweep(&small, 1);
}
