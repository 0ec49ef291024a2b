//! A node: both stores, openraft, and a port.

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use koeldb::{Env, Options};
use openraft::errors::{ClientWriteError, LinearizableReadError, RaftError};
use openraft::impls::BasicNode;

use openraft::storage::Snapshot;
use openraft::{AppData, AppDataResponse, ChangeMembers, Config, Raft, ReadPolicy};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::frame;
use super::message::{Message, Reply};
use super::network::Connections;
use super::receive::Receiver;
use super::types::{Machine, Types};
use crate::application::Application;
use crate::log_store::LogStore;
use crate::logs::RaftLogs;
use crate::state::StateStore;

/// The largest request of a client. Entries travel between nodes in frames of limited size.
const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// A running node of a cluster with one Raft group.
pub struct Node<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    shared: Arc<Shared<A>>,
    server: JoinHandle<()>,
}

/// The state that a [`Node`] shares with the tasks that serve its connections.
struct Shared<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    raft: Raft<Types<A>, Machine<A>>,
    state: StateStore,
    logs: RaftLogs,
    receiver: Receiver,
}

impl<A> Node<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Opens or creates the node's stores in `directory`, and serves `address` until it is dropped.
    ///
    /// A new node belongs to no cluster: [`Node::initialize`] it, or have it added by
    /// [`Client::add_node`](super::Client::add_node). `enable_leader_restore` of `config` is
    /// switched off: see the crate's documentation.
    ///
    /// # Errors
    /// If the stores cannot be opened, the address is in use, or openraft cannot start.
    pub async fn start(
        id: u64,
        address: &str,
        directory: impl AsRef<Path>,
        options: &Options,
        mut config: Config,
        application: A,
    ) -> io::Result<Self> {
        // It could have lost the end of its log, and would number other entries the same.
        config.enable_leader_restore = Some(false);
        let config = Arc::new(config.validate().map_err(io::Error::other)?);
        let directory = directory.as_ref();
        let state = StateStore::open(&Env::default(), options, directory.join("state"))?;
        let machine: Machine<A> = Machine::new(state.clone(), application)?;
        let logs = RaftLogs::open(options, directory.join("log"))?;
        let log = LogStore::new(logs.group(0)?, Some(machine.durable_index()));
        let listener = TcpListener::bind(address).await?;
        let connections = Connections(PhantomData);
        let raft = Raft::new(id, config, connections, log, machine).await;
        let shared = Arc::new(Shared {
            raft: raft.map_err(io::Error::other)?,
            receiver: Receiver::new(state.clone()),
            state,
            logs,
        });
        let server = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Node { shared, server })
    }

    /// Creates a new cluster whose only member is this node, at `address`.
    ///
    /// # Errors
    /// If it belongs to a cluster already.
    pub async fn initialize(&self, address: &str) -> io::Result<()> {
        let id = *self.shared.raft.node_id();
        let nodes = [(id, BasicNode::new(address))];
        let nodes = std::collections::BTreeMap::from(nodes);
        let initialized = self.shared.raft.initialize(nodes).await;
        initialized.map_err(io::Error::other)
    }

    /// Returns whether the node belongs to a cluster.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn is_initialized(&self) -> io::Result<bool> {
        let initialized = self.shared.raft.is_initialized().await;
        initialized.map_err(io::Error::other)
    }

    /// Returns openraft's handle, for metrics, snapshots, elections and membership.
    #[must_use]
    pub fn raft(&self) -> &Raft<Types<A>, Machine<A>> {
        &self.shared.raft
    }

    /// Returns the state of this node, for local reads, which may be stale.
    #[must_use]
    pub fn state(&self) -> &StateStore {
        &self.shared.state
    }

    /// Shuts openraft down, ends all connections, and closes the stores.
    ///
    /// # Errors
    /// If what was confirmed could not be made durable.
    pub async fn shutdown(mut self) -> io::Result<()> {
        let stopped = self.shared.raft.shutdown().await;
        self.server.abort();
        let _ = (&mut self.server).await;
        self.shared.logs.db().close()?;
        self.shared.state.db().close()?;
        stopped.map_err(io::Error::other)
    }

    /// Waits until the node stops because of a failure, and returns the reason as text.
    pub async fn stopped(&self) -> String {
        let reason = self.shared.raft.wait(None);
        let metrics = reason.metrics(|metrics| metrics.running_state.is_err(), "stopped");
        match metrics.await {
            Ok(metrics) => format!("{:?}", metrics.running_state),
            Err(error) => error.to_string(),
        }
    }
}

impl<A> Drop for Node<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Accepts connections and serves each in a task of its own.
async fn accept<A>(listener: TcpListener, shared: Arc<Shared<A>>)
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    // They end with this task.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                let shared = Arc::clone(&shared);
                // A connection ends with the first error; the peer makes another one.
                connections.spawn(async move { shared.serve(stream).await });
            }
            // Too many open files: wait for connections to end.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

/// Awaits a call of openraft and sends its result, or the error's text, as the answer to a node.
async fn answer<T: Serialize, E: Display>(
    stream: &mut TcpStream,
    call: impl Future<Output = Result<T, E>>,
) -> io::Result<()> {
    let answer = call.await.map_err(|error| error.to_string());
    frame::write(stream, &answer).await
}

impl<A> Shared<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Answers the messages of a connection until the peer closes it or an error occurs.
    async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let stream = &mut stream;
        while let Some((message, bytes)) = frame::read_sized::<Message<A>>(stream).await? {
            match message {
                Message::Append(rpc) => answer(stream, self.raft.append_entries(rpc)).await?,
                Message::Vote(rpc) => answer(stream, self.raft.vote(rpc)).await?,
                Message::PreVote(rpc) => answer(stream, self.raft.pre_vote(rpc)).await?,
                Message::TransferLeader(rpc) => {
                    answer(stream, self.raft.handle_transfer_leader(rpc)).await?;
                }
                Message::Snapshot(offer) => {
                    let snapshot = self.receiver.receive(stream, offer.files).await?;
                    let meta = offer.meta;
                    let installed = self
                        .raft
                        .install_full_snapshot(offer.vote, Snapshot { meta, snapshot });
                    answer(stream, installed).await?;
                }
                Message::Write(_) if bytes > REQUEST_BYTES_MAX => {
                    let reason = format!(
                        "not written: a request of {bytes} bytes; {REQUEST_BYTES_MAX} are allowed"
                    );
                    let refusal: Reply<A::Response> = Reply::Failed(reason);
                    frame::write(stream, &refusal).await?;
                }
                Message::Write(request) => frame::write(stream, &self.write(request).await).await?,
                Message::Get(key) => frame::write(stream, &self.get(&key).await).await?,
                Message::AddNode(id, address) => {
                    frame::write(stream, &self.add_node(id, &address).await).await?;
                }
            }
        }
        Ok(())
    }

    /// Proposes a request to the Raft group; replies with its response, the leader, or the failure.
    async fn write(&self, request: A::Request) -> Reply<A::Response> {
        match self.raft.client_write(request).await {
            Ok(written) => Reply::Done(written.data),
            Err(error) => not_written(error),
        }
    }

    /// Reads a key linearizably, by a read index; the reply names another leader if there is one.
    async fn get(&self, key: &[u8]) -> Reply<Option<Vec<u8>>> {
        match self.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) => match self.state.db().get(key) {
                Ok(value) => Reply::Done(value.map(|value| value.to_vec())),
                Err(error) => Reply::Failed(error.to_string()),
            },
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(leader))) => {
                Reply::Leader(leader.leader_node.map(|node| node.addr))
            }
            Err(error) => Reply::Failed(error.to_string()),
        }
    }

    /// Adds a node as a learner, waits until it has the log, and lets it vote.
    async fn add_node(&self, id: u64, address: &str) -> Reply<()> {
        let learner = self.raft.add_learner(id, BasicNode::new(address), true);
        if let Err(error) = learner.await {
            return not_written(error);
        }
        let voters = ChangeMembers::AddVoterIds([id].into());
        match self.raft.change_membership(voters, false).await {
            Ok(_) => Reply::Done(()),
            Err(error) => not_written(error),
        }
    }
}

/// Converts the error of a proposal to a reply: the leader to ask instead, or the failure.
fn not_written<A, T>(error: RaftError<Types<A>, ClientWriteError<Types<A>>>) -> Reply<T>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(leader)) => {
            Reply::Leader(leader.leader_node.map(|node| node.addr))
        }
        error => Reply::Failed(error.to_string()),
    }
}
