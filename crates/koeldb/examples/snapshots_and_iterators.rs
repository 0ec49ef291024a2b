//! A state that later writes do not change, read by prefix, by cursor and from another thread:
//! `cargo run --example snapshots_and_iterators`.

use koeldb::{Db, Options, PrefixRange, ReadOptions, Result};

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("koeldb-snapshots-{}", std::process::id()));
    let db = Db::open(Options::new().create_if_missing(true), &path)?;
    for id in 0..1000 {
        db.put(format!("event:{id:06}"), "ok")?;
    }
    let snapshot = db.snapshot();
    db.put("event:000999", "changed after the snapshot")?;
    db.put("event:001000", "written after the snapshot")?;

    // Newest first, as of the snapshot.
    for entry in snapshot.prefix("event:").rev().take(3) {
        let (key, value) = entry?;
        println!("{} {}", key.escape_ascii(), value.escape_ascii());
        assert_eq!(&*value, b"ok");
    }

    // A cursor lends its entry: nothing is owned or counted per entry.
    let mut cursor = db.cursor_opt(ReadOptions::at(&snapshot).fill_cache(false));
    cursor.set_range(PrefixRange("event:"));
    let mut bytes = 0;
    cursor.seek("event:000100")?;
    while let Some((key, value)) = cursor.entry() {
        bytes += key.len() + value.len();
        cursor.next()?;
    }
    println!("{bytes} bytes from event 100 on");
    assert_eq!(bytes, 900 * ("event:000000".len() + "ok".len()));

    // Iterators are owned and may go to other threads; they outlive the handles they came from.
    let scan = snapshot.prefix("event:0009");
    drop((db, snapshot, cursor));
    let keys =
        std::thread::spawn(move || scan.map(|entry| Ok(entry?.0)).collect::<Result<Vec<_>>>());
    assert_eq!(keys.join().expect("the thread does not panic")?.len(), 100);
    Db::destroy(&Options::new(), &path)
}
