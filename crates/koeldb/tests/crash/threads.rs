//! Several threads write concurrently until the power is cut.
//!
//! The order of commits is not known, but a batch that was acknowledged before another was begun
//! precedes it. So if a batch is present, every batch acknowledged before its begin must be present
//! too.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use koeldb::fs::{MemoryFileSystem, SurvivalPolicy};
use koeldb::{Db, WriteBatch, WriteOptions};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Content, Floors, Random, Summary};

use crate::check;
use crate::script::Script;
use crate::scripts::{SCRIPTS, WRITE_MODES};
use crate::session::{PATH, open, options};

const THREADS: u64 = 4;
const BATCHES: usize = 60;
const NEVER: u64 = u64::MAX;

/// The begin and the acknowledgement of a batch, on a clock that counts events.
struct Times {
    begun: AtomicU64,
    acknowledged: AtomicU64,
    synced: bool,
}

struct Run {
    clock: AtomicU64,
    /// The batches by thread and number.
    batches: Vec<Vec<Times>>,
}

/// A crash image, and the number of guaranteed batches of each thread.
struct Image {
    files: MemoryFileSystem,
    policy: SurvivalPolicy,
    operation: u64,
    owed: Vec<usize>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut batch = || Times {
            begun: AtomicU64::new(NEVER),
            acknowledged: AtomicU64::new(NEVER),
            synced: random.chance(1, 8),
        };
        let threads = (0..THREADS).map(|_| (0..BATCHES).map(|_| batch()).collect());
        Run {
            clock: AtomicU64::new(0),
            batches: threads.collect(),
        }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Returns the number of batches of each thread that must survive now.
    fn owed(&self, policy: SurvivalPolicy) -> Vec<usize> {
        let is_owed = |times: &Times| {
            let is_durable = times.synced || policy == SurvivalPolicy::Generous;
            is_durable && times.acknowledged.load(Ordering::SeqCst) != NEVER
        };
        let owed = |thread: &Vec<Times>| thread.iter().rposition(is_owed).map_or(0, |n| n + 1);
        self.batches.iter().map(owed).collect()
    }

    /// Writes the batches of a thread to both column families: one key each, of thread and number.
    fn write(&self, db: &Db, thread: usize) {
        let family = db.cf_handle("a").unwrap();
        for (number, times) in self.batches[thread].iter().enumerate() {
            let key = format!("{thread} {number:03}");
            let value = vec![b'v'; usize::try_from(mix(number as u64) % 1500).unwrap()];
            let mut batch = WriteBatch::new();
            batch.put(&key, &value).put_cf(&family, &key, &value);
            let mut options = WriteOptions::new();
            options.set_sync(times.synced);
            times.begun.store(self.tick(), Ordering::SeqCst);
            db.write_opt(&batch, &options).unwrap();
            times.acknowledged.store(self.tick(), Ordering::SeqCst);
        }
    }

    fn judge(&self, content: &Content, owed: &[usize]) -> Result<(), String> {
        let default = &content["default"];
        if content.get("a").is_some_and(|other| other != default) {
            return Err("families differ".to_owned());
        }
        let mut there = Vec::new();
        for (thread, &owed) in owed.iter().enumerate() {
            let is_there = |n: &usize| default.contains_key(format!("{thread} {n:03}").as_bytes());
            let count = (0..BATCHES).filter(is_there).count();
            if !(0..count).all(|n| is_there(&n)) {
                return Err(format!("a hole in what thread {thread} wrote"));
            }
            if count < owed {
                return Err(format!(
                    "thread {thread}: {count} batches of {owed} that are owed"
                ));
            }
            there.push(count);
        }
        let last_begun = self
            .batches
            .iter()
            .zip(&there)
            .filter_map(|(batches, &count)| {
                let last = batches.get(count.checked_sub(1)?)?;
                Some(last.begun.load(Ordering::SeqCst))
            });
        let last_begun = last_begun.max().unwrap_or(0);
        for (thread, (batches, &count)) in self.batches.iter().zip(&there).enumerate() {
            let missing = batches.get(count);
            let acknowledged =
                missing.map_or(NEVER, |times| times.acknowledged.load(Ordering::SeqCst));
            if acknowledged < last_begun {
                return Err(format!(
                    "batch {count} of thread {thread} is missing and a batch begun after it was acknowledged is there"
                ));
            }
        }
        Ok(())
    }
}

fn take_images(script: &Script, run: &Arc<Run>, seed: u64, one_in: u64) -> Vec<Image> {
    let fs = MemoryFileSystem::new();
    let db = open(&options(script, Arc::new(fs.clone())), Path::new(PATH)).unwrap();
    db.create_cf("a", &db.default_cf().options()).unwrap();
    let images: Arc<Mutex<Vec<Image>>> = Arc::default();
    let (taken, observed) = (Arc::clone(&images), Arc::clone(run));
    fs.observe_mutations(move |fs, operation| {
        for (index, policy) in (0_u64..).zip(SurvivalPolicy::ALL) {
            let seed = mix(seed ^ mix(operation ^ (index << 40)));
            if seed.is_multiple_of(one_in) {
                let owed = observed.owed(policy);
                let files = fs.crash_image(policy, seed);
                let image = Image {
                    files,
                    policy,
                    operation,
                    owed,
                };
                taken
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(image);
            }
        }
    });
    std::thread::scope(|scope| {
        for thread in 0..run.batches.len() {
            let db = &db;
            scope.spawn(move || run.write(db, thread));
        }
    });
    fs.observe_mutations(|_, _| ());
    db.close().unwrap();
    std::mem::take(&mut *images.lock().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn writers_at_once_leave_no_holes() {
    let seed = crate::seed();
    let begun = crate::seconds();
    let (rounds, one_in) = Floors::chosen().of((3, 20), (9, 10), (60, 4));
    let (mut count, mut failures) = (0, 0);
    for (round, (mode, set)) in (0..rounds).zip(WRITE_MODES.into_iter().cycle()) {
        let script = &Script {
            name: mode,
            options: set,
            ..*SCRIPTS.first().unwrap()
        };
        let run = Arc::new(Run::new(mix(seed ^ round)));
        for image in take_images(script, &run, mix(seed ^ round), one_in) {
            count += 1;
            let opened = open(
                &options(script, Arc::new(image.files.clone())),
                Path::new(PATH),
            );
            let judged = match &opened {
                Ok(db) => check::content(db).and_then(|found| run.judge(&found, &image.owed)),
                Err(error) => Err(error.to_string()),
            };
            if let Err(text) = judged {
                failures += 1;
                eprintln!(
                    "round {round}, writes {mode}, with KOELDB_SEED={seed}, crash before operation {} under {:?}: {text}",
                    image.operation, image.policy
                );
            }
        }
    }
    Summary {
        suite: "threads",
        seed,
        figures: vec![("images", count)],
        seconds: crate::seconds() - begun,
        failures,
    }
    .finish("images", 200);
}
