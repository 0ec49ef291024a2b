//! Futures and streams with Tokio: `cargo run --example tokio`. Any other executor will do.

use std::error::Error;
use std::time::Duration;

use koeldb::{Db, Options};
use tokio::time::timeout;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()?;
    runtime.block_on(run())
}

fn key(id: u32) -> String {
    format!("bird {id:05}")
}

async fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    let path = std::env::temp_dir().join(format!("koeldb-tokio-{}", std::process::id()));
    let db = Db::open(Options::new().create_if_missing(true), &path)?;
    for id in 0..10_000 {
        db.put(key(id), "value")?;
    }
    db.flush()?;

    // A task owns its handle.
    let handle = db.clone();
    let task = tokio::spawn(async move { handle.get_async(key(42)).await });
    let value = task.await??.expect("the key was written");
    println!("get: {} = {}", key(42), value.escape_ascii());

    // Blocks that are not cached are read from devices concurrently.
    let keys: Vec<_> = (9_990..10_010).map(key).collect();
    let values = db.multi_get_async(&keys).await;
    let found = values.iter().flatten().flatten().count();
    println!("multi-get: {found} of {} keys exist", keys.len());
    assert_eq!(found, 10);

    // A stream may be dropped at any moment: here, when it takes too long.
    let mut stream = db.range(..).into_stream();
    let mut count = 0;
    while let Some(entry) = timeout(Duration::from_secs(10), stream.next()).await? {
        entry?;
        count += 1;
    }
    println!("stream: {count} entries");
    assert_eq!(count, 10_000);
    drop(stream);

    db.close()?;
    Ok(Db::destroy(&Options::new(), &path)?)
}
