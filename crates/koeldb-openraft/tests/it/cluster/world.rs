//! Machines and the network between them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use koeldb::fs::file::{Purpose, WriteOptions};
use koeldb::fs::{
    Failure, FaultFileSystem, FaultRule, ManualClock, MemoryFileSystem, SurvivalPolicy,
};
use koeldb::{Env, Options};
use koeldb_openraft::{
    Application, Encoding, LogStore, Postcard, RaftLogs, SnapshotDir, StateBatch, StateMachine,
    StateStore,
};
use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, RemoteError, ReplicationClosed, StreamingError,
};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{
    BasicNode, Config, Entry, LogId, OptionalSend, Raft, Snapshot, SnapshotPolicy,
    StoredMembership, Vote,
};
use serde::{Deserialize, Serialize};

use super::runtime::{Simulated, below, chance, pause};

openraft::declare_raft_types!(
    /// A register for each key.
    pub(super) Types:
        D = Request,
        R = Answer,
        SnapshotData = SnapshotDir,
        AsyncRuntime = Simulated,
);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Put(u64, Option<u64>),
    Swap(u64, Option<u64>, u64),
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer(pub(super) bool);

/// The registers, and a digest of all requests in their order.
pub(super) struct Registers {
    /// The digest after each number of requests, on whichever machine came there first.
    digests: Arc<Mutex<BTreeMap<u64, u64>>>,
}

fn number(value: Option<koeldb::PinnedSlice>) -> Option<u64> {
    let value = value.filter(|value| !value.is_empty())?;
    Some(u64::from_le_bytes(value.as_ref().try_into().unwrap()))
}

pub(super) fn read(state: &StateStore, key: u64) -> koeldb::Result<Option<u64>> {
    Ok(number(state.db().get(key.to_le_bytes())?))
}

impl Application for Registers {
    type Request = Request;
    type Response = Answer;

    fn apply(&self, state: &mut StateBatch, request: &Request) -> io::Result<Answer> {
        let count = number(state.get("count")?).unwrap_or(0) + 1;
        let digest = number(state.get("digest")?).unwrap_or(0);
        let digest = request.to_string().bytes().fold(digest, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let known = *self.digests.lock().unwrap().entry(count).or_insert(digest);
        assert_eq!(
            known, digest,
            "request {count} differs between machines: {request}"
        );
        state.put("count", count.to_le_bytes());
        state.put("digest", digest.to_le_bytes());
        let (key, value, is_done) = match *request {
            Request::Put(key, value) => (key, value, true),
            Request::Swap(key, expected, value) => {
                let is_equal = number(state.get(key.to_le_bytes())?) == expected;
                (key, Some(value), is_equal)
            }
        };
        match value {
            Some(value) if is_done => state.put(key.to_le_bytes(), value.to_le_bytes()),
            None => state.delete(key.to_le_bytes()),
            Some(_) => {}
        }
        Ok(Answer(is_done))
    }
}

type Machine = StateMachine<Types, Registers>;
pub(super) type Node = Raft<Types>;

/// A running process.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) raft: Node,
    pub(super) state: StateStore,
    logs: RaftLogs,
    env: Env,
    faults: FaultFileSystem,
    /// The number of this process among those of its machine.
    number: u64,
}

impl Process {
    /// The index up to which the log is purged, and that up to which the state has it; nothing from a
    /// disk without power.
    ///
    /// openraft's metrics count a purge that waits for a snapshot as done.
    pub(super) fn purged_and_applied(&self) -> Option<(Option<u64>, Option<u64>)> {
        let purged = self.logs.group(1).ok()?.purged().ok()?;
        let applied = self.state.applied().ok()?;
        let applied = applied.and_then(|applied| {
            let (last, _): (Option<LogId<u64>>, StoredMembership<u64, BasicNode>) =
                Postcard::decode(&applied).unwrap();
            last
        });
        Some((purged.map(|(index, _)| index), applied.map(|id| id.index)))
    }
}

struct Host {
    disk: MemoryFileSystem,
    process: Option<Process>,
    next: u64,
    /// The longest time between two syncs.
    sync_millis: u64,
}

struct State {
    hosts: BTreeMap<u64, Host>,
    /// Machines that reach only each other.
    island: BTreeSet<u64>,
    loss_percent: u64,
    delay_millis: u64,
}

/// All machines, numbered from 1.
#[derive(Clone)]
pub(super) struct World {
    state: Arc<Mutex<State>>,
    digests: Arc<Mutex<BTreeMap<u64, u64>>>,
}

impl World {
    pub(super) fn new(machines: u64) -> Self {
        let host = || Host {
            disk: MemoryFileSystem::with_clock(Arc::new(ManualClock::new())),
            process: None,
            next: 0,
            sync_millis: 3,
        };
        World {
            state: Arc::new(Mutex::new(State {
                hosts: (1..=machines).map(|id| (id, host())).collect(),
                island: BTreeSet::new(),
                loss_percent: 0,
                delay_millis: 3,
            })),
            digests: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The process of a machine, unless it is down.
    pub(super) fn process(&self, id: u64) -> Option<Process> {
        let state = self.state();
        let host = &state.hosts[&id];
        host.process.clone().filter(|_| !host.disk.has_crashed())
    }

    fn is_current(&self, id: u64, number: u64) -> bool {
        self.process(id)
            .is_some_and(|process| process.number == number)
    }

    /// Starts the process of a machine.
    pub(super) async fn start(&self, id: u64) {
        let (disk, number) = {
            let mut state = self.state();
            let host = state.hosts.get_mut(&id).unwrap();
            host.next += 1;
            host.sync_millis = 3;
            (host.disk.clone(), host.next)
        };
        disk.set_byte_budget(None);
        let clock = Arc::new(ManualClock::new());
        let faults = FaultFileSystem::new(Arc::new(disk), below(1 << 32));
        let env = Env::stepped(Arc::new(faults.clone()), clock, below(1 << 32));
        let mut options = Options::new();
        options.set_env(&env).set_write_buffer_size(64 << 10);
        let state = StateStore::open_without_threads(&env, &options, "/state").unwrap();
        let digests = Arc::clone(&self.digests);
        let machine: Machine = StateMachine::new(state.clone(), Registers { digests }).unwrap();
        let logs = RaftLogs::open_without_thread(&options, "/log").unwrap();
        let log = LogStore::new(logs.group(1).unwrap(), Some(machine.durable_index()));
        let config = Config {
            heartbeat_interval: 40,
            election_timeout_min: 150,
            election_timeout_max: 300,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(40),
            max_in_snapshot_log_to_keep: 5,
            install_snapshot_timeout: 500,
            ..Config::default()
        };
        let network = Network {
            world: self.clone(),
            from: id,
            number,
        };
        let config = Arc::new(config.validate().unwrap());
        let mut starting = std::pin::pin!(Raft::new(id, config, network, log, machine));
        let raft = loop {
            tokio::select! {
                raft = &mut starting => break raft,
                () = pause(1) => {
                    logs.sync_waiting();
                }
            }
        };
        let raft = raft.unwrap_or_else(|error| panic!("machine {id} does not start: {error}"));
        check_log(id, &logs, &state);
        let process = Process {
            raft,
            state,
            logs,
            env,
            faults,
            number,
        };
        self.state().hosts.get_mut(&id).unwrap().process = Some(process.clone());
        tokio::spawn(self.clone().work(id, process));
    }

    /// Syncs and background jobs of a process.
    async fn work(self, id: u64, process: Process) {
        while self.is_current(id, process.number) {
            let longest = self.state().hosts[&id].sync_millis;
            pause(1 + below(longest)).await;
            process.logs.sync_waiting();
            while below(3) > 0 && process.env.step() {}
        }
    }

    /// Ends the process of a machine; its disk is what survives `policy`.
    pub(super) fn stop(&self, id: u64, policy: SurvivalPolicy) {
        let mut state = self.state();
        let host = state.hosts.get_mut(&id).unwrap();
        let disk = host.disk.crash_image(policy, below(1 << 32));
        // What the process still does, it does nowhere.
        host.disk.arm_crash(0);
        host.disk = disk;
        if let Some(process) = host.process.take() {
            tokio::spawn(async move { process.raft.shutdown().await });
        }
    }

    pub(super) fn is_down(&self, id: u64) -> bool {
        match self.process(id) {
            None => true,
            Some(process) => process.raft.metrics().borrow().running_state.is_err(),
        }
    }

    /// Cuts the power at a random one of the next operations on the disk.
    pub(super) fn arm_power_cut(&self, id: u64) {
        let disk = self.state().hosts[&id].disk.clone();
        disk.arm_crash(disk.operation_count() + 1 + below(40));
    }

    /// Takes back a power cut that has not happened yet, and the limit of a disk.
    pub(super) fn mend(&self, id: u64) {
        let disk = self.state().hosts[&id].disk.clone();
        if !disk.has_crashed() {
            disk.arm_crash(u64::MAX);
        }
        disk.set_byte_budget(None);
    }

    pub(super) fn fail_syncs(&self, id: u64) {
        if let Some(process) = self.process(id) {
            let rule = FaultRule::fail(Failure::Device).on_syncs().limit(1);
            process.faults.add_rule(rule);
        }
    }

    pub(super) fn fill_disk(&self, id: u64) {
        let disk = self.state().hosts[&id].disk.clone();
        disk.set_byte_budget(Some(disk.bytes_used() + below(4_000)));
    }

    pub(super) fn slow_disk(&self, id: u64, millis: u64) {
        self.state().hosts.get_mut(&id).unwrap().sync_millis = millis;
    }

    pub(super) fn part(&self, island: BTreeSet<u64>) {
        self.state().island = island;
    }

    pub(super) fn set_network(&self, loss_percent: u64, delay_millis: u64) {
        let mut state = self.state();
        (state.loss_percent, state.delay_millis) = (loss_percent, delay_millis);
    }

    /// Carries a message one way; `None` if it is lost.
    async fn carry(&self, from: (u64, u64), to: u64) -> Option<Process> {
        let (delay, is_lost) = {
            let state = self.state();
            (below(state.delay_millis + 1), chance(state.loss_percent))
        };
        pause(delay).await;
        let is_cut = {
            let state = self.state();
            state.island.contains(&from.0) != state.island.contains(&to)
        };
        let is_passed = !is_cut && !is_lost && self.is_current(from.0, from.1);
        self.process(to).filter(|_| is_passed)
    }
}

/// The log has the last applied entry, unless it has purged it.
fn check_log(id: u64, logs: &RaftLogs, state: &StateStore) {
    let log = logs.group(1).unwrap();
    let Some(applied) = state.applied().unwrap() else {
        return;
    };
    let applied: (Option<LogId<u64>>, StoredMembership<u64, BasicNode>) =
        Postcard::decode(&applied).unwrap();
    let Some(applied) = applied.0 else {
        return;
    };
    if let Some((last, position)) = log.purged().unwrap()
        && last >= applied.index
    {
        let position: LogId<u64> = Postcard::decode(&position).unwrap();
        assert!(last > applied.index || position == applied, "machine {id}");
        return;
    }
    let index = applied.index;
    let entries = log.entries(index..=index, usize::MAX).unwrap();
    let found = entries.first().map(|(_, entry)| {
        let entry: Entry<Types> = Postcard::decode(entry).unwrap();
        entry.log_id
    });
    assert_eq!(found, Some(applied), "machine {id} at {index}");
}

fn lost() -> NetworkError {
    NetworkError::new(&io::Error::other("lost"))
}

/// The way from one process to another machine.
#[derive(Clone)]
pub(super) struct Network {
    world: World,
    from: u64,
    number: u64,
}

pub(super) struct Way {
    network: Network,
    to: u64,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Way;

    async fn new_client(&mut self, to: u64, _: &BasicNode) -> Way {
        let network = self.clone();
        Way { network, to }
    }
}

/// A call of another machine that failed: its message or the answer is lost, or it refuses.
enum Failed<E> {
    Lost,
    Refused(E),
}

impl<E: std::error::Error> Failed<E> {
    fn rpc(self, to: u64) -> RPCError<u64, BasicNode, E> {
        match self {
            Failed::Lost => lost().into(),
            Failed::Refused(error) => RemoteError::new(to, error).into(),
        }
    }
}

impl Way {
    async fn call<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        option: &RPCOption,
        call: impl FnOnce(Process) -> F,
    ) -> Result<T, Failed<E>> {
        let Network {
            world,
            from,
            number,
        } = &self.network;
        let exchange = async {
            // openraft repeats failed calls immediately, so failures take time.
            pause(1).await;
            let receiver = world.carry((*from, *number), self.to).await;
            let receiver = receiver.ok_or(Failed::Lost)?;
            let answer = call(receiver.clone()).await.map_err(Failed::Refused)?;
            let back = world.carry((self.to, receiver.number), *from).await;
            match back {
                Some(back) if back.number == *number => Ok(answer),
                _ => Err(Failed::Lost),
            }
        };
        match tokio::time::timeout(option.hard_ttl(), exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(Failed::Lost),
        }
    }
}

/// Copies the files of a snapshot to the directory in which another machine receives it.
async fn send(
    from: &Process,
    snapshot: &SnapshotDir,
    to: &Process,
    received: &SnapshotDir,
) -> koeldb::Result<()> {
    for file in snapshot.files()? {
        let path = snapshot.path().join(&file.name);
        let bytes = from
            .env
            .file_system()
            .read_all(&path, u64::MAX, Purpose::Other)?;
        pause(below(20)).await;
        let path = received.path().join(&file.name);
        let options = WriteOptions::new(Purpose::Other);
        let mut copy = to.env.file_system().create(&path, &options)?;
        copy.append(&bytes)?;
        copy.close()?;
    }
    Ok(())
}

impl RaftNetwork<Types> for Way {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        let call = async |receiver: Process| receiver.raft.append_entries(rpc).await;
        let answer = self.call(&option, call).await;
        answer.map_err(|failed| failed.rpc(self.to))
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        let call = async |receiver: Process| receiver.raft.vote(rpc).await;
        let answer = self.call(&option, call).await;
        answer.map_err(|failed| failed.rpc(self.to))
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote<u64>,
        snapshot: Snapshot<Types>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<Types, Fatal<u64>>> {
        let Network { world, from, .. } = &self.network;
        let call = async |receiver: Process| {
            let sender = world.process(*from).ok_or(Fatal::Stopped)?;
            let received = receiver.raft.begin_receiving_snapshot().await;
            let received = received.map_err(|_| Fatal::Stopped)?;
            let sent = send(&sender, &snapshot.snapshot, &receiver, &received).await;
            sent.map_err(|_| Fatal::Stopped)?;
            let meta = snapshot.meta.clone();
            let snapshot = Snapshot {
                meta,
                snapshot: received,
            };
            receiver.raft.install_full_snapshot(vote, snapshot).await
        };
        match self.call(&option, call).await {
            Ok(answer) => Ok(answer),
            Err(Failed::Lost) => Err(lost().into()),
            Err(Failed::Refused(error)) => Err(RemoteError::new(self.to, error).into()),
        }
    }
}
