//! A client of a cluster.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use openraft::{AppData, AppDataResponse};
use serde::de::DeserializeOwned;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::message::{Members, Reply};
use super::security::{Bearer, Security, causes, describe};
use super::service::generated::membership_client::MembershipClient;
use super::service::generated::store_client::StoreClient;
use super::wire::{MESSAGE_BYTES_MAX, decode, encode, status_error};
use crate::application::Application;

/// The time between two looks for a leader.
const PAUSE: Duration = Duration::from_millis(100);

/// A client that finds the leader among the nodes of a cluster.
///
/// Reads are repeated until a leader answers; what changes something is repeated only while that cannot
/// apply it twice.
pub struct Client<A> {
    addresses: Vec<String>,
    security: Security,
    /// The address that is tried next.
    leader: String,
    connection: Option<Connection>,
    limit: Duration,
    application: PhantomData<fn() -> A>,
}

/// An open connection to a node.
type Connection = InterceptedService<Channel, Bearer>;

/// Whether a call that may have reached a leader may be sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Always,
    Unsent,
}

impl<A> Client<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Creates a client of the cluster with nodes at these addresses; calls time out after 10 s.
    ///
    /// # Errors
    /// `InvalidInput` if there is no address, one is not `HOST:PORT`, or the security is refused.
    pub fn new<S: Into<String>>(
        addresses: impl IntoIterator<Item = S>,
        security: &Security,
    ) -> io::Result<Self> {
        let addresses: Vec<String> = addresses.into_iter().map(Into::into).collect();
        for address in &addresses {
            security.endpoint(address)?;
        }
        let Some(leader) = addresses.first().cloned() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a client needs the address of at least one node",
            ));
        };
        Ok(Client {
            leader,
            addresses,
            security: security.clone(),
            connection: None,
            limit: Duration::from_secs(10),
            application: PhantomData,
        })
    }

    /// Sets the time after which a call fails.
    pub fn set_timeout(&mut self, limit: Duration) -> &mut Self {
        self.limit = limit;
        self
    }

    /// Submits a request to the Raft group and returns the response once it has been applied.
    ///
    /// # Errors
    /// A request of more than 32 MiB is refused (`InvalidInput`), and a call without the right token
    /// (`PermissionDenied`). `NotConnected` if no leader took the request: it is not applied. After all
    /// other errors it may have been applied, or may be later.
    pub async fn write(&mut self, request: A::Request) -> io::Result<A::Response> {
        let message = encode(&request)?;
        let call = async |node, message| store(node).write(message).await;
        self.call(message, Repeat::Unsent, call).await
    }

    /// Reads the value of `key` linearizably: it reflects every write answered before the call.
    ///
    /// # Errors
    /// If no leader answered.
    pub async fn get(&mut self, key: impl AsRef<[u8]>) -> io::Result<Option<Vec<u8>>> {
        let message = encode(&key.as_ref().to_vec())?;
        let call = async |node, message| store(node).get(message).await;
        self.call(message, Repeat::Always, call).await
    }

    /// Lists the members of the cluster, and how far each has the log.
    ///
    /// # Errors
    /// If no leader answered.
    pub async fn members(&mut self) -> io::Result<Members> {
        let call = async |node, message| store(node).members(message).await;
        self.call(Bytes::new(), Repeat::Always, call).await
    }

    /// Adds a running node to the cluster; returns when it has the log and votes.
    ///
    /// May be repeated. A node with much to receive needs more time than calls have by default
    /// ([`Client::set_timeout`]).
    ///
    /// # Errors
    /// If a node with this id is a member at another address; see [`Client::write`].
    pub async fn add_node(&mut self, id: u64, address: &str) -> io::Result<()> {
        let message = encode(&(id, address))?;
        let call = async |node, message| MembershipClient::new(node).add(message).await;
        self.call(message, Repeat::Unsent, call).await
    }

    /// Removes a node from the cluster; returns when the members without it have agreed.
    ///
    /// The node itself may not notice: stop it, and remove its directory. The last voter cannot be
    /// removed.
    ///
    /// # Errors
    /// If no such node is a member; see [`Client::write`].
    pub async fn remove_node(&mut self, id: u64) -> io::Result<()> {
        let message = encode(&id)?;
        let call = async |node, message| MembershipClient::new(node).remove(message).await;
        self.call(message, Repeat::Unsent, call).await
    }

    /// Sends a message to the leader and returns the answer, within the client's timeout.
    async fn call<R, F>(
        &mut self,
        message: Bytes,
        repeat: Repeat,
        call: impl Fn(Connection, Bytes) -> F,
    ) -> io::Result<R>
    where
        R: DeserializeOwned,
        F: Future<Output = Result<Response<Bytes>, Status>>,
    {
        let mut obstacle = None;
        let limit = self.limit;
        let asking = self.ask_leader(&message, repeat, call, &mut obstacle);
        if let Ok(answer) = tokio::time::timeout(limit, asking).await {
            return answer;
        }
        // Without a connection, no node has the request.
        let is_unsent = self.connection.take().is_none();
        let obstacle = obstacle.map(|reason| format!(": {reason}"));
        let obstacle = obstacle.unwrap_or_default();
        Err(match is_unsent || repeat == Repeat::Always {
            true => io::Error::new(
                io::ErrorKind::NotConnected,
                format!("no leader among {}{obstacle}", self.addresses.join(", ")),
            ),
            false => io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{} has not answered in time", self.leader),
            ),
        })
    }

    /// Sends a message to the presumed leader, and tries other nodes until the leader answers.
    ///
    /// `obstacle` receives why the last node that was tried did not serve.
    async fn ask_leader<R, F>(
        &mut self,
        message: &Bytes,
        repeat: Repeat,
        call: impl Fn(Connection, Bytes) -> F,
        obstacle: &mut Option<String>,
    ) -> io::Result<R>
    where
        R: DeserializeOwned,
        F: Future<Output = Result<Response<Bytes>, Status>>,
    {
        let mut attempts = 0;
        loop {
            let leader = match self.connect().await {
                Err(error) => {
                    *obstacle = Some(format!("{}: {error}", self.leader));
                    None
                }
                Ok(node) => match call(node, message.clone()).await {
                    Ok(answer) => match decode(answer.get_ref())? {
                        Reply::Done(answer) => return Ok(answer),
                        Reply::Leader(leader) => {
                            *obstacle = Some(format!("{} does not lead", self.leader));
                            leader
                        }
                        Reply::Unconfirmed(reason) => {
                            *obstacle = Some(format!("{}: {reason}", self.leader));
                            None
                        }
                    },
                    Err(status) => {
                        let error = status_error(&status);
                        let is_refused = error.kind() != io::ErrorKind::Other;
                        let may_be_sent = repeat == Repeat::Unsent && !is_unconnected(&status);
                        if is_refused || may_be_sent {
                            self.connection = None;
                            return Err(error);
                        }
                        *obstacle = Some(format!("{}: {error}", self.leader));
                        None
                    }
                },
            };
            self.connection = None;
            attempts += 1;
            match leader {
                Some(leader) if leader != self.leader => self.leader = leader,
                _ => {
                    self.leader
                        .clone_from(&self.addresses[attempts % self.addresses.len()]);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Returns the connection to the presumed leader, after it has been established.
    async fn connect(&mut self) -> io::Result<Connection> {
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        let connecting = self.security.endpoint(&self.leader)?.connect().await;
        let channel = connecting.map_err(|error| io::Error::other(describe(&error)))?;
        let connection = InterceptedService::new(channel, self.security.bearer());
        Ok(self.connection.insert(connection).clone())
    }
}

/// Whether an open connection had been lost, and was not to be had again: nothing was sent.
fn is_unconnected(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<tonic::ConnectError>())
}

fn store(node: Connection) -> StoreClient<Connection> {
    StoreClient::new(node).max_decoding_message_size(MESSAGE_BYTES_MAX)
}
