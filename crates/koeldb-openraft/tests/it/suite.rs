//! openraft's storage suite: on files, in memory, and with a power cut before each read.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use koeldb::fs::SurvivalPolicy;
use koeldb::{Env, Options};
use koeldb_openraft::{LogStore, RaftLogs, StateMachine, StateStore};
use openraft::alias::{EntryOf, LeaderIdOf, LogIdOf, VoteOf};
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::vote::RaftLeaderIdExt;
use openraft::{LogState, OptionalSend, RaftLogReader, RaftSnapshotBuilder, StorageError};

use crate::support::{Appending, Disk, Scratch, Types};

type Machine = StateMachine<Types, Appending>;
type Log = LogStore<Types>;

fn run<F: Future>(suite: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // The suite waits for purges in the background, which there are none of.
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(suite)
}

fn machine(env: &Env, path: &Path) -> Machine {
    let state = StateStore::open(env, &Options::new(), path.join("state")).unwrap();
    StateMachine::new(state, Appending).unwrap()
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

impl StoreBuilder<Types, Log, Machine, ()> for Shared {
    async fn build(&self) -> Result<((), Log, Machine), StorageError<Types>> {
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
    run(Suite::test_all(builder)).unwrap();
}

#[test]
fn the_suite_passes_in_memory_with_a_group_for_each_case() {
    let builder = Shared::new(Disk::new().env(), "/node".into());
    run(Suite::test_all(builder)).unwrap();
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
    vote: Option<VoteOf<Types>>,
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
    async fn settle(&self) -> io::Result<()> {
        let (mut log, vote, is_synced) = {
            let state = self.state.lock().unwrap();
            (state.log.clone(), state.vote, state.is_synced)
        };
        match vote {
            _ if is_synced => Ok(()),
            Some(vote) => log.save_vote(&vote).await,
            None => {
                let synced = log.blocking_append(Vec::<EntryOf<Types>>::new()).await;
                synced.map_err(io::Error::other)
            }
        }
    }

    /// Cuts the power and opens the log again.
    async fn die(&self) -> io::Result<Log> {
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
    ) -> io::Result<Vec<EntryOf<Types>>> {
        self.die().await?.try_get_log_entries(range).await
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> io::Result<Vec<EntryOf<Types>>> {
        self.die().await?.limited_get_log_entries(start, end).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<Types>>> {
        self.die().await?.read_vote().await
    }
}

impl RaftLogStorage<Types> for Dying {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        self.die().await?.get_log_state().await
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<Types>) -> io::Result<()> {
        self.log().save_vote(vote).await?;
        self.state.lock().unwrap().vote = Some(*vote);
        self.wrote(true);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<Types>>) -> io::Result<()> {
        self.wrote(false);
        self.log().save_committed(committed).await
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<Types>>> {
        self.die().await?.read_committed().await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        // The suite waits for the callback before it reads.
        self.wrote(true);
        self.log().append(entries, callback).await
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<Types>>) -> io::Result<()> {
        self.log().truncate_after(last).await?;
        self.wrote(true);
        Ok(())
    }

    async fn purge(&mut self, last: LogIdOf<Types>) -> io::Result<()> {
        self.wrote(false);
        self.log().purge(last).await
    }
}

struct Cut;

impl StoreBuilder<Types, Dying, Machine, ()> for Cut {
    async fn build(&self) -> Result<((), Dying, Machine), StorageError<Types>> {
        let disk = Disk::new();
        let machine = machine(&disk.env(), "/".as_ref());
        let state = Arc::new(Mutex::new(Life::new(disk)));
        Ok(((), Dying { state }, machine))
    }
}

#[test]
fn the_suite_passes_with_a_power_cut_before_each_read() {
    run(Suite::test_all(Cut)).unwrap();
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
fn a_purge_beyond_the_durable_state_is_refused() {
    run(async {
        let disk = Disk::new();
        let mut machine = machine(&disk.env(), "/".as_ref());
        let logs = RaftLogs::open(&disk.options(), "/log").unwrap();
        let mut log: Log = LogStore::new(logs.group(1).unwrap(), Some(machine.durable_index()));
        let id = |index| LogIdOf::<Types>::new(LeaderIdOf::<Types>::new_committed(1, 0), index);
        let blank = |index| EntryOf::<Types>::new_blank(id(index));
        log.blocking_append((0..10).map(blank)).await.unwrap();
        let applied = (0..5).map(|index| Ok((blank(index), None)));
        machine.apply(Ready(applied)).await.unwrap();

        assert!(log.purge(id(0)).await.is_err(), "only memtables have it");
        let mut builder = machine.try_create_snapshot_builder(true).await.unwrap();
        let built = RaftSnapshotBuilder::<Types>::build_snapshot(&mut builder);
        let snapshot = built.await.unwrap();
        assert_eq!(snapshot.meta.last_log_id, Some(id(4)));
        assert!(log.purge(id(5)).await.is_err());
        log.purge(id(4)).await.unwrap();
        assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 5);

        // A position that the log does not have, or has of another leader, is not committed here.
        log.save_committed(Some(id(9))).await.unwrap();
        assert_eq!(log.read_committed().await.unwrap(), Some(id(9)));
        let other = LogIdOf::<Types>::new(LeaderIdOf::<Types>::new_committed(2, 0), 9);
        for unknown in [other, id(10)] {
            log.save_committed(Some(unknown)).await.unwrap();
            assert_eq!(log.read_committed().await.unwrap(), None);
        }
    });
}

/// A kill or a power cut may leave a log whose entries contradict the state: of another leader, too
/// few, or of another leader and more.
#[test]
fn a_log_that_contradicts_the_state_gives_way_to_it() {
    run(async {
        let id =
            |term, index| LogIdOf::<Types>::new(LeaderIdOf::<Types>::new_committed(term, 0), index);
        let blank = |id| EntryOf::<Types>::new_blank(id);
        for (term, entries) in [(2, 8), (2, 3), (2, 5), (4, 8), (3, 3), (3, 4)] {
            let disk = Disk::new();
            let mut before = machine(&disk.env(), "/".as_ref());
            let applied = (0..5).map(|index| Ok((blank(id(3, index)), None)));
            before.apply(Ready(applied)).await.unwrap();
            let mut builder = before.try_create_snapshot_builder(true).await.unwrap();
            let built = RaftSnapshotBuilder::<Types>::build_snapshot(&mut builder);
            built.await.unwrap();
            drop((before, builder));
            let mut log = open(&disk);
            let stale = (0..entries).map(|index| blank(id(term, index)));
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
            let next = (5..7).map(|index| blank(id(4, index)));
            log.blocking_append(next).await.unwrap();
            let state = log.get_log_state().await.unwrap();
            assert_eq!(state.last_purged_log_id, Some(id(3, 4)));
            assert_eq!(state.last_log_id, Some(id(4, 6)));
        }
    });
}

#[test]
fn a_truncation_survives_a_power_cut() {
    run(async {
        let disk = Disk::new();
        let id = |index| LogIdOf::<Types>::new(LeaderIdOf::<Types>::new_committed(1, 0), index);
        let mut log = open(&disk);
        let entries = (0..10).map(|index| EntryOf::<Types>::new_blank(id(index)));
        log.blocking_append(entries).await.unwrap();
        log.truncate_after(Some(id(4))).await.unwrap();
        let mut log = open(&disk.cut(SurvivalPolicy::Strict, 0));
        let state = log.get_log_state().await.unwrap();
        assert_eq!(state.last_log_id, Some(id(4)));
    });
}
