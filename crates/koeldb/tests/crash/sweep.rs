//! The power is cut at every operation of every script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use koeldb::fs::{FaultAction, FaultRule, Operation};
use koeldb_base::file_name::FileKind;
use koeldb_testkit::shots::Sampling;
use koeldb_testkit::{Camera, Floors, Summary};

use crate::check::Checker;
use crate::script::Script;
use crate::scripts::SCRIPTS;
use crate::session::{Session, Trouble};

/// Failures of a script that are printed.
const FAILURES_SHOWN: usize = 3;

#[derive(Default)]
struct Tally {
    images: u64,
    second_images: u64,
    moments: u64,
    refusals: u64,
    /// Blob files with values of logs.
    blob_files: u64,
    failures: Vec<String>,
}

/// Runs a script once, and recovers the images in another thread.
///
/// Syncs that match `lie` are omitted.
fn sweep(script: &Script, sampling: Sampling, lie: Option<FaultRule>) -> Tally {
    let mut session = Session::new(script, sampling.seed);
    if let Some(lie) = lie {
        session.faults.add_rule(lie);
    }
    let history = Arc::clone(&session.history);
    let (camera, shots) = Camera::new(&history, sampling);
    let checker = Checker::new(script, &history, 24);
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let checking = scope.spawn(|| {
            let mut failures = Vec::new();
            for shot in shots {
                if let Err(failure) = checker.check(&shot) {
                    failures.push(failure);
                }
            }
            failures
        });
        session.film(&camera);
        let ran = session.run();
        Camera::detach(&session.memory);
        tally.moments = camera.moments();
        drop(session);
        drop(camera);
        tally.failures = checking.join().unwrap();
        if let Err(Trouble(text)) = ran {
            tally.failures.insert(0, text);
        }
    });
    tally.images = checker.images.into_inner();
    tally.second_images = checker.second_images.into_inner();
    tally.refusals = checker.refusals.into_inner();
    tally.blob_files = checker.blob_files.into_inner();
    tally
}

fn report(script: &Script, sampling: Sampling, tally: &Tally) {
    eprintln!(
        "{}: {} operations, {} images, {} of them during recovery, {} refused, {} blob files of logs, {} failures",
        script.name,
        tally.moments,
        tally.images,
        tally.second_images,
        tally.refusals,
        tally.blob_files,
        tally.failures.len()
    );
    for failure in tally.failures.iter().take(FAILURES_SHOWN) {
        eprintln!("  {failure}");
    }
    if !tally.failures.is_empty() {
        eprintln!(
            "  repeat: KOELDB_SEED={} KOELDB_SCRIPT={:?} KOELDB_FLOORS={} cargo test -p koeldb --test crash sweep",
            sampling.seed,
            script.name,
            Floors::chosen().name()
        );
    }
}

/// A crash at any operation leaves the guaranteed data, without gaps, in a usable state.
#[test]
fn a_crash_at_any_operation_loses_nothing_owed() {
    let only = std::env::var("KOELDB_SCRIPT").ok();
    let floors = Floors::chosen();
    let sampling = Sampling {
        seed: crate::seed(),
        one_in: floors.of(40, 2, 1),
    };
    let begun = crate::seconds();
    let chosen = SCRIPTS
        .iter()
        .filter(|script| only.as_deref().is_none_or(|name| script.name == name));
    let chosen: VecDeque<&Script> = chosen.collect();
    let waiting = Mutex::new(chosen.clone());
    let sum: Mutex<Tally> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = waiting
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front();
                    let Some(script) = next else { break };
                    let tally = sweep(script, sampling, None);
                    report(script, sampling, &tally);
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.images += tally.images;
                    sum.second_images += tally.second_images;
                    sum.moments += tally.moments;
                    sum.refusals += tally.refusals;
                    sum.blob_files += tally.blob_files;
                    sum.failures.extend(tally.failures);
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    let floor = match only {
        Some(_) => 1,
        None => floors.of(4_000, 100_000, 200_000),
    };
    Summary {
        suite: "crash-sweep",
        seed: sampling.seed,
        figures: vec![
            ("scripts", SCRIPTS.len() as u64),
            ("operations", sum.moments),
            ("images", sum.images),
            ("recovery_images", sum.second_images),
            ("refused", sum.refusals),
            ("blob_files_of_logs", sum.blob_files),
        ],
        seconds: crate::seconds() - begun,
        failures: sum.failures.len() as u64,
    }
    .finish("images", floor);
    let has_blobs = |script: &Script| script.name == "killed with blob files";
    assert!(
        sum.blob_files > 0 || !chosen.iter().any(|script| has_blobs(script)),
        "no recovery wrote a blob file"
    );
}

/// The sweep detects each kind of omitted sync.
#[test]
fn a_sync_that_is_left_out_is_found_out() {
    let lie = || FaultRule::new(FaultAction::DropSync);
    let lies = [
        ("logs", lie().kind(|kind| matches!(kind, FileKind::Wal(_)))),
        (
            "MANIFESTs",
            lie().kind(|kind| matches!(kind, FileKind::Manifest(_))),
        ),
        (
            "tables",
            lie().kind(|kind| matches!(kind, FileKind::Table(_))),
        ),
        (
            "CURRENT",
            lie().kind(|kind| matches!(kind, FileKind::Temporary(_))),
        ),
        (
            "blob files",
            lie().kind(|kind| matches!(kind, FileKind::Blob(_))),
        ),
        ("directories", lie().on(&[Operation::SyncDir])),
    ];
    let sampling = Sampling {
        seed: crate::seed(),
        one_in: 16,
    };
    for (what, lie) in lies {
        let name = match what {
            "blob files" => "blob files",
            _ => "manifest roll",
        };
        let script = SCRIPTS.iter().find(|script| script.name == name).unwrap();
        let tally = sweep(script, sampling, Some(lie));
        assert!(
            !tally.failures.is_empty(),
            "{what} that are not synced: {} images show nothing",
            tally.images
        );
    }
}
