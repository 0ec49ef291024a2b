//! The shared log database: group commit, failures, recovery.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use koeldb::fs::{Failure, FaultFileSystem, FaultRule, FileSystem, SurvivalPolicy, SystemClock};
use koeldb::{Env, Options, RecoveryMode};
use koeldb_openraft::RaftLogs;

use crate::support::Disk;

#[test]
fn one_sync_completes_the_callbacks_of_all_groups_in_order() {
    let disk = Disk::new();
    let logs = RaftLogs::open_without_thread(&disk.options(), "/log").unwrap();
    let done = Arc::new(Mutex::new(Vec::new()));
    for group in 0..64_u64 {
        let (done, log) = (Arc::clone(&done), logs.group(group).unwrap());
        let complete = move |synced: koeldb::Result<()>| {
            synced.unwrap();
            done.lock().unwrap().push(group);
        };
        log.append([(0, b"entry")], complete).unwrap();
        assert_eq!(log.entries(.., 100).unwrap(), [(0, b"entry".to_vec())]);
    }
    assert!(
        done.lock().unwrap().is_empty(),
        "no callback precedes the sync"
    );
    let image = disk.cut(SurvivalPolicy::Strict, 1);
    assert_eq!(logs.sync_waiting(), 64);
    assert_eq!(logs.sync_count(), 1);
    assert!(done.lock().unwrap().iter().copied().eq(0..64));

    let lost = RaftLogs::open(&image.options(), "/log").unwrap();
    assert_eq!(lost.group(5).unwrap().last().unwrap(), None);
    let kept = RaftLogs::open(&disk.cut(SurvivalPolicy::Strict, 1).options(), "/log").unwrap();
    assert_eq!(
        kept.group(5).unwrap().last().unwrap(),
        Some((0, b"entry".to_vec()))
    );
}

#[test]
fn appends_of_many_threads_share_syncs() {
    let disk = Disk::new();
    let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
    std::thread::scope(|scope| {
        for group in 0..16 {
            let log = logs.group(group).unwrap();
            scope.spawn(move || {
                for index in 0..50 {
                    let (sender, receiver) = mpsc::channel();
                    let done = move |synced| sender.send(synced).unwrap();
                    log.append([(index, [7; 128])], done).unwrap();
                    receiver.recv().unwrap().unwrap();
                }
            });
        }
    });
    assert!(logs.sync_count() <= 800);
    drop(logs);
    let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
    for group in 0..16 {
        assert_eq!(
            logs.group(group)
                .unwrap()
                .entries(.., 1 << 20)
                .unwrap()
                .len(),
            50
        );
    }
}

#[test]
fn the_last_handle_completes_the_callbacks_that_wait() {
    let disk = Disk::new();
    let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
    let (sender, receiver) = mpsc::channel();
    let done = move |synced| sender.send(synced).unwrap();
    logs.group(1).unwrap().append([(4, "x")], done).unwrap();
    drop(logs);
    receiver.recv().unwrap().unwrap();
}

#[test]
fn groups_do_not_see_each_other() {
    let disk = Disk::new();
    let logs = RaftLogs::open_without_thread(&disk.options(), "/log").unwrap();
    for group in [0, 1, u64::MAX] {
        let log = logs.group(group).unwrap();
        let entries = [0, 1, 2, 3].map(|index| (index, format!("{group} {index}")));
        log.append(entries, |_| ()).unwrap();
        log.save_vote(&[1], |_| ()).unwrap();
    }
    let middle = logs.group(1).unwrap();
    middle.truncate_from(2, |_| ()).unwrap();
    middle.purge(0, b"zero").unwrap();
    assert_eq!(middle.entries(.., 100).unwrap(), [(1, b"1 1".to_vec())]);
    assert_eq!(middle.purged().unwrap(), Some((0, b"zero".to_vec())));
    for group in [0, u64::MAX] {
        let log = logs.group(group).unwrap();
        assert_eq!(log.entries(.., 1000).unwrap().len(), 4);
        assert_eq!(log.last().unwrap().unwrap().0, 3);
        assert_eq!(log.purged().unwrap(), None);
    }
    middle.purge(u64::MAX, b"all").unwrap();
    assert_eq!(middle.last().unwrap(), None);
}

#[test]
fn a_read_returns_at_least_one_entry_and_stops_at_its_limit() {
    let disk = Disk::new();
    let logs = RaftLogs::open_without_thread(&disk.options(), "/log").unwrap();
    let log = logs.group(1).unwrap();
    log.append((0..10).map(|index| (index, [0; 100])), |_| ())
        .unwrap();
    assert_eq!(log.entries(3.., 1).unwrap().len(), 1);
    assert_eq!(log.entries(3.., 399).unwrap().len(), 3);
    assert_eq!(log.entries(3..=4, 1 << 20).unwrap().len(), 2);
    assert_eq!(log.entries(10.., 1 << 20).unwrap().len(), 0);
    #[expect(clippy::reversed_empty_ranges, reason = "an empty range is no error")]
    let none = log.entries(5..3, 1 << 20).unwrap();
    assert!(none.is_empty());
}

#[test]
fn the_first_failed_sync_stops_the_logs_until_they_are_reopened() {
    let disk = Disk::new();
    let faults = FaultFileSystem::new(Arc::new(disk.fs.clone()), 1);
    let env = Env::new(Arc::new(faults.clone()), Arc::new(SystemClock));
    let mut options = Options::new();
    options.set_env(&env);
    let logs = RaftLogs::open_without_thread(&options, "/log").unwrap();
    let (first, second) = (logs.group(1).unwrap(), logs.group(2).unwrap());
    first
        .append([(0, "kept")], |synced| synced.unwrap())
        .unwrap();
    logs.sync_waiting();

    let results = Arc::new(Mutex::new(Vec::new()));
    for log in [&first, &second] {
        let results = Arc::clone(&results);
        let done = move |synced: koeldb::Result<()>| results.lock().unwrap().push(synced.is_ok());
        log.append([(1, "lost")], done).unwrap();
    }
    faults.add_rule(FaultRule::fail(Failure::Device).on_syncs().limit(1));
    assert_eq!(logs.sync_waiting(), 2);
    assert_eq!(*results.lock().unwrap(), [false, false]);
    faults.clear_rules();

    // Even if the database itself recovers.
    let _ = logs.db().resume();
    for log in [&first, &second] {
        assert!(log.append([(2, "x")], |_| ()).is_err());
        assert!(log.save_vote(b"x", |_| ()).is_err());
        assert!(log.truncate_from(0, |_| ()).is_err() && log.purge(0, b"").is_err());
        assert!(log.entries(.., 9).is_err() && log.last().is_err() && log.vote().is_err());
    }
    drop((logs, first, second));
    let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
    let kept = logs.group(1).unwrap().entries(..1, 9).unwrap();
    assert_eq!(kept, [(0, b"kept".to_vec())]);
    assert!(disk.fs.exists("/log/CURRENT".as_ref()).unwrap());
}

#[test]
fn settings_that_lose_entries_are_refused_or_not_used() {
    let disk = Disk::new();
    let mut options = disk.options();
    options.set_wal_dir("/elsewhere");
    assert!(RaftLogs::open(&options, "/log").is_err());

    let mut options = disk.options();
    options.set_compaction_filter("all", |_, _, _| koeldb::Decision::Remove);
    let logs = RaftLogs::open_without_thread(&options, "/log").unwrap();
    let log = logs.group(1).unwrap();
    log.append([(0, "a"), (1, "b")], |_| ()).unwrap();
    logs.db().flush().unwrap();
    logs.db().compact_range(..).unwrap();
    assert_eq!(log.entries(.., 9).unwrap().len(), 2);

    let mut options = disk.options();
    options.set_wal_recovery_mode(RecoveryMode::SkipAnyCorruptedRecords);
    assert!(RaftLogs::open(&options, "/log").is_err());
}

/// Random calls of three groups, with power cuts, against a plain model of what was synced.
#[test]
fn logs_keep_what_they_confirmed() {
    use koeldb_testkit::random::Random;
    let floors = koeldb_testkit::floors::Floors::chosen();
    for seed in 0..floors.of(30, 1_000, 10_000) {
        let mut random = Random::new(seed);
        let mut disk = Disk::new();
        // Each group's present state, and the states since the last sync.
        let mut models = [0, 1, 2].map(|_| vec![Model::default()]);
        for _ in 0..4 {
            let mut options = disk.options();
            options.set_write_buffer_size(1 << 16);
            let logs = RaftLogs::open_without_thread(&options, "/log").unwrap();
            let handles = [0_u64, 1, 2].map(|group| logs.group(group).unwrap());
            for _ in 0..random.below(60) {
                let group = usize::try_from(random.below(3)).unwrap();
                let mut model = models[group].last().unwrap().clone();
                model.change(&handles[group], &mut random);
                models[group].push(model);
                if random.chance(1, 6) {
                    logs.sync_waiting();
                }
                if random.chance(1, 30) {
                    logs.db().flush().unwrap();
                }
                // A sync without callbacks does nothing.
                handles[group].save_committed(b"c").unwrap();
                if random.chance(1, 8) {
                    handles[group]
                        .append([(0, ""); 0], |synced| synced.unwrap())
                        .unwrap();
                    logs.sync_waiting();
                    for states in &mut models {
                        states.drain(..states.len() - 1);
                    }
                }
            }
            let policies = SurvivalPolicy::ALL;
            let policy = policies[usize::try_from(random.below(14)).unwrap()];
            disk = disk.cut(policy, random.draw());
            let logs = RaftLogs::open_without_thread(&disk.options(), "/log").unwrap();
            for (group, states) in (0_u64..).zip(&mut models) {
                let found = Model::read(&logs.group(group).unwrap());
                assert!(
                    states.contains(&found),
                    "seed {seed}, {policy:?}, group {group}: {found:?} is none of {states:?}"
                );
                *states = vec![found];
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    purged: Option<u64>,
    entries: std::collections::BTreeMap<u64, u64>,
    vote: Option<u64>,
}

impl Model {
    fn read(log: &koeldb_openraft::GroupLog) -> Model {
        let number = |bytes: Vec<u8>| u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let entries = log.entries(.., usize::MAX).unwrap();
        let last = log.last().unwrap();
        assert_eq!(entries.last(), last.as_ref());
        Model {
            purged: log.purged().unwrap().map(|(index, _)| index),
            entries: entries.into_iter().map(|(i, v)| (i, number(v))).collect(),
            vote: log.vote().unwrap().map(number),
        }
    }

    fn change(
        &mut self,
        log: &koeldb_openraft::GroupLog,
        random: &mut koeldb_testkit::random::Random,
    ) {
        let next = match self.entries.last_key_value() {
            Some((last, _)) => last + 1,
            None => self.purged.map_or(0, |purged| purged + 1),
        };
        match random.below(8) {
            0 => {
                let vote = random.draw();
                log.save_vote(&vote.to_le_bytes(), |synced| synced.unwrap())
                    .unwrap();
                self.vote = Some(vote);
            }
            1 => {
                let first = next
                    .saturating_sub(random.below(5))
                    .max(self.purged.map_or(0, |p| p + 1));
                log.truncate_from(first, |synced| synced.unwrap()).unwrap();
                self.entries.split_off(&first);
            }
            2 => {
                let last = self.purged.unwrap_or(0) + random.below(6);
                log.purge(last, b"position").unwrap();
                self.purged = Some(last);
                self.entries = self.entries.split_off(&(last + 1));
            }
            _ => {
                let count = random.below(5) + 1;
                let entries: Vec<(u64, u64)> =
                    (next..next + count).map(|i| (i, random.draw())).collect();
                let bytes = entries
                    .iter()
                    .map(|(i, v)| (*i, [v.to_le_bytes(); 30].concat()));
                log.append(bytes, |synced| synced.unwrap()).unwrap();
                self.entries.extend(entries);
            }
        }
    }
}

#[test]
fn a_missing_entry_between_others_is_a_corruption() {
    let disk = Disk::new();
    let logs = RaftLogs::open_without_thread(&disk.options(), "/log").unwrap();
    let log = logs.group(1).unwrap();
    log.append([(0, "a"), (1, "b"), (3, "d")], |_| ()).unwrap();
    assert_eq!(log.entries(..2, 9).unwrap().len(), 2);
    assert!(log.entries(.., 9).unwrap_err().is_corruption());
}

#[test]
fn a_callback_that_panics_stops_the_logs_and_not_their_thread() {
    let disk = Disk::new();
    let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
    let log = logs.group(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    let panicking = sender.clone();
    let done = move |_: koeldb::Result<()>| {
        let _panicking = panicking;
        panic!("a callback");
    };
    log.append([(0, "a")], done).unwrap();
    let done = move |synced: koeldb::Result<()>| sender.send(synced.is_ok()).unwrap();
    // It is completed in any case, unless the logs fail already.
    let appended = log.append([(1, "b")], done);
    assert_eq!(receiver.recv().is_ok(), appended.is_ok());
    while log.append([(2, "c")], |_| ()).is_ok() {
        std::thread::yield_now();
    }
}
