//! User-defined timestamps, whose size is eight bytes.

use koeldb::Timestamp;

use crate::boundary::Failure;

/// Returns the timestamp in the bytes of C.
pub(crate) fn of(bytes: &[u8]) -> Result<Timestamp, Failure> {
    let timestamp = bytes.try_into();
    timestamp.map_err(|_| {
        Failure::argument(format!(
            "a timestamp of {} bytes: it has 8 bytes",
            bytes.len()
        ))
    })
}

#[cfg(test)]
mod tests {
    use koeldb::{BytewiseComparatorWithU64Ts, Db, Env, Options, ReadOptions, WriteOptions};

    use crate::data::{iterator::Cursor, read, write};

    fn time(time: u64) -> [u8; 8] {
        time.to_le_bytes()
    }

    #[test]
    fn values_have_the_times_they_were_written_at() {
        let mut options = Options::new();
        options.create_if_missing(true).set_env(&Env::mem_env());
        options.set_comparator(BytewiseComparatorWithU64Ts);
        let db = Db::open(&options, "/db").unwrap();
        let writing = WriteOptions::new();
        write::put_with_ts(&db, &writing, b"k", &time(3), b"three").unwrap();
        write::put_with_ts(&db, &writing, b"k", &time(5), b"five").unwrap();
        write::delete_with_ts(&db, &writing, b"k", &time(7)).unwrap();
        assert!(write::put_with_ts(&db, &writing, b"k", b"short", b"").is_err());
        let at = |now: u64| {
            let mut reading = ReadOptions::new();
            reading.set_timestamp(time(now));
            let found = read::dated(db.default_cf(), &reading, b"k").unwrap();
            found.map(|(value, time)| (value.to_vec(), time))
        };
        assert_eq!(at(2), None);
        assert_eq!(at(4), Some((b"three".to_vec(), Some(time(3)))));
        assert_eq!(at(6), Some((b"five".to_vec(), Some(time(5)))));
        assert_eq!(at(9), None);

        let mut reading = ReadOptions::new();
        reading.set_timestamp(time(6));
        let mut cursor = Cursor::new(db.default_cf(), &reading);
        cursor.seek(b"k");
        assert_eq!(
            (cursor.key(), cursor.timestamp()),
            (Some(&b"k"[..]), Some(&time(5)[..]))
        );
        reading.set_iter_start_ts(time(0));
        let mut cursor = Cursor::new(db.default_cf(), &reading);
        cursor.seek_to_first();
        let key = cursor.key().unwrap();
        assert_eq!(key.len(), 1 + 8 + 8);
        assert_eq!(key[1..9], time(5));
        cursor.next();
        assert_eq!(cursor.key().unwrap()[1..9], time(3));
        assert_eq!(cursor.timestamp(), Some(&time(3)[..]));
        cursor.next();
        assert!(!cursor.valid() && cursor.status().is_ok());
    }
}
