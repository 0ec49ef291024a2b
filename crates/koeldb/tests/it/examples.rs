//! Runs each example in a separate process.

use std::process::Command;

fn run(name: &str) {
    let test = std::env::current_exe().unwrap();
    let program = test
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples")
        .join(name);
    if !program.is_file() {
        // `cargo test --test it` builds no examples.
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "{} is not built",
            program.display()
        );
        eprintln!("notice: example {name} is not built and was not run; `cargo test` builds it");
        return;
    }
    let output = Command::new(&program).output().unwrap();
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn quick_start_runs() {
    run("quick_start");
}

#[test]
fn column_families_run() {
    run("column_families");
}

#[test]
fn snapshots_and_iterators_run() {
    run("snapshots_and_iterators");
}

#[test]
fn merge_operator_runs() {
    run("merge_operator");
}

#[test]
fn tokio_runs() {
    run("tokio");
}

#[test]
fn nightly_backup_runs() {
    run("nightly_backup");
}

#[test]
fn bulk_load_runs() {
    run("bulk_load");
}

#[test]
fn read_only_secondary_runs() {
    run("read_only_secondary");
}

#[test]
fn change_feed_runs() {
    run("change_feed");
}
