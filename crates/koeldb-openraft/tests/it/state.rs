//! The state without a log: snapshots, installation, power cuts.

use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::{Clock, Failure, FaultFileSystem, FaultRule, SurvivalPolicy, SystemClock};
use koeldb::{Env, Options, Result};
use koeldb_openraft::{SnapshotDir, StateStore};
use koeldb_testkit::floors::Floors;

use crate::support::Disk;

/// Values of two digits are in blob files.
fn open(disk: &Disk, path: &str) -> Result<StateStore> {
    let mut options = Options::new();
    options.set_enable_blob_files(true).set_min_blob_size(2);
    StateStore::open(&disk.env(), &options, path)
}

/// Applies entry number `index`.
fn apply(state: &StateStore, index: u64) {
    let mut batch = state.batch();
    batch.put(format!("key {}", index % 10), index.to_string());
    state.write(batch, &index.to_le_bytes()).unwrap();
}

/// The index of the last entry; fails unless the state is the effect of all up to it.
fn applied(state: &StateStore) -> Option<u64> {
    let applied = state.applied().unwrap()?;
    let applied = u64::from_le_bytes(applied.try_into().unwrap());
    for index in applied.saturating_sub(9)..=applied {
        let value = state.db().get(format!("key {}", index % 10)).unwrap();
        assert_eq!(value.as_deref(), Some(index.to_string().as_bytes()));
    }
    Some(applied)
}

#[test]
fn a_crash_keeps_a_prefix_of_the_applied_entries() {
    let disk = Disk::new();
    let state = open(&disk, "/state").unwrap();
    for index in 0..100 {
        apply(&state, index);
        if index % 30 == 29 {
            state.db().flush().unwrap();
        }
    }
    for (policy, seed) in SurvivalPolicy::ALL.into_iter().zip(0..) {
        let image = disk.cut(policy, seed);
        assert_eq!(applied(&open(&image, "/state").unwrap()), Some(89));
    }
}

/// Ends a writer, also when an assertion fails.
struct StopOnDrop<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_snapshot_names_its_own_end_while_applying_goes_on() {
    let disk = Disk::new();
    let state = open(&disk, "/state").unwrap();
    assert!(
        state.build_snapshot().unwrap().is_none(),
        "nothing is applied"
    );
    for index in 0..20 {
        apply(&state, index);
    }
    let (stop, target) = (std::sync::atomic::AtomicBool::new(false), Disk::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut index = 20;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                apply(&state, index);
                index += 1;
            }
        });
        let _stop = StopOnDrop(&stop);
        for round in 0..5 {
            let snapshot = state.build_snapshot().unwrap().unwrap();
            let position = position(&snapshot, &disk);
            assert_eq!(snapshot.applied(), position.to_le_bytes());
            let other = open(&target, &format!("/state {round}")).unwrap();
            other
                .install_snapshot(&snapshot, &position.to_le_bytes())
                .unwrap();
            assert_eq!(applied(&other), Some(position));
        }
    });
    drop(state);
    assert_eq!(
        disk.names("/state/snapshots").len(),
        1,
        "only the newest is kept"
    );
}

/// The applied position in a snapshot.
fn position(snapshot: &SnapshotDir, disk: &Disk) -> u64 {
    let db = koeldb::Db::builder(&disk.options())
        .read_only()
        .open(snapshot.path())
        .unwrap();
    let applied = db.get(koeldb_openraft::APPLIED_KEY).unwrap().unwrap();
    u64::from_le_bytes(applied.as_ref().try_into().unwrap())
}

#[test]
fn a_snapshot_in_use_outlives_its_successor() {
    let disk = Disk::new();
    let state = open(&disk, "/state").unwrap();
    apply(&state, 0);
    let sent = state.build_snapshot().unwrap().unwrap();
    let files = sent.files().unwrap();
    apply(&state, 1);
    state.build_snapshot().unwrap().unwrap();
    assert_eq!(disk.names("/state/snapshots").len(), 2);
    let other = open(&disk, "/other").unwrap();
    other.install_snapshot(&sent, &0_u64.to_le_bytes()).unwrap();
    assert_eq!(sent.files().unwrap(), files);
    drop(sent);
    assert_eq!(disk.names("/state/snapshots").len(), 1);
    assert_eq!(disk.names("/other").len(), 3, "{:?}", disk.names("/other"));
}

#[test]
fn a_damaged_or_misnamed_snapshot_is_refused_and_the_state_stays() {
    let disk = Disk::new();
    let build = |path: &str| {
        let source = open(&disk, path).unwrap();
        (0..30).for_each(|index| apply(&source, index));
        source.build_snapshot().unwrap().unwrap()
    };
    let snapshot = build("/source");
    let files = snapshot.files().unwrap();
    let has = |suffix| files.iter().any(|file| file.name.ends_with(suffix));
    assert!(has(".sst") && has(".blob"));

    let target = open(&disk, "/target").unwrap();
    (0..5).for_each(|index| apply(&target, index));
    let misnamed = target.install_snapshot(&snapshot, &7_u64.to_le_bytes());
    assert!(misnamed.unwrap_err().is_corruption());
    for (number, file) in files.iter().enumerate() {
        // Tables and blob files are shared with the state that they come from.
        let damaged = build(&format!("/source {number}"));
        damaged.files().unwrap();
        let path = damaged.path().join(&file.name);
        let Ok(bytes) = koeldb::fs::FileSystem::metadata(&disk.fs, &path) else {
            continue;
        };
        if bytes.len == 0 {
            continue;
        }
        koeldb::fs::FileSystem::truncate(&disk.fs, &path, bytes.len - 1).unwrap();
        let refused = target.install_snapshot(&damaged, &29_u64.to_le_bytes());
        assert!(refused.unwrap_err().is_corruption(), "{}", file.name);
        assert!(disk.names("/target/snapshots").is_empty());
        assert_eq!(disk.names("/target").len(), 3);
        assert_eq!(applied(&target), Some(4));
    }
}

#[test]
fn a_lost_pointer_is_noticed() {
    let disk = Disk::new();
    let source = open(&disk, "/source").unwrap();
    apply(&source, 0);
    let snapshot = source.build_snapshot().unwrap().unwrap();
    let target = open(&disk, "/target").unwrap();
    target
        .install_snapshot(&snapshot, &0_u64.to_le_bytes())
        .unwrap();
    drop(target);
    koeldb::fs::FileSystem::remove_file(&disk.fs, "/target/STATE".as_ref()).unwrap();
    assert!(open(&disk, "/target").err().unwrap().is_corruption());
}

/// Cuts the power before every write, sync and rename of an installation.
#[test]
fn a_power_cut_during_an_installation_leaves_the_old_state_or_the_new_one() {
    let source_disk = Disk::new();
    let source = open(&source_disk, "/source").unwrap();
    (0..50).for_each(|index| apply(&source, index));
    let snapshot = source.build_snapshot().unwrap().unwrap();

    let before = Disk::new();
    let state = open(&before, "/target").unwrap();
    (0..20).for_each(|index| apply(&state, index));
    state.build_snapshot().unwrap();
    drop(state);

    let step = Floors::chosen().of(3, 1, 1);
    let (mut old, mut new) = (0, 0);
    for at in (1..).step_by(step) {
        let disk = before.cut(SurvivalPolicy::Generous, 0);
        let target = open(&disk, "/target").unwrap();
        disk.fs.arm_crash(disk.fs.operation_count() + at);
        let installed = target.install_snapshot(&snapshot, &49_u64.to_le_bytes());
        let has_crashed = disk.fs.has_crashed();
        drop(target);
        for (policy, seed) in SurvivalPolicy::ALL.into_iter().zip(at..) {
            let image = disk.cut(policy, seed);
            let state = open(&image, "/target").unwrap();
            match applied(&state) {
                Some(19) if installed.is_err() => old += 1,
                Some(49) => new += 1,
                other => panic!("operation {at}, {policy:?}: {other:?}"),
            }
            let current = state.current_snapshot().unwrap();
            let position = position(&current, &image);
            assert!(position == 19 || position == 49);
        }
        if !has_crashed {
            break;
        }
    }
    assert!(old > 0 && new > 0, "{old} old, {new} new");
}

/// The power is cut while the files of the failed installation are removed.
#[test]
fn a_power_cut_after_a_failed_installation_leaves_a_state_that_opens() {
    let source_disk = Disk::new();
    let source = open(&source_disk, "/source").unwrap();
    (0..50).for_each(|index| apply(&source, index));
    let snapshot = source.build_snapshot().unwrap().unwrap();

    let before = Disk::new();
    let state = open(&before, "/target").unwrap();
    (0..20).for_each(|index| apply(&state, index));
    state.build_snapshot().unwrap();
    drop(state);

    let (step, mut failed) = (Floors::chosen().of(3, 1, 1), 0);
    for at in (1..).step_by(step) {
        let disk = before.cut(SurvivalPolicy::Generous, 0);
        let faults = FaultFileSystem::new(Arc::new(disk.fs.clone()), at);
        let env = Env::new(Arc::new(faults.clone()), Arc::new(SystemClock));
        let target = StateStore::open(&env, &disk.options(), "/target").unwrap();
        faults.add_rule(FaultRule::fail(Failure::Device).on_mutations().nth(at));
        disk.fs.arm_crash(disk.fs.operation_count() + at + at % 12);
        let installed = target.install_snapshot(&snapshot, &49_u64.to_le_bytes());
        let has_failed = faults.injection_count() > 0;
        drop(target);
        for (policy, seed) in SurvivalPolicy::ALL.into_iter().zip(at..) {
            let state = open(&disk.cut(policy, seed), "/target").unwrap();
            assert!(matches!(applied(&state), Some(19 | 49)), "{at}, {policy:?}");
            state.current_snapshot().unwrap();
        }
        if installed.is_ok() && !has_failed {
            break;
        }
        failed += 1;
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_snapshot_that_is_installed_wins_against_one_that_is_being_built() {
    let disk = Disk::new();
    let source = open(&disk, "/source").unwrap();
    let target = open(&disk, "/target").unwrap();
    apply(&target, 0);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _stop = StopOnDrop(&stop);
            for index in 0..200 {
                apply(&source, index);
                let snapshot = source.build_snapshot().unwrap().unwrap();
                target
                    .install_snapshot(&snapshot, &index.to_le_bytes())
                    .unwrap();
                let newest = target.current_snapshot().unwrap();
                assert_eq!(newest.applied(), index.to_le_bytes());
            }
        });
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            target.build_snapshot().unwrap().unwrap();
        }
    });
    let newest = target.current_snapshot().unwrap();
    assert_eq!(position(&newest, &disk), 199);
    assert_eq!(disk.names("/target/snapshots").len(), 1);
}

/// A node that is shut down may be started again immediately, in the same process.
#[test]
fn a_state_is_closed_when_its_installation_has_ended() {
    let source_disk = Disk::new();
    let source = open(&source_disk, "/source").unwrap();
    (0..50).for_each(|index| apply(&source, index));
    let snapshot = source.build_snapshot().unwrap().unwrap();
    for round in 0..40 {
        let disk = Disk::new();
        let state = open(&disk, "/target").unwrap();
        (0..20).for_each(|index| apply(&state, index));
        state.build_snapshot().unwrap();
        std::thread::scope(|scope| {
            let installing = scope.spawn(|| {
                let _ = state.install_snapshot(&snapshot, &49_u64.to_le_bytes());
            });
            SystemClock.sleep(Duration::from_micros(round * 200));
            state.close().unwrap();
            let again = open(&disk, "/target").unwrap();
            installing.join().unwrap();
            let next = applied(&again).unwrap() + 1;
            apply(&again, next);
            again.db().flush().unwrap();
            again.close().unwrap();
            assert_eq!(applied(&open(&disk, "/target").unwrap()), Some(next));
        });
        assert!(state.build_snapshot().is_err());
    }
}

#[test]
fn settings_that_lose_the_applied_position_are_refused() {
    let disk = Disk::new();
    let mut shared = Options::new();
    shared.set_wal_dir("/elsewhere");
    let mut filtered = Options::new();
    filtered.set_compaction_filter("all", |_, _, _| koeldb::Decision::Remove);
    let mut fifo = Options::new();
    fifo.set_compaction_style(koeldb::CompactionStyle::Fifo);
    for options in [shared, filtered, fifo] {
        assert!(StateStore::open(&disk.env(), &options, "/state").is_err());
    }
}
