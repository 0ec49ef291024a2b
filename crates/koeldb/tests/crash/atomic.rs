//! Atomic flushes: the power is cut at every operation of histories without a log.
//!
//! Each batch writes to some of three column families. An image must be the state after one of the
//! batches, the same one in all families, and not before the last flush of all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use koeldb::fs::{MemoryFileSystem, SurvivalPolicy, SystemClock};
use koeldb::{ColumnFamily, Db, Env, Options, WriteBatch, WriteOptions};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Floors, Random, Summary};

use crate::session::image_env;

const PATH: &str = "/atomic";

/// The entries of the three families.
type State = [BTreeMap<Vec<u8>, Vec<u8>>; 3];

fn open(
    env: &Env,
    is_atomic: bool,
    manifest_bytes: u64,
) -> koeldb::Result<(Db, [ColumnFamily; 2])> {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_atomic_flush(is_atomic)
        .set_write_buffer_size(64 << 10)
        .set_level_zero_file_num_compaction_trigger(3)
        .set_max_manifest_file_size(manifest_bytes)
        .set_max_manifest_space_amp_pct(0)
        .set_env(env);
    Db::open_cf(&options, PATH, ["a", "b"])
}

fn read(db: &Db, others: &[ColumnFamily; 2]) -> koeldb::Result<State> {
    let mut state = State::default();
    for (family, entries) in [db.default_cf(), &others[0], &others[1]]
        .iter()
        .zip(&mut state)
    {
        for entry in family.range(..) {
            let (key, value) = entry?;
            entries.insert(key.to_vec(), value.to_vec());
        }
    }
    Ok(state)
}

/// The states after each batch, and the number of batches that were flushed.
#[derive(Default)]
struct Past {
    states: Vec<State>,
    owed: usize,
}

struct Shot {
    image: MemoryFileSystem,
    owed: usize,
    begun: usize,
    what: String,
}

/// Runs the history of a seed; returns the numbers of moments and images, and the failures.
fn sweep(seed: u64, is_atomic: bool, one_in: u64) -> (u64, u64, Vec<String>) {
    let mut random = Random::new(mix(seed));
    let fs = MemoryFileSystem::new();
    let env = Env::new(Arc::new(fs.clone()), Arc::new(SystemClock));
    let manifest_bytes = match random.chance(1, 3) {
        true => 1,
        false => 1 << 20,
    };
    let (mut db, mut others) = open(&env, is_atomic, manifest_bytes).unwrap();
    let past = Arc::new(Mutex::new(Past {
        states: vec![State::default()],
        owed: 0,
    }));
    let shots = Arc::new(Mutex::new((0_u64, Vec::new())));
    let (seen, taken) = (Arc::clone(&past), Arc::clone(&shots));
    fs.observe_mutations(move |fs, operation| {
        taken.lock().unwrap().0 += 1;
        for (index, policy) in (0_u64..).zip(SurvivalPolicy::ALL) {
            let chosen = mix(seed ^ mix(operation ^ (index << 40)));
            if chosen.is_multiple_of(one_in) {
                let owed = seen.lock().unwrap().owed;
                let image = fs.crash_image(policy, chosen);
                let begun = seen.lock().unwrap().states.len();
                let what = format!("seed {seed}, operation {operation} under {policy:?}");
                taken.lock().unwrap().1.push(Shot {
                    image,
                    owed,
                    begun,
                    what,
                });
            }
        }
    });
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    for at in 0..60_u64 {
        let mut batch = WriteBatch::new();
        let mut next = past.lock().unwrap().states.last().unwrap().clone();
        let families = [
            db.default_cf().clone(),
            others[0].clone(),
            others[1].clone(),
        ];
        for (family, entries) in families.iter().zip(&mut next) {
            if random.chance(1, 2) {
                let key = format!("{}", random.below(6)).into_bytes();
                let mut value = at.to_le_bytes().to_vec();
                value.resize(if random.chance(1, 6) { 12_000 } else { 8 }, 1);
                batch.put_cf(family, &key, &value);
                entries.insert(key, value);
            }
        }
        past.lock().unwrap().states.push(next);
        db.write_opt(&batch, &unlogged).unwrap();
        let written = past.lock().unwrap().states.len() - 1;
        match random.below(24) {
            0 => {
                db.flush().unwrap();
                past.lock().unwrap().owed = written;
            }
            1 => {
                let index = usize::try_from(random.below(3)).unwrap();
                // Flushes all with `atomic_flush`.
                families[index].compact_range(..).unwrap();
                if is_atomic {
                    past.lock().unwrap().owed = written;
                }
            }
            2 => {
                db.close().unwrap();
                past.lock().unwrap().owed = written;
                drop(families);
                (db, others) = open(&env, is_atomic, manifest_bytes).unwrap();
            }
            _ => {}
        }
    }
    drop((db, others));
    fs.observe_mutations(|_, _| ());
    let (moments, shots) = std::mem::take(&mut *shots.lock().unwrap());
    let past = past.lock().unwrap();
    let check = |shot: &Shot| {
        let (db, others) = match open(&image_env(&shot.image), is_atomic, manifest_bytes) {
            Ok(opened) => opened,
            // A crash while the database or its families were being created.
            Err(error) => return Some(format!("{}: {error}", shot.what)),
        };
        let found = match read(&db, &others) {
            Ok(found) => found,
            Err(error) => return Some(format!("{}: {error}", shot.what)),
        };
        let possible = &past.states[shot.owed..shot.begun];
        (!possible.contains(&found)).then(|| {
            let sizes = found.each_ref().map(BTreeMap::len);
            format!(
                "{}: {sizes:?} entries are the state after none of the batches {} to {}",
                shot.what, shot.owed, shot.begun
            )
        })
    };
    let failures = shots.iter().filter_map(check).collect();
    (moments, shots.len() as u64, failures)
}

/// A crash at any operation leaves all families after the same batch.
#[test]
fn a_crash_at_any_operation_leaves_the_families_at_one_batch() {
    let begun = crate::seconds();
    let (histories, one_in) = Floors::chosen().of((4, 30), (60, 10), (1_000, 10));
    let seed = std::env::var("KOELDB_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..histories, |seed: u64| seed..seed + 1);
    let (mut moments, mut images, mut failures) = (0, 0, Vec::new());
    for seed in seeds {
        let (more_moments, more_images, more_failures) = sweep(seed, true, one_in);
        moments += more_moments;
        images += more_images;
        failures.extend(more_failures);
    }
    for failure in failures.iter().take(3) {
        eprintln!("{failure}");
    }
    Summary {
        suite: "atomic-flush-crash",
        seed: crate::seed(),
        figures: vec![("operations", moments), ("images", images)],
        seconds: crate::seconds() - begun,
        failures: failures.len() as u64,
    }
    .finish("images", if seed.is_some() { 1 } else { histories * 20 });
}

/// The sweep finds families that are flushed one by one.
#[test]
fn families_that_are_flushed_apart_are_found_out() {
    let failures: usize = (0..3).map(|seed| sweep(seed, false, 30).2.len()).sum();
    assert!(failures > 0);
}
