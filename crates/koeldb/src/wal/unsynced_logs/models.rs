//! Loom models of a leader that starts logs, and of flushes that sync the closed ones.

use std::sync::Arc;

use koeldb_base::Error;
use koeldb_base::sync::{AtomicUsize, Ordering, explore, spawn};

use super::*;

/// A log whose sync increments a counter, and fails the given number of times.
struct Log {
    durable: Arc<AtomicUsize>,
    failures: usize,
}

impl ClosedLog for Log {
    fn sync(&mut self) -> Result<()> {
        if self.failures > 0 {
            self.failures -= 1;
            return Err(Error::invalid_argument("a sync that fails"));
        }
        self.durable.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

fn model(name: &str, failures: usize) {
    explore(name, move || {
        let unsynced = Arc::new(UnsyncedLogs::default());
        let durable = Arc::new(AtomicUsize::new(0));
        let log = |failures| Log {
            durable: Arc::clone(&durable),
            failures,
        };
        unsynced.add(1, log(failures));
        let flushes = [(); 2].map(|()| {
            let (unsynced, durable) = (Arc::clone(&unsynced), Arc::clone(&durable));
            spawn(move || {
                let synced = unsynced.sync(|| Ok(()));
                // Logs from before its start are durable, whichever thread synced them.
                assert!(synced.is_err() || durable.load(Ordering::Relaxed) >= 1);
                synced.is_err()
            })
        });
        // The leader starts a log, and then syncs a write to it.
        unsynced.add(2, log(0));
        let synced = unsynced.sync(|| Ok(()));
        assert!(synced.is_err() || durable.load(Ordering::Relaxed) >= 2);
        let mut failed = usize::from(synced.is_err());
        for flush in flushes {
            failed += usize::from(flush.join().unwrap());
        }
        assert_eq!(failed, failures);
        assert!(unsynced.sync(|| Ok(())).is_ok());
        assert!(durable.load(Ordering::Relaxed) >= 2);
    });
}

#[test]
fn nobody_goes_ahead_before_the_logs_owed_are_durable() {
    model("logs owed", 0);
}

#[test]
fn logs_whose_sync_failed_stay_owed() {
    model("logs owed, one fails", 1);
}

#[test]
fn logs_given_up_are_given_up_under_nobodys_hands() {
    explore("logs owed and given up", || {
        let unsynced = Arc::new(UnsyncedLogs::default());
        let durable = Arc::new(AtomicUsize::new(0));
        let log = Log {
            durable: Arc::clone(&durable),
            failures: 1,
        };
        unsynced.add(1, log);
        let flush = {
            let unsynced = Arc::clone(&unsynced);
            spawn(move || unsynced.sync(|| Ok(())).is_err())
        };
        unsynced.take_turn().give_up();
        let has_failed = flush.join().unwrap();
        // After a failure or abandonment it is no longer kept: a second sync would have succeeded.
        assert!(unsynced.sync(|| Ok(())).is_ok());
        assert_eq!(durable.load(Ordering::Relaxed), 0, "{has_failed}");
    });
}

/// The log being written, as the leader keeps it.
#[derive(Default)]
struct Current {
    durable: Arc<AtomicUsize>,
    is_given_up: Arc<AtomicUsize>,
}

#[test]
fn a_sync_beside_the_leader_vouches_for_no_log_that_was_given_up() {
    explore("a sync beside a leader that gives up its log", || {
        let unsynced = Arc::new(UnsyncedLogs::default());
        let older = Arc::new(AtomicUsize::new(0));
        let leader = Arc::new(Mutex::new(Current::default()));
        let log = Log {
            durable: Arc::clone(&older),
            failures: 0,
        };
        unsynced.add(1, log);
        let sync = {
            let (unsynced, leader) = (Arc::clone(&unsynced), Arc::clone(&leader));
            let older = Arc::clone(&older);
            spawn(move || {
                let (durable, is_given_up, given_up) = {
                    let current = lock(&leader);
                    let durable = Arc::clone(&current.durable);
                    (
                        durable,
                        Arc::clone(&current.is_given_up),
                        unsynced.given_up(),
                    )
                };
                let turn = unsynced.take_turn();
                if unsynced.given_up() != given_up {
                    return false;
                }
                assert!(turn.sync(|| Ok(())).is_ok());
                assert_eq!(is_given_up.load(Ordering::Relaxed), 0);
                // Logs that were given up before are owed no more.
                assert_eq!(older.load(Ordering::Relaxed) + given_up as usize, 1, "O6");
                durable.store(1, Ordering::Relaxed);
                true
            })
        };
        let given_up = {
            let mut current = lock(&leader);
            let turn = unsynced.take_turn();
            let failed = std::mem::take(&mut *current);
            failed.is_given_up.store(1, Ordering::Relaxed);
            turn.give_up();
            failed.durable.load(Ordering::Relaxed)
        };
        // The leader took the turn before the sync, or after it was done.
        let synced = sync.join().unwrap();
        assert!(synced || given_up == 0);
    });
}

/// A log that decrements a counter of open handles when it is dropped.
struct Handle {
    open: Arc<AtomicUsize>,
    fails: bool,
}

impl ClosedLog for Handle {
    fn sync(&mut self) -> Result<()> {
        match self.fails {
            true => Err(Error::invalid_argument("a sync that fails")),
            false => Ok(()),
        }
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_log_that_has_no_handle_is_closed_for_all_threads() {
    for fails in [false, true] {
        explore("a log that becomes a spare", move || {
            let unsynced = Arc::new(UnsyncedLogs::default());
            let open = Arc::new(AtomicUsize::new(1));
            let log = Handle {
                open: Arc::clone(&open),
                fails,
            };
            unsynced.add(1, log);
            let threads = [true, false].map(|syncs| {
                let unsynced = Arc::clone(&unsynced);
                spawn(move || match syncs {
                    true => drop(unsynced.sync(|| Ok(()))),
                    false => unsynced.close_before(2),
                })
            });
            unsynced.close_before(2);
            if !unsynced.has(1) {
                assert_eq!(open.load(Ordering::Relaxed), 0);
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}
