//! The periodic check of idle databases, whose files expire without any event.
//!
//! One thread serves all databases of the process, and ends with the last of them.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;

use super::Background;

/// The time between two checks.
const PERIOD: Duration = match cfg!(test) {
    true => Duration::from_millis(50),
    false => Duration::from_secs(20),
};

#[derive(Default)]
struct Watched {
    databases: Vec<Weak<Background>>,
    has_thread: bool,
}

static WATCHED: Mutex<Watched> = Mutex::new(Watched {
    databases: Vec::new(),
    has_thread: false,
});

/// A condition variable that is never notified: the thread only waits for time to pass.
static SLEEP: Condvar = Condvar::new();

impl Background {
    /// Registers the database for the periodic check, as long as it is open.
    ///
    /// Without a thread, files are looked at when something else happens.
    pub(crate) fn watch(self: &Arc<Self>) {
        if self.context.env.pool.is_stepped() {
            return;
        }
        let mut watched = lock(&WATCHED);
        watched.databases.push(Arc::downgrade(self));
        if !watched.has_thread {
            let thread = std::thread::Builder::new().name("koeldb-alarm".to_owned());
            watched.has_thread = thread.spawn(look).is_ok();
        }
    }
}

fn look() {
    let mut watched = lock(&WATCHED);
    while !watched.databases.is_empty() {
        let waited = SLEEP.wait_timeout(watched, PERIOD);
        watched = waited.unwrap_or_else(PoisonError::into_inner).0;
        let databases: Vec<_> = watched.databases.iter().filter_map(Weak::upgrade).collect();
        drop(watched);
        for database in databases {
            database.schedule();
        }
        watched = lock(&WATCHED);
        watched
            .databases
            .retain(|database| database.strong_count() > 0);
    }
    watched.has_thread = false;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use koeldb_fs::{Clock, ManualClock, MemoryFileSystem, SystemClock};

    use crate::{Db, Env, Options};

    #[test]
    fn files_of_an_idle_database_expire() {
        let clock = ManualClock::new();
        clock.set_unix_micros(1_700_000_000_000_000);
        let memory = MemoryFileSystem::with_clock(Arc::new(clock.clone()));
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_level_compaction_dynamic_level_bytes(false)
            .set_num_levels(3)
            .set_ttl(Duration::from_secs(3600))
            .set_env(&Env::new(Arc::new(memory), Arc::new(clock.clone())));
        let db = Db::open(&options, "/db").unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        db.wait_for_compact(None).unwrap();
        assert_eq!(db.live_files()[0].level, 0);
        clock.set_unix_micros(1_700_010_000_000_000);
        for _ in 0..1000 {
            if db.live_files()[0].level == 2 {
                return;
            }
            SystemClock.sleep(Duration::from_millis(20));
        }
        panic!("the file is on level {}", db.live_files()[0].level);
    }
}
