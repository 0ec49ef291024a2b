//! A thread that checks idle databases periodically: files expire and reports come due without any
//! event.
//!
//! One thread serves all databases of the process, and ends with the last of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;
use koeldb_fs::Origin;

/// The time between two checks, unless a database asks for an earlier one.
const PERIOD: Duration = match cfg!(test) {
    true => Duration::from_millis(50),
    false => Duration::from_secs(20),
};

/// The shortest time between two checks: the clock of a database may stand still.
const PERIOD_MIN: Duration = Duration::from_millis(20);

/// A database that a process-wide timer thread visits periodically, even if it is idle.
pub(crate) trait Watched: Send + Sync {
    /// Performs the periodic work that is due, such as TTL compactions and statistics dumps.
    ///
    /// Returns the time until the next work is due; `None` if that is unknown.
    fn look(self: Arc<Self>) -> Option<Duration>;
}

/// The databases registered for periodic work, and the state of the timer thread that visits them.
struct Watches {
    /// The process of the databases and of the thread: a forked child has neither.
    origin: Option<Origin>,
    databases: Vec<Weak<dyn Watched>>,
    has_thread: bool,
    /// The time until the next check.
    pause: Duration,
}

static WATCHES: Mutex<Watches> = Mutex::new(Watches {
    origin: None,
    databases: Vec::new(),
    has_thread: false,
    pause: PERIOD,
});

/// Notified when a shorter pause is set.
static SLEEP: Condvar = Condvar::new();

/// Registers `database` for periodic work until it is dropped; the first is due within `pause`.
///
/// If the thread cannot be started, files are checked when something else happens.
pub(crate) fn watch(database: Weak<dyn Watched>, pause: Option<Duration>) {
    let mut watches = lock(&WATCHES);
    if !watches.origin.is_some_and(Origin::is_here) {
        watches.origin = Some(Origin::here());
        watches.databases.clear();
        watches.has_thread = false;
    }
    watches.databases.push(database);
    if !watches.has_thread {
        watches.pause = PERIOD;
        let thread = std::thread::Builder::new().name("koeldb-alarm".to_owned());
        watches.has_thread = thread.spawn(run).is_ok();
    }
    drop(watches);
    look_within(pause);
}

/// Moves the next periodic work of all registered databases forward to at most `pause` from now.
pub(crate) fn look_within(pause: Option<Duration>) {
    let mut watches = lock(&WATCHES);
    if let Some(pause) = pause
        && pause < watches.pause
    {
        watches.pause = pause.max(PERIOD_MIN);
        SLEEP.notify_one();
    }
}

/// Runs the timer thread, which performs periodic work until no registered database is left.
fn run() {
    let mut watches = lock(&WATCHES);
    while !watches.databases.is_empty() {
        let pause = watches.pause;
        let waited = SLEEP.wait_timeout(watches, pause);
        watches = waited.unwrap_or_else(PoisonError::into_inner).0;
        if watches.pause < pause {
            continue;
        }
        watches.pause = PERIOD;
        let databases: Vec<_> = watches.databases.iter().filter_map(Weak::upgrade).collect();
        drop(watches);
        for database in databases {
            // A panic, of a user's logger for example, must not end the checks of other databases.
            let look = AssertUnwindSafe(|| database.look());
            look_within(catch_unwind(look).unwrap_or_default());
        }
        watches = lock(&WATCHES);
        watches
            .databases
            .retain(|database| database.strong_count() > 0);
    }
    watches.has_thread = false;
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
