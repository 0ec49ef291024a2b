//! `db_stress` as the gate runs it: seconds. The long form takes 20 minutes.

use crate::{Scratch, succeed};

fn stress(seed: u32, fault_one_in: u32) {
    let is_long = std::env::var("KOELDB_LONG").is_ok_and(|value| value == "1");
    let (seconds, life_ms) = if is_long { (600, 4000) } else { (5, 500) };
    let scratch = Scratch::new();
    let said = succeed(
        "db_stress",
        &[
            &scratch.db(),
            &format!("--seconds={seconds}"),
            &format!("--life_ms={life_ms}"),
            &format!("--seed={seed}"),
            &format!("--fault_one_in={fault_one_in}"),
        ],
    );
    eprint!("{said}");
    assert!(said.contains("failures=0"), "{said}");
}

#[test]
fn a_database_that_is_killed_again_and_again_has_what_it_was_told() {
    stress(1, 0);
}

#[test]
fn so_has_one_whose_storage_fails_now_and_then() {
    stress(2, 2000);
}
