//! openraft's storage suite: on files, in memory, and with a power cut before each read.

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::fs::file::{Purpose, WriteOptions};
use koeldb::fs::{FileSystem, SurvivalPolicy};
use koeldb::{Env, Options};
use koeldb_openraft::{LogStore, RaftLogs, StateMachine, StateStore};
use openraft::entry::RaftEntry;
use openraft::storage::{LogFlushed, RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{
    CommittedLeaderId, Entry, EntryPayload, LogId, LogState, OptionalSend, RaftLogReader,
    RaftSnapshotBuilder, Snapshot, SnapshotMeta, StorageError, Vote,
};

use crate::support::{Appending, Disk, Scratch, Types};

type Machine = StateMachine<Types, Appending>;
type Log = LogStore<Types>;

fn machine(env: &Env, path: &Path) -> Machine {
    let state = StateStore::open(env, &Options::new(), path.join("state")).unwrap();
    StateMachine::new(state, Appending).unwrap()
}

fn id(term: u64, index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(term, 0), index)
}

fn blank(term: u64, index: u64) -> Entry<Types> {
    Entry::new_blank(id(term, index))
}

/// All stores are in one file system, and all logs in one database.
struct Shared {
    env: Env,
    path: PathBuf,
    logs: RaftLogs,
    next: Mutex<u64>,
}

impl Shared {
    fn new(env: Env, path: PathBuf) -> Self {
        let mut options = Options::new();
        options.set_env(&env);
        let logs = RaftLogs::open(&options, path.join("log")).unwrap();
        let next = Mutex::new(0);
        Shared {
            env,
            path,
            logs,
            next,
        }
    }
}

impl StoreBuilder<Types, Log, Machine> for Shared {
    async fn build(&self) -> Result<((), Log, Machine), StorageError<u64>> {
        let group = {
            let mut next = self.next.lock().unwrap();
            *next += 1;
            *next
        };
        let log = LogStore::new(self.logs.group(group).unwrap(), None);
        let machine = machine(&self.env, &self.path.join(group.to_string()));
        Ok(((), log, machine))
    }
}

#[test]
fn the_suite_passes_on_files_with_a_group_for_each_case() {
    let scratch = Scratch::new("suite");
    let builder = Shared::new(Env::default(), scratch.0.clone());
    Suite::test_all(builder).unwrap();
}

#[test]
fn the_suite_passes_in_memory_with_a_group_for_each_case() {
    let builder = Shared::new(Disk::new().env(), "/node".into());
    Suite::test_all(builder).unwrap();
}

/// A log that loses power before each read: what the calls promised is there nevertheless.
///
/// Purges and committed positions are durable with the next sync, so a vote is saved
/// before the cut.
#[derive(Clone)]
struct Dying {
    state: Arc<Mutex<Life>>,
}

struct Life {
    disk: Disk,
    log: Log,
    /// The last vote, and whether something was written behind it.
    vote: Option<Vote<u64>>,
    is_synced: bool,
    cuts: u64,
}

impl Life {
    fn new(disk: Disk) -> Self {
        let log = open(&disk);
        Life {
            disk,
            log,
            vote: None,
            is_synced: true,
            cuts: 0,
        }
    }
}

fn open(disk: &Disk) -> Log {
    let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
    LogStore::new(logs.group(3).unwrap(), None)
}

impl Dying {
    fn log(&self) -> Log {
        self.state.lock().unwrap().log.clone()
    }

    fn wrote(&self, is_synced: bool) {
        self.state.lock().unwrap().is_synced = is_synced;
    }

    /// Makes all earlier calls durable, without a change of what can be read.
    async fn settle(&self) -> Result<(), StorageError<u64>> {
        let (mut log, vote, is_synced) = {
            let state = self.state.lock().unwrap();
            (state.log.clone(), state.vote, state.is_synced)
        };
        match vote {
            _ if is_synced => Ok(()),
            Some(vote) => log.save_vote(&vote).await,
            None => log.blocking_append(Vec::<Entry<Types>>::new()).await,
        }
    }

    /// Cuts the power and opens the log again.
    async fn die(&self) -> Result<Log, StorageError<u64>> {
        self.settle().await?;
        let mut state = self.state.lock().unwrap();
        let policies = SurvivalPolicy::ALL;
        // The strictest one first: some cases read only once.
        let choice = usize::try_from(state.cuts).unwrap() % policies.len();
        let disk = state.disk.cut(policies[choice], state.cuts);
        state.cuts += 1;
        state.log = open(&disk);
        state.disk = disk;
        state.is_synced = true;
        Ok(state.log.clone())
    }
}

impl RaftLogReader<Types> for Dying {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry<Types>>, StorageError<u64>> {
        self.die().await?.try_get_log_entries(range).await
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry<Types>>, StorageError<u64>> {
        self.die().await?.limited_get_log_entries(start, end).await
    }
}

impl RaftLogStorage<Types> for Dying {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError<u64>> {
        self.die().await?.get_log_state().await
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<(), StorageError<u64>> {
        self.log().save_vote(vote).await?;
        self.state.lock().unwrap().vote = Some(*vote);
        self.wrote(true);
        Ok(())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>, StorageError<u64>> {
        self.die().await?.read_vote().await
    }

    async fn save_committed(
        &mut self,
        committed: Option<LogId<u64>>,
    ) -> Result<(), StorageError<u64>> {
        self.wrote(false);
        self.log().save_committed(committed).await
    }

    async fn read_committed(&mut self) -> Result<Option<LogId<u64>>, StorageError<u64>> {
        self.die().await?.read_committed().await
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<Types>,
    ) -> Result<(), StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        // The suite waits for the callback before it reads.
        self.wrote(true);
        self.log().append(entries, callback).await
    }

    async fn truncate(&mut self, first: LogId<u64>) -> Result<(), StorageError<u64>> {
        self.log().truncate(first).await?;
        self.wrote(true);
        Ok(())
    }

    async fn purge(&mut self, last: LogId<u64>) -> Result<(), StorageError<u64>> {
        self.wrote(false);
        self.log().purge(last).await
    }
}

struct Cut;

impl StoreBuilder<Types, Dying, Machine> for Cut {
    async fn build(&self) -> Result<((), Dying, Machine), StorageError<u64>> {
        let disk = Disk::new();
        let machine = machine(&disk.env(), "/".as_ref());
        let state = Arc::new(Mutex::new(Life::new(disk)));
        Ok(((), Dying { state }, machine))
    }
}

#[test]
fn the_suite_passes_with_a_power_cut_before_each_read() {
    Suite::test_all(Cut).unwrap();
}

async fn build(machine: &mut Machine) -> Snapshot<Types> {
    let mut builder = machine.get_snapshot_builder().await;
    RaftSnapshotBuilder::<Types>::build_snapshot(&mut builder)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_purge_beyond_the_durable_state_waits_for_it() {
    let disk = Disk::new();
    let mut machine = machine(&disk.env(), "/".as_ref());
    let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
    let mut log: Log = LogStore::new(logs.group(1).unwrap(), Some(machine.durable_index()));
    let entries = (0..10).map(|index| blank(1, index));
    log.blocking_append(entries.clone()).await.unwrap();
    machine.apply(entries.take(5)).await.unwrap();

    // Only memtables have it.
    log.purge(id(1, 0)).await.unwrap();
    assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 10);
    let snapshot = build(&mut machine).await;
    assert_eq!(snapshot.meta.last_log_id, Some(id(1, 4)));
    log.purge(id(1, 5)).await.unwrap();
    assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 10);
    log.purge(id(1, 4)).await.unwrap();
    assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 5);
    // Entries behind the position wait, until it is durable or that is not to be hoped for.
    let writer = log.clone();
    let append = |index| {
        let mut log = writer.clone();
        async move { log.blocking_append([blank(1, index)]).await }
    };
    let waiting = tokio::time::timeout(Duration::from_millis(50), append(10)).await;
    assert!(waiting.is_err(), "nothing has the entry 5 yet");
    machine
        .apply((5..10).map(|index| blank(1, index)))
        .await
        .unwrap();
    build(&mut machine).await;
    append(10).await.unwrap();
    let left = log.try_get_log_entries(..).await.unwrap();
    assert_eq!(left.first().map(|entry| entry.log_id), Some(id(1, 6)));
    assert_eq!(left.len(), 5);
    log.purge(id(1, 20)).await.unwrap();
    let received = machine.begin_receiving_snapshot().await.unwrap();
    let meta = SnapshotMeta {
        last_log_id: Some(id(1, 20)),
        ..SnapshotMeta::default()
    };
    machine.install_snapshot(&meta, received).await.unwrap_err();
    append(21).await.unwrap_err();
    assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 5);

    // A position that the log does not have, or has of another leader, is not committed here.
    log.save_committed(Some(id(1, 9))).await.unwrap();
    assert_eq!(log.read_committed().await.unwrap(), Some(id(1, 9)));
    for unknown in [id(2, 9), id(1, 11)] {
        log.save_committed(Some(unknown)).await.unwrap();
        assert_eq!(log.read_committed().await.unwrap(), None);
    }
}

/// A kill or a power cut may leave a log whose entries contradict the state: of another leader, too
/// few, or of another leader and more.
#[tokio::test]
async fn a_log_that_contradicts_the_state_gives_way_to_it() {
    for (term, entries) in [(2, 8), (2, 3), (2, 5), (4, 8), (3, 3), (3, 4)] {
        let disk = Disk::new();
        let mut before = machine(&disk.env(), "/".as_ref());
        let applied = (0..5).map(|index| blank(3, index));
        before.apply(applied).await.unwrap();
        build(&mut before).await;
        drop(before);
        let mut log = open(&disk);
        let stale = (0..entries).map(|index| blank(term, index));
        log.blocking_append(stale).await.unwrap();
        log.save_committed(Some(id(term, 1))).await.unwrap();
        drop(log);

        let machine = machine(&disk.env(), "/".as_ref());
        let durable = machine.durable_index();
        let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
        let group = logs.group(3).unwrap();
        let mut log: Log = LogStore::new(group, Some(durable.clone()));
        let committed = log.read_committed().await.unwrap();
        assert_eq!(committed, None, "{term}, {entries}");
        for _ in 0..2 {
            let state = log.get_log_state().await.unwrap();
            assert_eq!(state.last_purged_log_id, Some(id(3, 4)));
            assert_eq!(state.last_log_id, Some(id(3, 4)));
        }
        drop((log, logs));
        // That is durable, and what is appended next stays.
        let image = disk.cut(SurvivalPolicy::Strict, 0);
        let logs = RaftLogs::open(&image.options(), "/log").unwrap();
        let mut log: Log = LogStore::new(logs.group(3).unwrap(), Some(durable));
        let next = (5..7).map(|index| blank(4, index));
        log.blocking_append(next).await.unwrap();
        let state = log.get_log_state().await.unwrap();
        assert_eq!(state.last_purged_log_id, Some(id(3, 4)));
        assert_eq!(state.last_log_id, Some(id(4, 6)));
    }
}

#[tokio::test]
async fn a_vote_is_read_as_not_granted() {
    let mut log = open(&Disk::new());
    log.save_vote(&Vote::new_committed(3, 1)).await.unwrap();
    assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new(3, 1)));
}

/// openraft replicates the ranges that it chose before a purge: the rest of one would leave a hole.
#[tokio::test]
async fn a_range_that_is_purged_in_part_is_not_replicated() {
    let mut log = open(&Disk::new());
    let entries = (0..10).map(|index| blank(1, index));
    log.blocking_append(entries).await.unwrap();
    log.purge(id(1, 5)).await.unwrap();
    assert!(log.limited_get_log_entries(3, 9).await.unwrap().is_empty());
    let whole = log.limited_get_log_entries(6, 9).await.unwrap();
    assert_eq!(whole, [blank(1, 6), blank(1, 7), blank(1, 8)]);
}

#[tokio::test]
async fn a_truncation_survives_a_power_cut() {
    let disk = Disk::new();
    let mut log = open(&disk);
    let entries = (0..10).map(|index| blank(1, index));
    log.blocking_append(entries).await.unwrap();
    log.truncate(id(1, 5)).await.unwrap();
    let mut log = open(&disk.cut(SurvivalPolicy::Strict, 0));
    let state = log.get_log_state().await.unwrap();
    assert_eq!(state.last_log_id, Some(id(1, 4)));
}

/// Cuts the power at each operation of an installation.
#[tokio::test]
async fn a_started_node_has_the_state_of_its_newest_snapshot() {
    let (source, before) = (Disk::new(), Disk::new());
    let mut leader = machine(&source.env(), "/".as_ref());
    leader
        .apply((0..9).map(|index| blank(1, index)))
        .await
        .unwrap();
    let built = build(&mut leader).await;
    let mut follower = machine(&before.env(), "/".as_ref());
    follower
        .apply((0..4).map(|index| blank(1, index)))
        .await
        .unwrap();
    build(&mut follower).await;
    drop(follower);

    let mut is_repeated = false;
    for at in 1.. {
        let disk = before.cut(SurvivalPolicy::Generous, 0);
        let mut follower = machine(&disk.env(), "/".as_ref());
        disk.fs.arm_crash(disk.fs.operation_count() + at);
        let snapshot = Box::new((*built.snapshot).clone());
        let installed = follower.install_snapshot(&built.meta, snapshot).await;
        drop(follower);
        let has_crashed = disk.fs.has_crashed();
        for policy in [SurvivalPolicy::Strict, SurvivalPolicy::Generous] {
            let image = disk.cut(policy, at);
            let mut follower = machine(&image.env(), "/".as_ref());
            let (last, _) = follower.applied_state().await.unwrap();
            let snapshot = follower.get_current_snapshot().await.unwrap().unwrap();
            assert_eq!(
                snapshot.meta.last_log_id, last,
                "operation {at}, {policy:?}"
            );
            is_repeated |= installed.is_err() && last == Some(id(1, 8));
        }
        if !has_crashed {
            break;
        }
    }
    assert!(is_repeated);
}

#[tokio::test]
async fn the_files_of_a_snapshot_are_installed_from_the_received_directory() {
    let (from, to) = (Disk::new(), Disk::new());
    let mut leader = machine(&from.env(), "/".as_ref());
    let entries = (0..5).map(|index| Entry {
        log_id: id(1, index),
        payload: EntryPayload::Normal(index.to_string()),
    });
    leader.apply(entries).await.unwrap();
    let built = build(&mut leader).await;

    let mut follower = machine(&to.env(), "/".as_ref());
    let received = follower.begin_receiving_snapshot().await.unwrap();
    for file in built.snapshot.files().unwrap() {
        let path = built.snapshot.path().join(&file.name);
        let bytes = from.fs.read_all(&path, u64::MAX, Purpose::Other).unwrap();
        let options = WriteOptions::new(Purpose::Other);
        let path = received.path().join(&file.name);
        let mut copy = to.fs.create(&path, &options).unwrap();
        copy.append(&bytes).unwrap();
        copy.close().unwrap();
    }
    follower
        .install_snapshot(&built.meta, received)
        .await
        .unwrap();
    let (last, _) = follower.applied_state().await.unwrap();
    assert_eq!(last, built.meta.last_log_id);
    assert_eq!(to.names("/state/snapshots").len(), 1);
}
