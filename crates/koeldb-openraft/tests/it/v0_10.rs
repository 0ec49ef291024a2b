//! The adapters to openraft 0.10: its storage suite, purges, and a log beside a state that is ahead.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use koeldb::Options;
use koeldb_openraft::v0_10::{LogStore, StateMachine};
use koeldb_openraft::{RaftLogs, StateStore};
use openraft_0_10::alias::{EntryOf, LeaderIdOf, LogIdOf, SnapshotOf};
use openraft_0_10::entry::RaftEntry;
use openraft_0_10::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft_0_10::testing::log::{StoreBuilder, Suite};
use openraft_0_10::vote::RaftLeaderIdExt;
use openraft_0_10::{RaftLogReader, RaftSnapshotBuilder, StorageError};

use crate::support::{Appending, Disk};

openraft_0_10::declare_raft_types!(
    /// Strings as requests and answers.
    Types:
        D = String,
        R = Option<String>,
        NodeId = u64,
        Node = openraft_0_10::impls::BasicNode,
        LeaderId = openraft_0_10::impls::leader_id_std::LeaderId<u64, u64>,
);

type Machine = StateMachine<Types, Appending>;
type Log = LogStore<Types>;

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // The suite waits for purges in the background, which there are none of.
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(test)
}

fn id(term: u64, index: u64) -> LogIdOf<Types> {
    LogIdOf::<Types>::new(LeaderIdOf::<Types>::new_committed(term, 0), index)
}

fn blank(term: u64, index: u64) -> EntryOf<Types> {
    EntryOf::<Types>::new_blank(id(term, index))
}

fn machine(disk: &Disk, path: &str) -> Machine {
    let state = StateStore::open(&disk.env(), &Options::new(), path).unwrap();
    StateMachine::new(state, Appending).unwrap()
}

async fn apply(machine: &mut Machine, entries: impl Iterator<Item = EntryOf<Types>> + Send) {
    let entries: Vec<_> = entries.map(|entry| Ok((entry, None))).collect();
    machine.apply(Ready(entries.into_iter())).await.unwrap();
}

async fn build(machine: &mut Machine) -> SnapshotOf<Types, koeldb_openraft::SnapshotDir> {
    let mut builder = machine.try_create_snapshot_builder(true).await.unwrap();
    RaftSnapshotBuilder::<Types>::build_snapshot(&mut builder)
        .await
        .unwrap()
}

/// All stores are on one disk, and all logs in one database.
struct Shared {
    disk: Disk,
    logs: RaftLogs,
    next: AtomicU64,
}

impl StoreBuilder<Types, Log, Machine, ()> for Shared {
    async fn build(&self) -> Result<((), Log, Machine), StorageError<Types>> {
        let group = self.next.fetch_add(1, Ordering::Relaxed);
        let log = LogStore::new(self.logs.group(group).unwrap(), None);
        Ok(((), log, machine(&self.disk, &format!("/{group}"))))
    }
}

#[test]
fn the_suite_of_openraft_0_10_passes() {
    let disk = Disk::new();
    let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
    let next = AtomicU64::new(0);
    run(Suite::test_all(Shared { disk, logs, next })).unwrap();
}

/// A stream that is always ready.
struct Ready<I>(I);

impl<I: Iterator + Unpin> futures_core::Stream for Ready<I> {
    type Item = I::Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
        Poll::Ready(self.0.next())
    }
}

#[test]
fn a_purge_beyond_the_durable_state_waits_for_it() {
    run(async {
        let disk = Disk::new();
        let mut machine = machine(&disk, "/state");
        let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
        let mut log: Log = LogStore::new(logs.group(1).unwrap(), Some(machine.durable_index()));
        let entries = (0..10).map(|index| blank(1, index));
        log.blocking_append(entries.clone()).await.unwrap();
        apply(&mut machine, entries.take(5)).await;

        log.purge(id(1, 0)).await.unwrap();
        let left = log.try_get_log_entries(..).await.unwrap();
        assert_eq!(left.len(), 10, "only memtables have the first");
        let snapshot = build(&mut machine).await;
        assert_eq!(snapshot.meta.last_log_id, Some(id(1, 4)));
        log.purge(id(1, 5)).await.unwrap();
        assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 10);
        log.purge(id(1, 4)).await.unwrap();
        assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 5);
    });
}

#[test]
fn a_log_that_contradicts_the_state_gives_way_to_it() {
    run(async {
        for (term, entries) in [(2, 8), (2, 3), (4, 8), (3, 3)] {
            let disk = Disk::new();
            let mut before = machine(&disk, "/state");
            apply(&mut before, (0..5).map(|index| blank(3, index))).await;
            build(&mut before).await;
            drop(before);
            let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
            let mut log: Log = LogStore::new(logs.group(3).unwrap(), None);
            let stale = (0..entries).map(|index| blank(term, index));
            log.blocking_append(stale).await.unwrap();
            log.save_committed(Some(id(term, 1))).await.unwrap();
            drop((log, logs));

            let durable = machine(&disk, "/state").durable_index();
            let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
            let mut log: Log = LogStore::new(logs.group(3).unwrap(), Some(durable));
            assert_eq!(log.read_committed().await.unwrap(), None);
            let state = log.get_log_state().await.unwrap();
            assert_eq!(state.last_purged_log_id, Some(id(3, 4)));
            assert_eq!(state.last_log_id, Some(id(3, 4)));
        }
    });
}
