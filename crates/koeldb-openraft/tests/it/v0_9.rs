//! The adapters to openraft 0.9: its storage suite, a log beside a state that is ahead, snapshots.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::fs::file::{Purpose, WriteOptions};
use koeldb::fs::{FileSystem, SurvivalPolicy};
use koeldb::{Env, Options};
use koeldb_openraft::v0_9::{LogStore, StateMachine};
use koeldb_openraft::{RaftLogs, SnapshotDir, StateStore};
use openraft_0_9::entry::RaftEntry;
use openraft_0_9::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft_0_9::testing::{StoreBuilder, Suite};
use openraft_0_9::{
    CommittedLeaderId, Entry, EntryPayload, LogId, RaftSnapshotBuilder, StorageError,
};

use crate::support::{Appending, Disk, Scratch};

openraft_0_9::declare_raft_types!(
    /// Strings as requests and answers.
    Stable:
        D = String,
        R = Option<String>,
        Node = openraft_0_9::EmptyNode,
        SnapshotData = SnapshotDir,
);

type Log = LogStore<Stable>;
type Machine = StateMachine<Stable, Appending>;

/// All stores are in one file system, and all logs in one database.
struct Shared {
    env: Env,
    path: PathBuf,
    logs: RaftLogs,
    next: AtomicU64,
}

impl Shared {
    fn new(env: Env, path: PathBuf) -> Self {
        let mut options = Options::new();
        options.set_env(&env);
        let logs = RaftLogs::open(&options, path.join("log")).unwrap();
        Shared {
            env,
            path,
            logs,
            next: AtomicU64::new(0),
        }
    }
}

impl StoreBuilder<Stable, Log, Machine> for Shared {
    async fn build(&self) -> Result<((), Log, Machine), StorageError<u64>> {
        let group = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(group.to_string());
        let state = StateStore::open(&self.env, &Options::new(), path).unwrap();
        let machine = StateMachine::new(state, Appending).unwrap();
        let log = LogStore::new(self.logs.group(group).unwrap(), None);
        Ok(((), log, machine))
    }
}

#[test]
fn the_suite_of_openraft_0_9_passes_on_files() {
    let scratch = Scratch::new("suite-0-9");
    Suite::test_all(Shared::new(Env::default(), scratch.0.clone())).unwrap();
}

#[test]
fn the_suite_of_openraft_0_9_passes_in_memory() {
    Suite::test_all(Shared::new(Disk::new().env(), "/node".into())).unwrap();
}

fn machine(disk: &Disk) -> Machine {
    let state = StateStore::open(&disk.env(), &Options::new(), "/state").unwrap();
    StateMachine::new(state, Appending).unwrap()
}

fn log(disk: &Disk, machine: &Machine) -> Log {
    let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
    LogStore::new(logs.group(3).unwrap(), Some(machine.durable_index()))
}

fn blank(term: u64, index: u64) -> Entry<Stable> {
    Entry::new_blank(LogId::new(CommittedLeaderId::new(term, 0), index))
}

/// The snapshot has the entries 0 to 4 of term 3; the log has others there, or fewer.
#[tokio::test]
async fn a_log_that_contradicts_the_state_gives_way_durably() {
    for (term, entries) in [(2, 8), (2, 3), (4, 8), (3, 3)] {
        let disk = Disk::new();
        let mut before = machine(&disk);
        let applied = (0..5).map(|index| blank(3, index));
        before.apply(applied).await.unwrap();
        let mut builder = before.get_snapshot_builder().await;
        let built = RaftSnapshotBuilder::<Stable>::build_snapshot(&mut builder);
        let last = built.await.unwrap().meta.last_log_id;
        assert_eq!(last, Some(blank(3, 4).log_id));
        drop((before, builder));
        let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
        let mut stale: Log = LogStore::new(logs.group(3).unwrap(), None);
        let others = (0..entries).map(|index| blank(term, index));
        stale.blocking_append(others).await.unwrap();
        stale
            .save_committed(Some(blank(term, 1).log_id))
            .await
            .unwrap();
        drop((stale, logs));

        let opened = machine(&disk);
        let mut given_way = log(&disk, &opened);
        assert_eq!(given_way.read_committed().await.unwrap(), None);
        drop(given_way);
        let disk = disk.cut(SurvivalPolicy::Strict, 0);
        let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
        let mut log: Log = LogStore::new(logs.group(3).unwrap(), None);
        let state = log.get_log_state().await.unwrap();
        assert_eq!(state.last_purged_log_id, last, "{term}, {entries}");
        assert_eq!(state.last_log_id, last, "{term}, {entries}");
    }
}

#[tokio::test]
async fn a_purge_ahead_of_the_snapshot_is_refused() {
    let disk = Disk::new();
    let mut machine = machine(&disk);
    let mut log = log(&disk, &machine);
    let entries = (0..5).map(|index| blank(1, index));
    log.blocking_append(entries.clone()).await.unwrap();
    machine.apply(entries).await.unwrap();
    assert!(log.purge(blank(1, 3).log_id).await.is_err());
    let mut builder = machine.get_snapshot_builder().await;
    let built = RaftSnapshotBuilder::<Stable>::build_snapshot(&mut builder);
    built.await.unwrap();
    log.purge(blank(1, 3).log_id).await.unwrap();
}

#[tokio::test]
async fn the_files_of_a_snapshot_are_installed_from_the_received_directory() {
    let (from, to) = (Disk::new(), Disk::new());
    let mut leader = machine(&from);
    let entries = (0..5).map(|index| Entry {
        log_id: blank(1, index).log_id,
        payload: EntryPayload::Normal(index.to_string()),
    });
    leader.apply(entries).await.unwrap();
    let mut builder = leader.get_snapshot_builder().await;
    let built: openraft_0_9::Snapshot<Stable> = builder.build_snapshot().await.unwrap();

    let mut follower = machine(&to);
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
    assert_eq!(
        follower.applied_state().await.unwrap().0,
        built.meta.last_log_id
    );
    assert_eq!(to.names("/state/snapshots").len(), 1);
}
