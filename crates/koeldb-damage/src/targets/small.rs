//! Decoders of small inputs: numbers, keys, names, tombstones, and the text of options.

use koeldb::{ConfigOptions, Options};
use koeldb_base::entity::{self, ColumnValue, Entity};
use koeldb_base::key::InternalKey;
use koeldb_base::range_del::{FragmentedTombstones, RangeTombstone};
use koeldb_base::{Error, KeyOrder, coding, file_name};
use koeldb_fs::MemoryFileSystem;

use super::{Target, join, judge, parts};
use crate::bytes_file::put_file;
use crate::seeds;

pub(super) const CODING: Target = Target {
    name: "coding",
    run: coding_run,
    seeds: || {
        let mut numbers = Vec::new();
        for number in [0, 1, 0x7f, 0x80, 0xffff_ffff, u64::MAX] {
            coding::put_varint64(&mut numbers, number);
        }
        let mut slices = Vec::new();
        coding::put_length_prefixed(&mut slices, b"slice");
        vec![numbers, slices]
    },
};

/// Runs the fuzz target `coding`: decodes varints and length-prefixed slices, and encodes them.
fn coding_run(data: &[u8]) {
    if let Some((value, len)) = coding::decode_varint32(data) {
        let mut again = Vec::new();
        coding::put_varint32(&mut again, value);
        assert!(len <= 5 && again.len() <= len);
        assert_eq!(coding::decode_varint32(&again), Some((value, again.len())));
    }
    if let Some((value, len)) = coding::decode_varint64(data) {
        let mut again = Vec::new();
        coding::put_varint64(&mut again, value);
        assert!(len <= 10 && again.len() <= len);
        assert_eq!(again.len(), coding::varint_len(value));
        assert_eq!(coding::decode_varint64(&again), Some((value, again.len())));
        assert_eq!(coding::zigzag(coding::unzigzag(value)), value);
    }
    let mut rest = data;
    while !rest.is_empty() {
        let before = rest.len();
        match coding::take_length_prefixed(&mut rest) {
            Ok(slice) => assert!(slice.len() < before && rest.len() < before),
            Err(error) => return judge(&error),
        }
    }
}

pub(super) const ENTITY: Target = Target {
    name: "entity",
    run: entity_run,
    seeds: || {
        let columns = [
            (&b""[..], ColumnValue::Inline(b"value")),
            (b"a", ColumnValue::BlobIndex(b"index")),
            (b"name", ColumnValue::Inline(b"")),
        ];
        let inline = [("", "value"), ("a", "1"), ("name", "")];
        let seeds = [
            entity::encode(&inline),
            entity::encode_with_references(&columns),
        ];
        seeds.into_iter().flatten().collect()
    },
};

/// Runs the fuzz target `entity`: decodes an entity, encodes its columns, and merges onto it.
fn entity_run(data: &[u8]) {
    let entity = match Entity::decode(data) {
        Ok(entity) => entity,
        Err(error) => return judge(&error),
    };
    let stored: Vec<_> = entity.stored_columns().collect();
    assert_eq!(stored.len(), entity.column_count() as usize);
    let again = entity::encode_with_references(&stored).expect("a part of an entity");
    let again = Entity::decode(&again).expect("an entity that was encoded");
    assert!(again.stored_columns().eq(stored.iter().copied()));
    match entity::with_default_column(data, b"new") {
        Err(error) => judge(&error),
        Ok(changed) => {
            let changed = Entity::decode(&changed).expect("an entity that was encoded");
            let others = stored.iter().copied().filter(|(name, _)| !name.is_empty());
            let expected = std::iter::once((&b""[..], ColumnValue::Inline(b"new"))).chain(others);
            assert!(changed.stored_columns().eq(expected));
        }
    }
}

pub(super) const KEY: Target = Target {
    name: "key",
    run: key_run,
    seeds: || {
        let key = |text: &str, seqno| {
            koeldb_base::key::encode(text.as_bytes(), seqno, koeldb_base::ValueType::Value)
        };
        vec![join([key("a", 1), key("a", 2), key("b", 0)])]
    },
};

/// Runs the fuzz target `key`: parses internal keys, and checks that their order is total.
fn key_run(data: &[u8]) {
    let keys: Vec<&[u8]> = parts(data).into_iter().take(8).collect();
    for key in &keys {
        match InternalKey::parse(key) {
            Ok(parsed) => assert_eq!(parsed.to_vec(), *key),
            Err(error) => judge(&error),
        }
    }
    for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise] {
        let compare = |a: &[u8], b: &[u8]| order.compare_internal(a, b);
        for a in &keys {
            for b in &keys {
                assert_eq!(compare(a, b), compare(b, a).reverse());
                for c in &keys {
                    let in_order = compare(a, b).is_le() && compare(b, c).is_le();
                    assert!(!in_order || compare(a, c).is_le(), "{a:?} {b:?} {c:?}");
                }
            }
        }
    }
}

pub(super) const NAMES: Target = Target {
    name: "names",
    run: names_run,
    seeds: || {
        let names = [
            "000007.sst",
            "MANIFEST-000004",
            "OPTIONS-000005",
            "000009.log",
            "LOG.old.123",
        ];
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    },
};

/// Runs the fuzz target `names`: parses the name of a database file.
fn names_run(data: &[u8]) {
    let Ok(name) = str::from_utf8(data) else {
        return;
    };
    let Some(kind) = file_name::parse(name) else {
        return;
    };
    assert!(!name.contains('/') && name.is_ascii(), "{kind:?}");
    assert!(
        kind.number()
            .is_none_or(|_| name.bytes().any(|byte| byte.is_ascii_digit()))
    );
}

pub(super) const TOMBSTONES: Target = Target {
    name: "tombstones",
    run: tombstones_run,
    seeds: || vec![join(["\u{5}a", "f", "\u{7}c", "h", "\u{9}b", "b"])],
};

/// Runs the fuzz target `tombstones`: compares fragmented range tombstones with the given ones.
fn tombstones_run(data: &[u8]) {
    let mut ranges = Vec::new();
    for pair in parts(data).chunks_exact(2).take(30) {
        let [start, end] = pair else { continue };
        let Some((&seqno, start)) = start.split_first() else {
            continue;
        };
        ranges.push(RangeTombstone {
            start: start.to_vec(),
            end: end.to_vec(),
            seqno: u64::from(seqno),
        });
    }
    let order = KeyOrder::Bytewise;
    let cut = FragmentedTombstones::new(&order, &ranges);
    assert!(
        cut.fragments()
            .windows(2)
            .all(|pair| pair[0].end <= pair[1].start)
    );
    let ends = ranges.iter().flat_map(|range| [&range.start, &range.end]);
    for key in ends {
        for snapshot in [0, 100, 255, u64::MAX >> 8] {
            let covering = ranges
                .iter()
                .filter(|range| range.start <= *key && *key < range.end && range.seqno <= snapshot);
            let newest = covering.map(|range| range.seqno).max().unwrap_or(0);
            assert_eq!(
                cut.covering_seqno(key, snapshot),
                newest,
                "{key:?} at {snapshot}"
            );
        }
    }
}

pub(super) const OPTIONS: Target = Target {
    name: "options",
    run: options_run,
    seeds: || {
        let files = seeds::golden_files(64 << 10, |name| name.starts_with("OPTIONS-"));
        files.into_iter().map(|(_, bytes)| bytes).take(6).collect()
    },
};

/// Runs the fuzz target `options`: loads an OPTIONS file, strictly and leniently.
fn options_run(data: &[u8]) {
    let env = koeldb::Env::mem_env();
    let fs = MemoryFileSystem::new();
    let env = koeldb::Env::new(
        std::sync::Arc::new(fs.clone()),
        std::sync::Arc::clone(env.clock()),
    );
    let path = std::path::Path::new("/OPTIONS-000005");
    let put = put_file(&fs, path, data);
    put.expect("a file in memory is written");
    let strict = ConfigOptions::new();
    let mut lenient = ConfigOptions::new();
    lenient.set_ignore_unknown_options(true);
    for how in [strict, lenient] {
        match Options::load_file_in(&env, path, &how) {
            Ok(loaded) => assert!(loaded.column_families.len() <= data.len()),
            Err(error) => judge_text(&error),
        }
    }
}

/// Judges an error like [`judge`], and panics if its text has 64 KiB or more.
fn judge_text(error: &Error) {
    judge(error);
    assert!(
        error.to_string().len() < 64 << 10,
        "an error that repeats the file"
    );
}
