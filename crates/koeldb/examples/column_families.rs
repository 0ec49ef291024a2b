//! An atomic batch over several column families: `cargo run --example column_families`.

use std::path::Path;

use koeldb::{ColumnFamily, Db, Options, Result, WriteBatch, WriteOptions, WriteOutcome};

struct Accounts {
    db: Db,
    by_id: ColumnFamily,
    by_email: ColumnFamily,
}

impl Accounts {
    fn open(path: &Path) -> Result<Self> {
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .create_missing_column_families(true);
        let (db, [by_id, by_email]) = Db::open_cf(&options, path, ["accounts", "by_email"])?;
        Ok(Accounts {
            db,
            by_id,
            by_email,
        })
    }

    /// Writes to both column families atomically and durably.
    fn add(&self, id: u64, email: &str, record: &str) -> Result<()> {
        // Big-endian, so that keys sort like the numbers.
        let key = format!("{id:016x}");
        let mut batch = WriteBatch::new();
        batch
            .put_cf(&self.by_id, &key, record)
            .put_cf(&self.by_email, email, &key);
        let written = self
            .db
            .write_opt(&batch, WriteOptions::new().set_sync(true));
        written.inspect_err(|error| match error.write_outcome() {
            Some(WriteOutcome::NotApplied) => {
                eprintln!("nothing was written, trying again is safe: {error}")
            }
            _ => eprintln!("written wholly or not at all, the next open will tell: {error}"),
        })
    }

    fn find(&self, email: &str) -> Result<Option<Vec<u8>>> {
        let Some(id) = self.by_email.get(email)? else {
            return Ok(None);
        };
        Ok(self.by_id.get(id)?.map(Into::into))
    }
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("koeldb-column-families-{}", std::process::id()));
    let accounts = Accounts::open(&path)?;
    accounts.add(7, "ada@example.org", "Ada")?;
    accounts.add(8, "grace@example.org", "Grace")?;
    drop(accounts);

    // The data is durable after the last handle is dropped.
    let accounts = Accounts::open(&path)?;
    assert_eq!(
        accounts.find("ada@example.org")?.as_deref(),
        Some(&b"Ada"[..])
    );
    assert_eq!(accounts.find("nobody@example.org")?, None);
    for entry in accounts.by_email.iterator(koeldb::IteratorMode::End) {
        let (email, id) = entry?;
        println!("{} has id {}", email.escape_ascii(), id.escape_ascii());
    }
    drop(accounts);
    Db::destroy(&Options::new(), &path)
}
