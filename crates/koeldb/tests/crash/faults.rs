//! Storage fails at each operation in turn.
//!
//! The affected caller gets the error, no guaranteed data is lost, nothing hangs, and the database
//! continues: immediately if possible, otherwise after a reopen.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use koeldb::fs::fault::Injection;
use koeldb::fs::{
    Clock, Failure, FaultAction, FaultRule, Operation, Purpose, SurvivalPolicy, SystemClock,
};
use koeldb::{ErrorDetail, ErrorKind, Severity};
use koeldb_testkit::random::mix;
use koeldb_testkit::shots::Shot;
use koeldb_testkit::{Crash, Floors, Legality, Random, Summary};

use crate::check::{self, Checker, DEADLINE};
use crate::script::{Load, Mix, Script, Step};
use crate::scripts::SCRIPTS;
use crate::session::{Session, Trouble, open_script, options};

/// A kind of fault injected into a script.
#[derive(Clone, Copy, Debug)]
struct Spoiling {
    action: fn() -> FaultAction,
    /// Selects the operations that count.
    aim: fn(FaultRule) -> FaultRule,
    /// Every operation from the n-th on, until the fault is repaired.
    lasts: bool,
    name: &'static str,
}

/// In the gate, one of this many scripts gets a fault at every operation, the others at some.
const WHOLE_SCRIPTS: u64 = 7;

const ANY: fn(FaultRule) -> FaultRule = |rule| rule;

/// The calls that need a descriptor.
const DESCRIPTORS: fn(FaultRule) -> FaultRule = |rule| {
    rule.on(&[
        Operation::Create,
        Operation::OpenAppend,
        Operation::Open,
        Operation::List,
        Operation::SyncDir,
        Operation::Lock,
    ])
};

/// Logs are rotated, and there is no descriptor for the next one.
const LOGS: fn(FaultRule) -> FaultRule = |rule| {
    rule.on(&[Operation::Create, Operation::OpenAppend])
        .purpose(Purpose::Wal)
};

const SPOILINGS: &[Spoiling] = &[
    Spoiling {
        action: || FaultAction::Fail(Failure::Device),
        aim: ANY,
        lasts: false,
        name: "EIO once",
    },
    Spoiling {
        action: || FaultAction::Fail(Failure::NoSpace),
        aim: ANY,
        lasts: false,
        name: "ENOSPC once",
    },
    Spoiling {
        action: || FaultAction::Fail(Failure::Device),
        aim: ANY,
        lasts: true,
        name: "EIO from there on",
    },
    Spoiling {
        action: || FaultAction::Fail(Failure::NoSpace),
        aim: ANY,
        lasts: true,
        name: "ENOSPC from there on",
    },
    Spoiling {
        action: || FaultAction::FailAfter(Failure::Device),
        aim: ANY,
        lasts: false,
        name: "EIO after the work was done",
    },
    Spoiling {
        action: || FaultAction::TornWrite(Failure::NoSpace),
        aim: ANY,
        lasts: false,
        name: "ENOSPC in the middle of a write",
    },
    Spoiling {
        action: || FaultAction::FailAfter(Failure::Device),
        aim: |rule| rule.on(&[Operation::Create]).purpose(Purpose::Wal),
        lasts: false,
        name: "EIO after a log was made",
    },
    Spoiling {
        action: || FaultAction::FailAfter(Failure::Device),
        aim: |rule| rule.on_syncs().purpose(Purpose::Wal),
        lasts: false,
        name: "EIO after a log was synced",
    },
    Spoiling {
        action: || FaultAction::FailAfter(Failure::Device),
        aim: |rule| rule.purpose(Purpose::Manifest),
        lasts: false,
        name: "EIO after a change of the MANIFEST",
    },
    Spoiling {
        action: || FaultAction::Fail(Failure::NoSpace),
        aim: |rule| rule.purpose(Purpose::Manifest),
        lasts: true,
        name: "ENOSPC for the MANIFEST",
    },
    Spoiling {
        action: || FaultAction::Fail(Failure::TooManyFiles),
        aim: DESCRIPTORS,
        lasts: false,
        name: "no descriptor once",
    },
    Spoiling {
        action: || FaultAction::Fail(Failure::TooManyFiles),
        aim: DESCRIPTORS,
        lasts: true,
        name: "no descriptor from there on",
    },
    Spoiling {
        action: || FaultAction::Fail(Failure::TooManyFiles),
        aim: LOGS,
        lasts: true,
        name: "no descriptor for logs",
    },
];

impl Spoiling {
    fn rule(&self, n: u64) -> FaultRule {
        let rule = (self.aim)(FaultRule::new((self.action)()).on_mutations());
        if self.lasts {
            rule.from_nth(n)
        } else {
            rule.nth(n)
        }
    }
}

/// A run: the script, the fault, and its position.
#[derive(Clone, Copy, Debug)]
struct Case {
    script: &'static Script,
    spoiling: &'static Spoiling,
    n: u64,
    seed: u64,
}

impl Case {
    /// The number of background threads that the system allows; `None` without a limit.
    fn thread_limit(&self) -> Option<usize> {
        let drawn = mix(self.seed ^ 1);
        let limit = usize::try_from(drawn / 2 % 3).ok();
        limit.filter(|_| drawn.is_multiple_of(2))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    injected: u64,
    resumed: u64,
    reopened: u64,
    images: u64,
    short_of_threads: u64,
    /// Blob files with values of logs.
    blob_files: u64,
}

/// Failures without an effect on callers: the operation is repeated or not needed.
fn is_harmless(injection: &Injection) -> bool {
    match injection.operation {
        // A directory is listed to remove files from it.
        Operation::RemoveFile | Operation::RemoveDir | Operation::Close | Operation::List => true,
        // The engine of asynchronous reads tries itself on CURRENT; an open reports other failures. A
        // flush opens older tables to estimate what its range tombstones hide, and goes on without
        // them. Reads report such failures, and are compared.
        Operation::Open => {
            injection.path.ends_with("CURRENT")
                || injection
                    .path
                    .extension()
                    .is_some_and(|extension| extension == "sst")
                    && matches!(injection.action, FaultAction::Fail(Failure::TooManyFiles))
        }
        _ => false,
    }
}

fn run(case: Case) -> Result<Outcome, String> {
    let mut session = Session::new(case.script, case.seed);
    session.lenient = true;
    session.faults.add_rule(case.spoiling.rule(case.n));
    let mut outcome = Outcome::default();
    if let Some(limit) = case.thread_limit() {
        session.limit_threads(limit);
        outcome.short_of_threads += 1;
    }
    if session.open().is_err() {
        session.surfaced.store(true, Ordering::Release);
        go_on(&mut session, &mut outcome)?;
    }
    // Half of the runs resume after the first error, the others continue to the end.
    let goes_on_at_once = mix(case.seed).is_multiple_of(2);
    for step in case.script.steps {
        if let Err(Trouble(text)) = session.step(step) {
            session.surfaced.store(true, Ordering::Release);
            if session.faults.injection_count() == 0 {
                return Err(format!("{step:?} failed without a fault: {text}"));
            }
        }
        let has_failed = session.surfaced.load(Ordering::Acquire);
        if !session.is_open() || (has_failed && goes_on_at_once) {
            go_on(&mut session, &mut outcome)?;
        }
    }
    // Running background work may be what fails.
    if session.is_open() && session.step(&Step::Wait).is_err() {
        session.surfaced.store(true, Ordering::Release);
    }
    outcome.injected = session.faults.injection_count();
    go_on(&mut session, &mut outcome)?;
    let is_told = session.surfaced.load(Ordering::Acquire);
    let injections = session.faults.injections();
    if !is_told && !injections.iter().all(is_harmless) {
        return Err(format!("nobody was told of {injections:?}"));
    }
    session.check_order().map_err(|Trouble(text)| text)?;
    check_crash(&session, case, &mut outcome)?;
    outcome.blob_files = session.blob_files;
    finish(session, case)?;
    Ok(outcome)
}

/// The storage is repaired; the database resumes or is opened again, and takes writes.
fn go_on(session: &mut Session<'_>, outcome: &mut Outcome) -> Result<(), String> {
    session.faults.clear_rules();
    if session.is_open() {
        check_visible(session)?;
        match resume(session)? {
            Ok(()) => {
                outcome.resumed += 1;
                check_visible(session)?;
            }
            Err(error) if error.severity() > Severity::Hard => {
                // An error at close is the stored one; guaranteed data must still be there.
                let _ = session.close();
            }
            Err(error) => return Err(format!("resume: {error}")),
        }
    }
    if !session.is_open() {
        outcome.reopened += 1;
        let opened = session.open();
        opened.map_err(|Trouble(text)| format!("open after the fault: {text}"))?;
        if !session.drops_oldest() {
            let content = check::content(session.db().map_err(|Trouble(text)| text)?)?;
            session.history.settle(&content, Crash::Process)?;
        }
    }
    session.lenient = false;
    let written = session.write_logged(Load::of(1).mix(Mix::Unique), true);
    written.map_err(|Trouble(text)| format!("a write after the fault: {text}"))?;
    session.lenient = true;
    Ok(())
}

/// Resumes; repeats it if a running job reports its failure later.
fn resume(session: &Session<'_>) -> Result<koeldb::Result<()>, String> {
    let db = session.db().map_err(|Trouble(text)| text)?;
    let mut attempts = 0;
    loop {
        let resumed = db
            .resume()
            .and_then(|()| db.wait_for_compact(Some(DEADLINE)));
        match &resumed {
            // The automatic resume may take long on a busy machine; a watch ends one that hangs.
            Err(error) if error.kind() == ErrorKind::Busy => {}
            Err(error) if error.detail() == Some(ErrorDetail::PluginPanicked) => {
                return Err(format!("resume: {error}"));
            }
            Err(error) if error.severity() <= Severity::Hard && attempts < 20 => attempts += 1,
            _ => return Ok(resumed),
        }
        SystemClock.sleep(Duration::from_millis(10));
    }
}

/// Checks that a handle never shows failed writes, and can always read.
fn check_visible(session: &Session<'_>) -> Result<(), String> {
    if !session.is_first_to_fail() || session.drops_oldest() {
        return Ok(());
    }
    let content = check::content(session.db().map_err(|Trouble(text)| text)?)?;
    let bounds = session.history.bounds_of_all();
    let judged = session.history.judge(&content, &bounds, Legality::Visible);
    judged
        .map(|_| ())
        .map_err(|error| format!("what the handle shows: {error}"))
}

/// The power is cut now.
fn check_crash(session: &Session<'_>, case: Case, outcome: &mut Outcome) -> Result<(), String> {
    let policies = SurvivalPolicy::ALL;
    for round in 0..1 {
        let seed = mix(case.seed ^ round);
        let policy = policies[usize::try_from(seed % policies.len() as u64).unwrap()];
        let crash = match policy {
            SurvivalPolicy::Generous => Crash::Process,
            _ => Crash::Power,
        };
        let owed = session.history.owed(crash);
        let image = session.memory.crash_image(policy, seed);
        let bounds = session.history.bounds(&owed);
        let shot = Shot {
            image,
            policy,
            seed,
            operation: case.n,
            bounds,
            note: 0,
        };
        Checker::new(case.script, &session.history, 4).check(&shot)?;
        outcome.images += 1;
    }
    Ok(())
}

/// Closes, opens, and finds everything that was acknowledged.
fn finish(mut session: Session<'_>, case: Case) -> Result<(), String> {
    session
        .close()
        .map_err(|Trouble(text)| format!("close: {text}"))?;
    let memory = session.memory.clone();
    let options = options(case.script, Arc::new(memory));
    let db =
        open_script(case.script, &options).map_err(|error| format!("the last open: {error}"))?;
    db.wait_for_compact(Some(DEADLINE))
        .map_err(|error| format!("background work: {error}"))?;
    let content = check::content(&db)?;
    let bounds = session
        .history
        .bounds(&session.history.owed(Crash::Process));
    let legality = match session.drops_oldest() {
        true => Legality::OldestDropped,
        false => Legality::Prefix,
    };
    session.history.judge(&content, &bounds, legality)?;
    db.verify_checksums()
        .map_err(|error| format!("verify: {error}"))?;
    match db.close() {
        Err(error) if error.kind() != ErrorKind::ShutdownInProgress => {
            Err(format!("the last close: {error}"))
        }
        _ => Ok(()),
    }
}

/// Counts the operations of a script that a fault could affect.
fn operation_count(script: &Script, spoiling: &Spoiling, seed: u64) -> u64 {
    let mut session = Session::new(script, seed);
    let rule = session.faults.add_rule(spoiling.rule(u64::MAX));
    let ran = session.run();
    assert!(ran.is_ok(), "{}: {ran:?}", script.name);
    session.faults.match_count(rule)
}

fn suits(script: &Script) -> bool {
    // Those break and end things themselves.
    let is_other = |step: &Step| {
        matches!(
            step,
            Step::Break(..) | Step::Kill | Step::Repair | Step::ReadOnly
        )
    };
    !script.steps.iter().any(is_other)
}

/// Runs a case in a thread; a hanging thread is abandoned.
fn run_within_deadline(case: Case) -> Result<Outcome, String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let _ = sender.send(run(case));
    });
    match receiver.recv_timeout(DEADLINE) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => Err("it hangs".to_owned()),
        Err(RecvTimeoutError::Disconnected) => Err("it panicked".to_owned()),
    }
}

fn cases(seed: u64) -> VecDeque<Case> {
    let only = std::env::var("KOELDB_SCRIPT").ok();
    let only_n: Option<u64> = std::env::var("KOELDB_N")
        .ok()
        .and_then(|text| text.parse().ok());
    let floors = Floors::chosen();
    let mut random = Random::new(seed);
    let mut cases = VecDeque::new();
    let chosen: Vec<&'static Script> = SCRIPTS
        .iter()
        .filter(|script| suits(script) && only.as_deref().is_none_or(|name| script.name == name))
        .collect();
    // Other scripts for another seed.
    let first_whole = seed.wrapping_mul(WHOLE_SCRIPTS) % chosen.len() as u64;
    for (index, &script) in (0..).zip(&chosen) {
        let place = (index + chosen.len() as u64 - first_whole) % chosen.len() as u64;
        let is_whole = place < floors.of(0, WHOLE_SCRIPTS, u64::MAX);
        for spoiling in SPOILINGS {
            if floors == Floors::Short && only.is_none() && random.chance(1, 2) {
                continue;
            }
            let count = operation_count(script, spoiling, seed);
            let numbers: Vec<u64> = match only_n {
                Some(n) => vec![n],
                None if is_whole => (1..=count).collect(),
                None => vec![1 + random.below(count)],
            };
            cases.extend(numbers.into_iter().map(|n| Case {
                script,
                spoiling,
                n,
                seed: mix(seed ^ n),
            }));
        }
    }
    cases
}

#[test]
fn failing_storage_loses_nothing_owed_and_hangs_nobody() {
    let seed = crate::seed();
    let begun = crate::seconds();
    let waiting = Mutex::new(cases(seed));
    let case_count = waiting.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
    let sum: Mutex<(Outcome, u64)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(case) = next else { break };
                    let outcome = run_within_deadline(case);
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    match outcome {
                        Ok(outcome) => {
                            sum.0.injected += outcome.injected;
                            sum.0.resumed += outcome.resumed;
                            sum.0.reopened += outcome.reopened;
                            sum.0.images += outcome.images;
                            sum.0.short_of_threads += outcome.short_of_threads;
                            sum.0.blob_files += outcome.blob_files;
                        }
                        Err(text) => {
                            sum.1 += 1;
                            eprintln!(
                                "{}, {} at operation {}: {text}\n  repeat: KOELDB_SEED={seed} KOELDB_SCRIPT={:?} \
                                 KOELDB_N={} cargo test -p koeldb --test crash faults",
                                case.script.name, case.spoiling.name, case.n, case.script.name, case.n
                            );
                        }
                    }
                }
            });
        }
    });
    let (outcome, failures) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    let is_whole = std::env::var("KOELDB_SCRIPT").is_err();
    Summary {
        suite: "error-sweep",
        seed,
        figures: vec![
            ("cases", case_count),
            ("injected", outcome.injected),
            ("resumed", outcome.resumed),
            ("reopened", outcome.reopened),
            ("images", outcome.images),
            ("short_of_threads", outcome.short_of_threads),
            ("blob_files_of_logs", outcome.blob_files),
        ],
        seconds: crate::seconds() - begun,
        failures,
    }
    .finish(
        "cases",
        if is_whole {
            Floors::chosen().of(120, 7_000, 25_000)
        } else {
            1
        },
    );
    assert!(
        outcome.blob_files > 0 || !is_whole,
        "no recovery wrote a blob file"
    );
}
