//! Runs `db_stress` for seconds, or for two hours in the long form.

#![expect(
    clippy::disallowed_methods,
    reason = "the program runs in a directory of its own"
)]

use std::process::Command;

use koeldb_testkit::Floors;

/// Runs `db_stress` on a database in a directory of its own, which stays if `check` fails. `check` gets
/// whether the program succeeded, and what it printed.
fn db_stress(name: &str, words: &[String], check: impl FnOnce(bool, &str)) {
    let directory =
        std::env::temp_dir().join(format!("koeldb-stress-{}-{name}", std::process::id()));
    std::fs::create_dir(&directory).expect("a new directory");
    let output = Command::new(env!("CARGO_BIN_EXE_db_stress"))
        .arg(format!("--db={}", directory.join("db").display()))
        .args(words)
        .output()
        .expect("the program starts");
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    check(output.status.success(), &said);
    std::fs::remove_dir_all(&directory).expect("the directory can be removed");
}

fn stress(seed: u32, fault_one_in: u32, threads: u32) {
    // So few keys that a worker has time left after verifying them all.
    let (seconds, life_ms, kills, keys) = Floors::chosen().of(
        (5, 500, 5, 200),
        (90, 500, 100, 1200),
        (3600, 2500, 2500, 2000),
    );
    let words = [
        format!("--seconds={seconds}"),
        format!("--life_ms={life_ms}"),
        format!("--kills={kills}"),
        format!("--threads={threads}"),
        format!("--keys={}", keys / threads),
        format!("--seed={seed}"),
        format!("--fault_one_in={fault_one_in}"),
    ];
    db_stress(&format!("seed-{seed}"), &words, |succeeded, said| {
        eprint!("{said}");
        assert!(succeeded && said.contains("failures=0"), "{said}");
    });
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
    let words = "--seconds=1 --life_ms=600000 --keys=10 --fault_one_in=100000 --panic";
    let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
    db_stress("panic", &words, |succeeded, said| {
        assert!(
            !succeeded && said.contains("life 1 ended with 101"),
            "{said}"
        );
    });
}
