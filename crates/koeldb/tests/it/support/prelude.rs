//! The beginnings that most tests share: options, a limit on time, a value as text.

use std::sync::mpsc::channel;
use std::time::Duration;

use koeldb::{Db, Env, Options};

use super::scratch::ScratchDir;

/// Anything that takes longer counts as hanging, even on a machine with other work.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Options that create the database and its column families.
pub(crate) fn creating() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true);
    options
}

/// Options that create the database and its column families in memory.
pub(crate) fn in_memory() -> Options {
    let mut options = creating();
    options.set_env(&Env::mem_env());
    options
}

/// Runs `work` in a thread, and returns its result if it finishes in time.
pub(crate) fn in_time<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, result) = channel();
    std::thread::spawn(move || done.send(work()));
    result
        .recv_timeout(LIMIT)
        .unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// The value of `key` in the default column family, as text.
pub(crate) fn value(db: &Db, key: &str) -> Option<String> {
    let value = db.get(key).unwrap()?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

/// A database without automatic compactions, and three versions of `key` in a table of level 0 each.
pub(crate) fn with_three_tables(options: &mut Options, dir: &ScratchDir) -> Db {
    options.set_disable_auto_compactions(true);
    let db = Db::open(options, dir.path()).unwrap();
    for value in ["1", "2", "3"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    db
}
