//! Several writers as one group: each gets numbers of its own, the sync it asked for, and its turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use koeldb::fs::layer::Layered;
use koeldb::fs::{Clock, FaultAction, FaultRule, Operation, Purpose, SurvivalPolicy, SystemClock};
use koeldb::statistics::{Statistics, Ticker};
use koeldb::{BoxError, ConfigOptions, Db, MergeOperands, MergeOperator, Options, WriteOptions};

use koeldb_testkit::Turns;
use koeldb_testkit::turns::Body;

use crate::gate::gate;
use crate::storage::{HERE, Storage, over};

const WRITERS: usize = 6;
/// The number of attempts to form a group; each waits longer for its members.
const ATTEMPTS: u64 = 20;

/// Calls `write` with all numbers below [`WRITERS`] at once, behind a write that is being logged.
///
/// Returns the number of members that a group got besides its leader.
fn write_together(storage: &Storage, db: &Db, attempt: u64, write: impl Fn(usize) + Sync) -> u64 {
    let in_groups = || db.statistics().unwrap().ticker(Ticker::WriteDoneByOther);
    let before = in_groups();
    let (at_log, stands_there, open) = gate();
    let hold = FaultRule::new(FaultAction::Call(Arc::new(move |_| at_log.pass())));
    let hold = hold.on(&[Operation::Append]).purpose(Purpose::Wal);
    storage.faults.add_rule(hold.limit(1));
    let begun = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| db.put("first", "value").unwrap());
        stands_there.recv().unwrap();
        for number in 0..WRITERS {
            let (begun, write) = (&begun, &write);
            scope.spawn(move || {
                begun.fetch_add(1, Ordering::Release);
                write(number);
            });
        }
        while begun.load(Ordering::Acquire) < WRITERS {
            std::thread::yield_now();
        }
        // A thread that is late is no member; the next attempt waits longer.
        SystemClock.sleep(Duration::from_millis(5 * attempt));
        open.send(()).unwrap();
    });
    in_groups() - before
}

fn options(storage: &Storage, text: &str) -> Options {
    let mut options = storage.options();
    options.set_statistics(Statistics::new());
    options.apply_str(text, &ConfigOptions::new()).unwrap();
    options
}

const MODES: [&str; 2] = ["", "enable_pipelined_write=true;"];

/// Repeats `attempt` until at least half of the writers are members of one group.
fn until_grouped(mut attempt: impl FnMut(u64) -> u64) {
    let members = (1..=ATTEMPTS).map(&mut attempt);
    let is_grouped = { members }.any(|members| members >= WRITERS as u64 / 2);
    assert!(is_grouped, "no group is formed");
}

#[test]
fn members_have_numbers_of_their_own() {
    for mode in MODES {
        let storage = Storage::new();
        let db = Db::open(&options(&storage, mode), HERE).unwrap();
        until_grouped(|attempt| {
            let before = db.latest_sequence_number();
            // Two entries of one key and number would be refused.
            let members = write_together(&storage, &db, attempt, |number| {
                db.put("same", format!("{number}")).unwrap();
            });
            let written = 1 + WRITERS as u64;
            assert_eq!(db.latest_sequence_number(), before + written);
            members
        });
    }
}

#[test]
fn a_group_is_synced_if_one_of_its_members_asked_for_it() {
    let storage = Storage::new();
    let db = Db::open(&options(&storage, ""), HERE).unwrap();
    // Any of them may lead.
    for syncing in 0..WRITERS {
        until_grouped(|attempt| {
            let key = |number: usize| format!("{syncing} {attempt} {number}");
            let members = write_together(&storage, &db, attempt, |number| {
                let mut options = WriteOptions::new();
                options.set_sync(number == syncing);
                db.put_opt(key(number), "value", &options).unwrap();
            });
            let left = storage.memory.crash_image(SurvivalPolicy::Strict, 0);
            let left = Db::open(&over(Arc::new(left)), HERE).unwrap();
            assert!(left.contains_key(key(syncing)).unwrap());
            members
        });
    }
}

/// Joins operands, and counts the threads that do so at once.
struct Counting {
    /// Called by each of them, so that others get the chance that they must not take.
    pause: Box<dyn Fn() + Send + Sync>,
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Counting {
    fn new(pause: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Counting {
            pause: Box::new(pause),
            inside: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }
}

impl MergeOperator for Counting {
    fn name(&self) -> &'static str {
        "Counting"
    }

    fn full_merge(
        &self,
        _: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let inside = 1 + self.inside.fetch_add(1, Ordering::AcqRel);
        self.most.fetch_max(inside, Ordering::AcqRel);
        (self.pause)();
        self.inside.fetch_sub(1, Ordering::AcqRel);
        for part in existing.into_iter().chain(operands) {
            result.extend_from_slice(part);
        }
        Ok(())
    }
}

#[test]
fn members_fold_operands_one_after_the_other() {
    for mode in MODES {
        let storage = Storage::new();
        let counting = Counting::new(|| SystemClock.sleep(Duration::from_millis(1)));
        let mut options = options(&storage, &format!("{mode}max_successive_merges=1"));
        options.set_merge_operator(Arc::clone(&counting));
        let db = Db::open(&options, HERE).unwrap();
        db.merge("list", "0").unwrap();
        until_grouped(|attempt| {
            // Enough operations for members that insert their own.
            write_together(&storage, &db, attempt, |number| {
                let mut batch = koeldb::WriteBatch::new();
                for _ in 0..4 {
                    batch.merge("list", format!("{number}"));
                }
                db.write(&batch).unwrap();
            })
        });
        assert_eq!(counting.most.load(Ordering::Acquire), 1, "{mode}");
    }
}

#[test]
fn groups_fold_operands_one_after_the_other() {
    for (seed, mode) in (0..10).zip(MODES.into_iter().cycle()) {
        let turns = Turns::new(seed, WRITERS, 2, 0, 100_000);
        let switching = turns.clone();
        let counting = Counting::new(move || switching.point());
        let storage = Storage::new();
        let fs = Layered::with_layer(Arc::new(storage.memory), turns.clone());
        let mut options = over(Arc::new(fs));
        let text = format!("{mode}max_successive_merges=1");
        options.apply_str(&text, &ConfigOptions::new()).unwrap();
        options.set_merge_operator(Arc::clone(&counting));
        let db = Db::open(&options, HERE).unwrap();
        let writer = |number| -> Body {
            let db = db.clone();
            Box::new(move || (0..20).for_each(|_| db.merge("list", format!("{number}")).unwrap()))
        };
        turns.run((0..WRITERS).map(writer).collect()).unwrap();
        assert_eq!(counting.most.load(Ordering::Acquire), 1, "{mode}");
        let list = db.get("list").unwrap().unwrap();
        assert_eq!(list.len(), 20 * WRITERS);
    }
}
