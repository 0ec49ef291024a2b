//! A node: both stores, openraft, and a port.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use koeldb::{Env, Options};
use openraft::{AppData, AppDataResponse, BasicNode, Config, Raft};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::TcpIncoming;

use super::network::Connections;
use super::receive::Receiver;
use super::security::Security;
use super::service::Service;
use super::service::generated::membership_server::MembershipServer;
use super::service::generated::raft_server::RaftServer;
use super::service::generated::store_server::StoreServer;
use super::types::{Machine, Types};
use super::wire::{MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::application::Application;
use crate::log_store::LogStore;
use crate::logs::RaftLogs;
use crate::state::StateStore;

/// The settings of a [`Node`].
#[derive(Clone, Debug)]
pub struct NodeOptions {
    security: Security,
    database: Options,
    raft: Config,
}

impl NodeOptions {
    /// Returns the settings with the default options of databases and of openraft.
    #[must_use]
    pub fn new(security: Security) -> Self {
        NodeOptions {
            security,
            database: Options::new(),
            raft: Config::default(),
        }
    }

    /// Sets the options of the databases of log and state.
    pub fn set_database_options(&mut self, options: &Options) -> &mut Self {
        self.database = options.clone();
        self
    }

    /// Sets openraft's configuration: timeouts, and when it builds snapshots and purges the log.
    pub fn set_raft_config(&mut self, config: Config) -> &mut Self {
        self.raft = config;
        self
    }
}

/// A running node of a cluster with one Raft group.
pub struct Node<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    service: Service<A>,
    logs: RaftLogs,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl<A> Node<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Opens or creates the node's stores in `directory`, and serves the address `listen` until it is
    /// dropped.
    ///
    /// A new node belongs to no cluster: [`Node::initialize`] it, or have it added by
    /// [`Client::add_node`](super::Client::add_node).
    ///
    /// # Errors
    /// `InvalidInput` if openraft's configuration or the security is refused, or if the directory is that
    /// of a node with another number; if the stores cannot be opened, the address is in use, or openraft cannot start.
    pub async fn start(
        id: u64,
        listen: &str,
        directory: impl AsRef<Path>,
        application: A,
        options: &NodeOptions,
    ) -> io::Result<Self> {
        let config = options.raft.clone().validate();
        let config = config.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let (security, directory) = (&options.security, directory.as_ref());
        let mut server = security.server()?;
        let database = &options.database;
        let logs = RaftLogs::open(database, directory.join("log"))?;
        logs.claim(id)?;
        let state = StateStore::open(&Env::default(), database, directory.join("state"))?;
        let machine: Machine<A> = Machine::new(state.clone(), application)?;
        let log = LogStore::new(logs.group(0)?, Some(machine.durable_index()));
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen at {listen}: {error}"))
        })?;
        let connections = Connections::new(security);
        let raft = Raft::new(id, Arc::new(config), connections, log, machine).await;
        let service = Service {
            id,
            raft: raft.map_err(io::Error::other)?,
            receiver: Arc::new(Receiver::new(state.clone())),
            state,
        };
        let raft = RaftServer::new(service.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let store = StoreServer::new(service.clone())
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let membership = MembershipServer::new(service.clone());
        let router = server
            .add_service(InterceptedService::new(raft, security.cluster_guard()))
            .add_service(InterceptedService::new(
                membership,
                security.cluster_guard(),
            ))
            .add_service(InterceptedService::new(store, security.client_guard()));
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        // With a signal, even one that never comes, connections end with the server.
        let serving = router.serve_with_incoming_shutdown(incoming, std::future::pending());
        Ok(Node {
            service,
            logs,
            server: tokio::spawn(serving),
        })
    }

    /// Creates a new cluster whose only member is this node, which the others reach at `address`.
    ///
    /// # Errors
    /// If it belongs to a cluster already.
    pub async fn initialize(&self, address: &str) -> io::Result<()> {
        let nodes = BTreeMap::from([(self.service.id, BasicNode::new(address))]);
        let initialized = self.service.raft.initialize(nodes).await;
        initialized.map_err(io::Error::other)
    }

    /// Returns whether the node belongs to a cluster.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn is_initialized(&self) -> io::Result<bool> {
        let initialized = self.service.raft.is_initialized().await;
        initialized.map_err(io::Error::other)
    }

    /// Returns openraft's handle, for metrics, snapshots, elections and membership.
    #[must_use]
    pub fn raft(&self) -> &Raft<Types<A>> {
        &self.service.raft
    }

    /// Returns the state of this node, for local reads, which may be stale.
    #[must_use]
    pub fn state(&self) -> &StateStore {
        &self.service.state
    }

    /// Shuts openraft down, ends all connections, and closes the stores.
    ///
    /// # Errors
    /// If what was confirmed could not be made durable.
    pub async fn shutdown(mut self) -> io::Result<()> {
        let stopped = self.service.raft.shutdown().await;
        self.server.abort();
        let _ = (&mut self.server).await;
        let (logs, state) = (self.logs.clone(), self.service.state.clone());
        let close = move || state.close().and(logs.db().close());
        let closed = tokio::task::spawn_blocking(close).await;
        closed.map_err(io::Error::other)??;
        stopped.map_err(io::Error::other)
    }

    /// Waits until the node stops because of a failure, and returns the reason as text.
    pub async fn stopped(&self) -> String {
        let reason = self.service.raft.wait(None);
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
