//! Moves money between accounts, in one phase and in two: no crash and no other transaction sees half.

use koeldb::{Db, Options, TransactionDbOptions, TransactionOptions};

fn balance(value: Option<&[u8]>) -> i64 {
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn main() -> koeldb::Result<()> {
    let path = std::env::temp_dir().join(format!("koeldb-accounts-{}", std::process::id()));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_transactions(&TransactionDbOptions::new());
    let db = Db::open(&options, &path)?;
    db.put("alice", "100")?;

    // The body runs again after a deadlock or a timeout.
    db.transact(&TransactionOptions::new(), |transaction| {
        for (account, change) in [("alice", -30), ("bob", 30)] {
            let old = balance(transaction.get_for_update(account)?.as_deref());
            transaction.put(account, (old + change).to_string())?;
        }
        Ok(())
    })?;

    // A coordinator prepares, decides elsewhere, and may crash in between.
    let mut transaction = db.transaction();
    transaction.put("bob", "0")?;
    transaction.prepare("close-bob")?;
    db.close()?;
    drop(db);
    let db = Db::open(&options, &path)?;
    for prepared in db.prepared_transactions() {
        println!("undecided: {}", prepared.name().escape_ascii());
        prepared.rollback()?;
    }

    for entry in db.range(..) {
        let (name, value) = entry?;
        println!("{}: {}", name.escape_ascii(), value.escape_ascii());
    }
    db.close()?;
    Db::destroy(&options, &path)
}
