//! A change feed: a replica that begins with a checkpoint and follows the log from there.
//!
//! `cargo run --example change_feed`

use koeldb::{Db, ErrorKind, Options, Result};

fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("koeldb-change-feed-{}", std::process::id()));
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open(&options, directory.join("db"))?;
    db.put("finch", "Fringilla")?;

    let report = db.create_checkpoint(directory.join("replica"))?;
    let replica = Db::open(&options, directory.join("replica"))?;
    // From here on, the logs that the feed needs are kept.
    let mut feed = db.get_updates_since(report.sequence_number + 1)?;

    for round in 0..3 {
        db.put(format!("sighting {round}"), "koel")?;
        db.flush()?;
        // `None` means that the replica has everything; the same iterator goes on later.
        for update in feed.by_ref() {
            match update {
                Ok(update) => replica.write(&update.batch)?,
                // Ingested files and writes without the log are in no log.
                Err(gap) if gap.kind() == ErrorKind::Incomplete => println!("{gap}"),
                Err(error) => return Err(error),
            }
        }
        println!("the replica has {} entries", replica.range(..).count());
    }
    assert_eq!(replica.range(..).count(), db.range(..).count());
    drop((db, replica, feed));
    remove(&directory);
    Ok(())
}

fn remove(directory: &std::path::Path) {
    let _ = std::fs::remove_dir_all(directory);
}
