//! Calls that the standard library's maps have, and atomic updates.

use std::thread;

use koeldb::{Db, PinnedSlice};

fn counter(old: Option<&[u8]>) -> u64 {
    old.and_then(|old| old.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

#[test]
fn ends_of_the_key_space_are_read_and_removed() {
    let db = Db::temporary().unwrap();
    assert!(db.first_key_value().unwrap().is_none() && db.pop_last().unwrap().is_none());
    for key in ["b", "a", "c"] {
        db.put(key, key).unwrap();
    }
    let text = |entry: Option<(PinnedSlice, PinnedSlice)>| {
        let (key, value) = entry.unwrap();
        assert_eq!(key, value);
        String::from_utf8(key.to_vec()).unwrap()
    };
    assert_eq!(text(db.first_key_value().unwrap()), "a");
    assert_eq!(text(db.last_key_value().unwrap()), "c");
    assert_eq!(db.approximate_len().unwrap(), 3);
    assert_eq!(text(db.pop_first().unwrap()), "a");
    assert_eq!(text(db.pop_last().unwrap()), "c");
    assert_eq!(text(db.pop_last().unwrap()), "b");
    assert!(db.pop_first().unwrap().is_none());
}

#[test]
fn concurrent_updates_lose_none() {
    let db = Db::temporary().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let db = db.clone();
            thread::spawn(move || {
                let mut done = 0;
                while done < 50 {
                    let update = |old: Option<&[u8]>| Some((counter(old) + 1).to_le_bytes().into());
                    match db.fetch_update("count", update) {
                        Ok(_) => done += 1,
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(counter(db.get("count").unwrap().as_deref()), 200);
}

#[test]
fn each_entry_is_popped_once() {
    let db = Db::temporary().unwrap();
    for n in 0..100 {
        db.put(format!("{n:03}"), "").unwrap();
    }
    let threads: Vec<_> = (0..3)
        .map(|n| {
            let db = db.clone();
            thread::spawn(move || {
                let mut keys = Vec::new();
                loop {
                    match if n == 0 {
                        db.pop_last()
                    } else {
                        db.pop_first()
                    } {
                        Ok(Some((key, _))) => keys.push(key.to_vec()),
                        Ok(None) => return keys,
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                }
            })
        })
        .collect();
    let mut keys: Vec<_> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    keys.sort();
    let expected: Vec<_> = (0..100).map(|n| format!("{n:03}").into_bytes()).collect();
    assert_eq!(keys, expected);
}

#[test]
fn an_update_may_delete() {
    let db = Db::temporary().unwrap();
    db.put("koel", "Eudynamys").unwrap();
    assert_eq!(
        db.fetch_update("koel", |_| None).unwrap().unwrap(),
        "Eudynamys"
    );
    assert!(db.fetch_update("koel", |_| None).unwrap().is_none());
    assert!(!db.contains_key("koel").unwrap());
}
