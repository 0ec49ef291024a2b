//! Rest: a database without writes for some seconds compacts level 0 below its trigger.
//!
//! Reads find fewer runs then.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb_base::SeqNo;
use koeldb_base::sync::lock_plain as lock;

use crate::background::Background;

/// The time without writes after which a database is at rest.
const BEGIN: Duration = Duration::from_secs(5);
/// The time between two checks of a database that is not at rest.
const LOOKS: Duration = Duration::from_secs(1);

/// The detector of a database at rest (without writes), whose level 0 is then compacted.
#[derive(Debug, Default)]
pub(crate) struct Rest(Mutex<Pause>);

/// The period without writes and flushes that was observed so far.
#[derive(Debug, Default)]
struct Pause {
    /// The last sequence number and number of level-0 files, and the time when first seen.
    last: Option<((SeqNo, usize), Duration)>,
    /// Whether the pause was long enough for a rest, which has begun.
    is_rest: bool,
}

impl Rest {
    /// Returns `true` once when `state` (last seqno, level-0 files) was unchanged for 5 seconds.
    fn begins(&self, state: (SeqNo, usize), now: Duration) -> bool {
        let mut pause = lock(&self.0);
        let since = match pause.last {
            Some((seen, since)) if seen == state => since,
            _ => {
                *pause = Pause::default();
                pause.last = Some((state, now));
                now
            }
        };
        let is_rest = now.saturating_sub(since) >= BEGIN;
        is_rest && !std::mem::replace(&mut pause.is_rest, is_rest)
    }

    /// Returns the time until the next check for an idle period; `None` during one.
    pub(crate) fn until_next_check(&self) -> Option<Duration> {
        (!lock(&self.0).is_rest).then_some(LOOKS)
    }

    /// Checks whether the database has become idle, and then schedules compactions of level 0.
    pub(crate) fn look(&self, jobs: &Arc<Background>, seqno: SeqNo, now: Duration) {
        if self.begins((seqno, jobs.level0_files()), now) {
            jobs.compact_at_rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use koeldb_fs::{Clock, ManualClock, MemoryFileSystem, SystemClock};

    use super::*;
    use crate::{ColumnFamilyOptions, Db, Env, Options};

    #[test]
    fn level_0_is_compacted_at_rest_and_its_runs_stay_where_compactions_are_off() {
        let clock = ManualClock::new();
        let memory = MemoryFileSystem::with_clock(Arc::new(clock.clone()));
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_env(&Env::new(Arc::new(memory), Arc::new(clock.clone())));
        let db = Db::open(&options, "/db").unwrap();
        let mut off = ColumnFamilyOptions::new();
        off.set_disable_auto_compactions(true);
        let manual = db.create_cf("manual", &off).unwrap();
        for value in ["first", "second"] {
            for family in [db.default_cf(), &manual] {
                family.put("key", value).unwrap();
                family.flush().unwrap();
            }
        }
        let runs = |family: &crate::ColumnFamily| {
            let name = "rocksdb.num-files-at-level0";
            family.property_int_value(name).unwrap()
        };
        assert_eq!(runs(db.default_cf()), Some(2));
        for _ in 0..1000 {
            if runs(db.default_cf()) == Some(0) {
                break;
            }
            clock.advance(Duration::from_secs(1));
            SystemClock.sleep(Duration::from_millis(20));
        }
        assert_eq!((runs(db.default_cf()), runs(&manual)), (Some(0), Some(2)));
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"second"[..]));
    }

    #[test]
    fn a_rest_begins_once_after_some_seconds_without_writes() {
        let rest = Rest::default();
        let begins = |seqno, secs| rest.begins((seqno, 0), Duration::from_secs(secs));
        assert!(!begins(7, 10) && !begins(7, 14));
        assert!(rest.until_next_check().is_some());
        assert!(begins(7, 15));
        assert!(!begins(7, 16) && !begins(7, 100) && rest.until_next_check().is_none());
        // A write ends it.
        assert!(!begins(8, 101) && !begins(9, 106) && rest.until_next_check().is_some());
        assert!(begins(9, 111));
        // So does a flush.
        assert!(!rest.begins((9, 1), Duration::from_secs(112)));
    }
}
