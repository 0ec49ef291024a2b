//! Runs every fuzz target over its seeds and mutations of them.

use koeldb_damage::{TARGETS, Target, mutate};
use koeldb_testkit::{Floors, Random, Summary};

use crate::watch::watched;

/// The number of cases of a target: a minimum per seed and in total.
fn rounds(target: &Target, seeds: usize) -> u64 {
    // A directory costs as much as hundreds of other inputs.
    let all = match target.name {
        "directory" => 150,
        "log_round_trip" => 200,
        "table" | "sealed_table" => 800,
        "manifest" | "options" | "merging" | "log_reader" | "codec" => 1_200,
        _ => 4_000,
    };
    let all = all * Floors::chosen().of(1, 100, 1_000);
    all.max(seeds as u64)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn run(target: &Target, data: &[u8], why: &str) {
    let what = || format!("{} of {why}: {}", target.name, hex(data));
    watched(data.len(), &what, || (target.run)(data));
}

fn smoke(target: &Target) -> u64 {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    for seed in &seeds {
        run(target, seed, "a seed");
    }
    for nothing in [&[][..], &[0], &[0xff; 64]] {
        run(target, nothing, "nothing much");
    }
    let rounds = rounds(target, seeds.len());
    for round in 0..rounds {
        let mut random = Random::new(crate::seed().wrapping_mul(1_000_003).wrapping_add(round));
        let choose = |random: &mut Random| {
            &seeds[usize::try_from(random.below(seeds.len() as u64)).unwrap()]
        };
        let mut data = choose(&mut random).clone();
        let other = choose(&mut random);
        for _ in 0..=random.below(3) {
            mutate::anyhow(&mut random, &mut data, other);
        }
        run(target, &data, &format!("round {round}"));
    }
    seeds.len() as u64 + rounds
}

/// Runs targets in one test each, so that they run concurrently and a failure has a name.
fn suite(name: &'static str, targets: &[&str]) {
    let begun = crate::seconds();
    let mut runs = 0;
    for target in TARGETS
        .iter()
        .filter(|target| targets.contains(&target.name))
    {
        runs += smoke(target);
    }
    Summary {
        suite: name,
        seed: crate::seed(),
        figures: vec![("targets", targets.len() as u64), ("runs", runs)],
        seconds: crate::seconds() - begun,
        failures: 0,
    }
    .finish("runs", 100);
}

const SMALL: [&str; 6] = ["coding", "key", "entity", "names", "tombstones", "options"];
const LOGS: [&str; 5] = ["batch", "log_reader", "log_round_trip", "edit", "manifest"];
const BLOCKS: [&str; 7] = [
    "footer", "metadata", "block", "index", "codec", "filter", "merging",
];
const TABLES: [&str; 2] = ["table", "sealed_table"];
const BLOBS: [&str; 2] = ["blob_parts", "blob_file"];
const DIRECTORIES: [&str; 1] = ["directory"];

#[test]
fn numbers_keys_names_and_options_are_decoded_or_refused() {
    suite("fuzz-small", &SMALL);
}

#[test]
fn logs_and_edits_are_decoded_or_refused() {
    suite("fuzz-logs", &LOGS);
}

#[test]
fn blocks_are_decoded_or_refused() {
    suite("fuzz-blocks", &BLOCKS);
}

#[test]
fn tables_are_decoded_or_refused() {
    suite("fuzz-tables", &TABLES);
}

#[test]
fn blob_files_are_read_or_refused() {
    suite("fuzz-blobs", &BLOBS);
}

#[test]
fn directories_are_opened_or_refused() {
    suite("fuzz-directories", &DIRECTORIES);
}

#[test]
fn every_target_is_in_a_suite() {
    let suites = [&SMALL[..], &LOGS, &BLOCKS, &TABLES, &BLOBS, &DIRECTORIES].concat();
    assert!(TARGETS.iter().all(|target| suites.contains(&target.name)));
    assert_eq!(suites.len(), TARGETS.len());
}
