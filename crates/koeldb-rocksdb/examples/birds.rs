//! Writes two birds in one batch, reads one, and lists all.

use rocksdb::{DB, IteratorMode, Options, WriteBatch, WriteOptions};

fn main() -> Result<(), rocksdb::Error> {
    let directory = std::env::args().nth(1);
    let mut options = Options::default();
    options.create_if_missing(true);
    let db = DB::open(&options, directory.as_deref().unwrap_or("birds.db"))?;

    let mut batch = WriteBatch::default();
    batch.put("koel", "Eudynamys");
    batch.put("ani", "Crotophaga");
    let mut writing = WriteOptions::default();
    writing.set_sync(true);
    db.write_opt(batch, &writing)?;

    let koel = db.get("koel")?.unwrap_or_default();
    println!("koel: {}", koel.escape_ascii());
    for entry in db.iterator(IteratorMode::Start) {
        let (key, name) = entry?;
        println!("{} = {}", key.escape_ascii(), name.escape_ascii());
    }
    Ok(())
}
