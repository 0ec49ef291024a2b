//! Keys with user timestamps, in the order of a comparator made of functions.

use std::cmp::Ordering;

use rocksdb::{
    ColumnFamilyDescriptor, DB, ErrorKind, IteratorMode, Options, ReadOptions, SstFileWriter,
    WriteBatch,
};

/// Splits a key into the part without the timestamp and the timestamp.
fn split(key: &[u8]) -> (&[u8], u64) {
    let (key, time) = key.split_last_chunk().unwrap();
    (key, u64::from_le_bytes(*time))
}

fn options() -> Options {
    let compare = |a: &[u8], b: &[u8]| -> Ordering {
        let ((a, a_time), (b, b_time)) = (split(a), split(b));
        a.cmp(b).then(b_time.cmp(&a_time))
    };
    let compare_ts = |a: &[u8], b: &[u8]| -> Ordering {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        number(a).cmp(&number(b))
    };
    let compare_without = |a: &[u8], a_has: bool, b: &[u8], b_has: bool| -> Ordering {
        let a = if a_has { split(a).0 } else { a };
        let b = if b_has { split(b).0 } else { b };
        a.cmp(b)
    };
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_comparator_with_ts(
        "test.ts",
        8,
        Box::new(compare),
        Box::new(compare_ts),
        Box::new(compare_without),
    );
    options
}

fn read_at(time: u64) -> ReadOptions {
    let mut read = ReadOptions::default();
    read.set_timestamp(time.to_le_bytes());
    read
}

#[test]
fn versions_are_read_at_their_timestamps_and_collapsed_below_the_low_mark() {
    let dir = tempfile::tempdir().unwrap();
    let (options, of_default) = (options(), options());
    let default = ColumnFamilyDescriptor::new("default", of_default);
    let db = DB::open_cf_descriptors(&options, dir.path().join("db"), [default]).unwrap();
    let family = db.cf_handle("default").unwrap();
    db.put_with_ts("a", 1_u64.to_le_bytes(), "a1").unwrap();
    db.put_cf_with_ts(&family, "b", 2_u64.to_le_bytes(), "b2")
        .unwrap();
    let mut batch = WriteBatch::default();
    batch.put_cf_with_ts(&family, "a", 5_u64.to_le_bytes(), "a5");
    batch.delete_cf_with_ts(&family, "b", 5_u64.to_le_bytes());
    db.write(batch).unwrap();
    let path = dir.path().join("c.sst");
    let mut writer = SstFileWriter::create(&options);
    writer.open(&path).unwrap();
    writer.put_with_ts("c", 4_u64.to_le_bytes(), "c4").unwrap();
    writer.put_with_ts("c", 3_u64.to_le_bytes(), "c3").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(vec![path]).unwrap();
    for _ in 0..2 {
        let get = |key, time| db.get_opt(key, &read_at(time)).unwrap();
        assert_eq!(get("a", 4).as_deref(), Some(&b"a1"[..]));
        assert_eq!(get("a", 5).as_deref(), Some(&b"a5"[..]));
        assert_eq!(get("b", 4).as_deref(), Some(&b"b2"[..]));
        assert_eq!(get("b", 5), None);
        assert_eq!(get("c", 3).as_deref(), Some(&b"c3"[..]));
        let keys = db.iterator_opt(IteratorMode::Start, read_at(5));
        let keys: Vec<_> = keys.map(|entry| entry.unwrap().0).collect();
        assert_eq!(keys, [Box::from(&b"a"[..]), Box::from(&b"c"[..])]);
        db.flush().unwrap();
    }

    let mut read = read_at(5);
    read.set_iter_start_ts(2_u64.to_le_bytes());
    let mut iterator = db.raw_iterator_opt(read);
    iterator.seek_to_first();
    assert_eq!(iterator.timestamp(), Some(&5_u64.to_le_bytes()[..]));
    assert_eq!(iterator.value(), Some(&b"a5"[..]));
    iterator.next();
    // The internal key of a deletion: key, timestamp, type, sequence number.
    let (key, footer) = iterator.key().unwrap().split_at(9);
    assert_eq!(
        (&key[..1], &key[1..]),
        (&b"b"[..], &5_u64.to_le_bytes()[..])
    );
    assert_eq!(footer[0], 0x14);

    assert_eq!(db.get_full_history_ts_low(&family).unwrap(), b"");
    db.increase_full_history_ts_low(&family, 5_u64.to_le_bytes())
        .unwrap();
    assert_eq!(
        db.get_full_history_ts_low(&family).unwrap(),
        5_u64.to_le_bytes()
    );
    let error = db.get_opt("a", &read_at(4)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
