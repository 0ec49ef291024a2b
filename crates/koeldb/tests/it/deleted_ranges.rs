//! Queues: scans over long runs of deleted keys, whose cost must not grow with their length.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use koeldb::{Db, Options, ReadOptions, Snapshot};
use koeldb_testkit::{Floors, Random, random::mix};

use crate::prelude::in_memory;

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn opened(change: impl FnOnce(&mut Options)) -> Db {
    let mut options = in_memory();
    options.set_merge_operator(koeldb::StringAppend::default());
    change(&mut options);
    Db::open(&options, "/queue").unwrap()
}

/// Read options with which a movement fails if it steps over more entries than `count`.
fn impatient(count: u64) -> ReadOptions {
    let mut read = ReadOptions::new();
    read.set_max_skippable_internal_keys(count);
    read
}

#[test]
fn a_seek_to_the_first_entry_of_a_queue_steps_over_few_deleted_ones() {
    for deletes_ranges in [false, true] {
        let db = opened(|_| ());
        for number in 0..50 {
            db.put(key(number), b"v").unwrap();
        }
        let read = impatient(700);
        for head in 0..3000 {
            let mut cursor = db.cursor_opt(&read);
            assert!(cursor.seek_to_first().unwrap());
            assert_eq!(cursor.key(), Some(&key(head)[..]));
            match deletes_ranges {
                true => db.delete_range(key(head), key(head + 1)).unwrap(),
                false => db.delete(key(head)).unwrap(),
            }
            db.put(key(head + 50), b"v").unwrap();
        }
    }
}

#[test]
fn a_seek_to_the_last_entry_of_a_stack_steps_over_few_deleted_ones() {
    let db = opened(|_| ());
    const TOP: u64 = 10_000;
    let read = impatient(700);
    for number in 0..50 {
        db.put(key(TOP - number), b"v").unwrap();
    }
    for popped in 0..3000 {
        let mut cursor = db.cursor_opt(&read);
        assert!(cursor.seek_to_last().unwrap());
        assert_eq!(cursor.key(), Some(&key(TOP - popped)[..]));
        db.delete(key(TOP - popped)).unwrap();
        db.put(key(TOP - popped - 50), b"v").unwrap();
    }
}

#[test]
fn several_queues_of_a_family_are_passed_separately() {
    let db = opened(|_| ());
    let read = impatient(700);
    let key = |queue: u64, number: u64| format!("{queue}/{number:08}").into_bytes();
    for number in 0..1000 {
        for queue in 0..5 {
            db.put(key(queue, number), b"v").unwrap();
            let mut cursor = db.cursor_opt(&read);
            assert!(cursor.seek(format!("{queue}/")).unwrap());
            assert_eq!(cursor.key(), Some(&key(queue, number)[..]));
            db.delete(key(queue, number)).unwrap();
        }
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Compares scans and seeks, with random bounds, with the model.
fn check(db: &Db, random: &mut Random, snapshot: Option<&Snapshot>, model: &Model) {
    let read = snapshot.map_or_else(ReadOptions::new, ReadOptions::at);
    let mut cursor = db.cursor_opt(&read);
    let mut bounds = [key(0), key(10_000)];
    if random.chance(1, 3) {
        bounds = [key(random.below(1000)), key(1000 + random.below(3000))];
    }
    let [lower, upper] = bounds;
    cursor.set_range(&lower[..]..&upper[..]);
    let expected: Vec<_> = model.range(lower..upper).collect();
    let entry = |entry: &(&Vec<u8>, &Vec<u8>)| (entry.0.clone(), entry.1.clone());
    let mut seen = Vec::new();
    let forward = random.chance(1, 2);
    let mut is_there = match forward {
        true => cursor.seek_to_first().unwrap(),
        false => cursor.seek_to_last().unwrap(),
    };
    while is_there {
        let (key, value) = cursor.entry().unwrap();
        seen.push((key.to_vec(), value.to_vec()));
        is_there = match forward {
            true => cursor.next().unwrap(),
            false => cursor.prev().unwrap(),
        };
    }
    if !forward {
        seen.reverse();
    }
    assert_eq!(seen, expected.iter().map(entry).collect::<Vec<_>>());
    for _ in 0..4 {
        let target = key(random.below(3000));
        let at = expected.partition_point(|(key, _)| **key < target);
        let (found, answer) = match random.chance(1, 2) {
            true => (cursor.seek(&target).unwrap(), expected.get(at)),
            false => {
                let exact = expected.get(at).filter(|(key, _)| **key == target);
                let before = at.checked_sub(1).map(|at| &expected[at]);
                (cursor.seek_for_prev(&target).unwrap(), exact.or(before))
            }
        };
        assert_eq!(found, answer.is_some());
        let seen = cursor.entry().map(|(k, v)| (k.to_vec(), v.to_vec()));
        assert_eq!(seen, answer.map(entry));
    }
}

fn run(seed: u64, steps: u64) {
    let mut random = Random::new(mix(seed));
    let (pipelined, unordered) = (random.chance(1, 3), random.chance(1, 5));
    let db = opened(|options| {
        options
            .set_enable_pipelined_write(pipelined && !unordered)
            .set_unordered_write(unordered)
            .set_write_buffer_size(64 << 10)
            .set_disable_auto_compactions(random.chance(1, 2));
    });
    let mut model = Model::new();
    let mut snapshots: VecDeque<(Snapshot, Model)> = VecDeque::new();
    let (mut head, mut tail) = (1000, 1000);
    for step in 0..steps {
        let value = format!("{step}").into_bytes();
        match random.below(24) {
            // The queue: entries are added behind its end, and deleted from its begin.
            0..8 => {
                for _ in 0..random.below(200) {
                    db.put(key(tail), &value).unwrap();
                    model.insert(key(tail), value.clone());
                    tail += 1;
                }
            }
            8..16 => {
                for _ in 0..random.below(220).min(tail - head) {
                    match random.below(30) {
                        0 => db.delete_range(key(head), key(head + 1)).unwrap(),
                        _ => db.delete(key(head)).unwrap(),
                    }
                    model.remove(&key(head));
                    head += 1;
                    if random.chance(1, 12) {
                        check(&db, &mut random, None, &model);
                    }
                }
            }
            // Entries among the deleted ones.
            16 => {
                let number = random.below(tail + 20);
                match random.chance(1, 3) {
                    true => {
                        db.merge(key(number), &value).unwrap();
                        let merged = model.entry(key(number)).or_default();
                        if !merged.is_empty() {
                            merged.push(b',');
                        }
                        merged.extend_from_slice(&value);
                    }
                    false => {
                        db.put(key(number), &value).unwrap();
                        model.insert(key(number), value);
                    }
                }
            }
            17 => {
                let number = random.below(tail);
                db.delete(key(number)).unwrap();
                model.remove(&key(number));
            }
            18 => snapshots.push_back((db.snapshot(), model.clone())),
            19 => drop(snapshots.pop_front()),
            20 if random.chance(1, 3) => db.flush().unwrap(),
            21 if random.chance(1, 6) => db.compact_range(..).unwrap(),
            _ => {
                check(&db, &mut random, None, &model);
                if let Some((snapshot, then)) = snapshots.front() {
                    check(&db, &mut random, Some(snapshot), then);
                }
            }
        }
        if tail > 3500 {
            (head, tail) = (1000, 1000);
        }
    }
}

#[test]
fn scans_find_what_was_written_among_deleted_keys() {
    let (seeds, steps) = Floors::chosen().of((3, 100), (60, 300), (5000, 1000));
    for seed in 0..seeds {
        println!("seed {seed}");
        run(seed, steps);
    }
}

/// Ends the loops of other threads, also when a check fails.
struct EndOnDrop<'f>(&'f AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_scan_sees_every_write_that_ended_before_it_began() {
    let rounds = Floors::chosen().of(5, 60, 3000);
    for mode in 0..3 {
        let db = opened(|options| {
            options
                .set_enable_pipelined_write(mode == 1)
                .set_unordered_write(mode == 2);
        });
        let is_over = AtomicBool::new(false);
        db.put(b"other", b"v").unwrap();
        std::thread::scope(|scope| {
            // Other writers keep the write queue busy, and other scans propose and confirm.
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        db.put(b"other", b"v").unwrap();
                        let mut cursor = db.cursor();
                        cursor.seek(key(0)).unwrap();
                    }
                });
            }
            let _end = EndOnDrop(&is_over);
            for round in 0..rounds {
                for number in 0..300 {
                    db.put(key(number), b"v").unwrap();
                }
                for number in 0..300 {
                    db.delete(key(number)).unwrap();
                    if number > 150 {
                        let mut cursor = db.cursor();
                        assert!(cursor.seek_to_first().unwrap());
                    }
                }
                let among = key(round * 7 % 300);
                db.put(&among, b"v").unwrap();
                let mut cursor = db.cursor();
                assert!(cursor.seek_to_first().unwrap());
                assert_eq!(cursor.key(), Some(&among[..]));
                db.delete(&among).unwrap();
                if round % 10 == 9 {
                    db.flush().unwrap();
                }
            }
        });
    }
}
