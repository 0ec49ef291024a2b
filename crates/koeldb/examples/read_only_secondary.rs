//! A read-only secondary: queries that do not burden the process that writes.
//!
//! `cargo run --example read_only_secondary`

use koeldb::{Db, Options, Result};

fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("koeldb-secondary-{}", std::process::id()));
    let mut options = Options::new();
    options.create_if_missing(true);
    // Usually in another process, and as well one of RocksDB.
    let primary = Db::open(&options, directory.join("db"))?;
    primary.put("finch", "Fringilla")?;

    let secondary =
        Db::open_as_secondary(&options, directory.join("db"), directory.join("secondary"))?;
    for round in 0..3 {
        primary.put(format!("sighting {round}"), "koel")?;
        primary.flush()?;
        // Until here, the secondary shows its earlier view, even if its tables were removed.
        let report = secondary.try_catch_up_with_primary()?;
        println!(
            "{} entries at sequence number {}",
            secondary.range(..).count(),
            report.sequence_number
        );
    }
    assert_eq!(secondary.range(..).count(), primary.range(..).count());
    // The view itself can be copied without the primary.
    secondary.create_checkpoint(directory.join("copy"))?;
    drop((primary, secondary));
    let _ = std::fs::remove_dir_all(&directory);
    Ok(())
}
