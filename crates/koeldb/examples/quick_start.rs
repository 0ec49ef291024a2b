//! Open, put, get, scan, delete, close: `cargo run --example quick_start`.

use koeldb::{Db, Options, Result};

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("koeldb-quick-start-{}", std::process::id()));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .optimize_for_point_lookup(64); // filters, 64 MB of cache
    let db = Db::open(&options, &path)?;
    db.put("koel", "Eudynamys scolopaceus")?;
    db.put("cuckoo", "Cuculus canorus")?;
    db.put("ani", "Crotophaga ani")?;

    // A missing key is `None`; a value is borrowed, not copied.
    assert_eq!(
        db.get("koel")?.as_deref(),
        Some(&b"Eudynamys scolopaceus"[..])
    );
    assert!(db.get("dodo")?.is_none());

    // A range is a standard iterator, from both ends; each step may fail.
    for entry in db.range("a".."d") {
        let (key, value) = entry?;
        println!("{} = {}", key.escape_ascii(), value.escape_ascii());
    }

    // A multi-get returns the results in the order of the keys.
    let answers = db.multi_get(&["ani", "dodo", "koel"]);
    let found = answers
        .iter()
        .filter(|answer| matches!(answer, Ok(Some(_))))
        .count();
    assert_eq!(found, 2);

    db.delete("koel")?;
    assert!(!db.contains_key("koel")?);
    db.close()?;
    Db::destroy(&Options::new(), &path)
}
