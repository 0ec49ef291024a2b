//! Runs `db_stress` for seconds, or for two hours in the long form.

use koeldb_testkit::Floors;

use crate::{Scratch, fail, succeed};

fn stress(seed: u32, fault_one_in: u32, threads: u32) {
    // So few keys that a worker has time left after verifying them all.
    let (seconds, life_ms, kills, keys) = Floors::chosen().of(
        (5, 500, 5, 200),
        (90, 500, 100, 1200),
        (3600, 2500, 2500, 2000),
    );
    let scratch = Scratch::new();
    let said = succeed(
        "db_stress",
        &[
            &scratch.db(),
            &format!("--seconds={seconds}"),
            &format!("--life_ms={life_ms}"),
            &format!("--kills={kills}"),
            &format!("--threads={threads}"),
            &format!("--keys={}", keys / threads),
            &format!("--seed={seed}"),
            &format!("--fault_one_in={fault_one_in}"),
        ],
    );
    eprint!("{said}");
    assert!(said.contains("failures=0"), "{said}");
}

#[test]
fn a_database_that_is_killed_again_and_again_has_what_it_was_told() {
    stress(1, 0, 4);
}

#[test]
fn so_has_one_whose_storage_fails_now_and_then() {
    stress(2, 2000, 4);
}

#[test]
fn so_has_one_that_sixteen_threads_write() {
    stress(3, 0, 16);
}

#[test]
fn a_panic_on_a_background_thread_is_a_failure_also_under_faults() {
    let scratch = Scratch::new();
    let said = fail(
        "db_stress",
        &[
            &scratch.db(),
            "--seconds=1",
            "--life_ms=600000",
            "--keys=10",
            "--fault_one_in=100000",
            "--panic",
        ],
    );
    assert!(said.contains("life 1 ended with 101"), "{said}");
}
