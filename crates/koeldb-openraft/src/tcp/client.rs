//! A client of a cluster.

use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use openraft::{AppData, AppDataResponse};
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use super::frame;
use super::message::{Message, Reply};
use crate::application::Application;

/// The time between two looks for a leader.
const PAUSE: Duration = Duration::from_millis(100);

/// A client that finds the leader among the nodes of a cluster.
///
/// It repeats a request only while that cannot apply it twice.
pub struct Client<A> {
    addresses: Vec<String>,
    /// The address that is tried next.
    leader: String,
    connection: Option<TcpStream>,
    limit: Duration,
    application: PhantomData<fn() -> A>,
}

impl<A> Client<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Creates a client of the cluster with nodes at these addresses; calls time out after 10 s.
    pub fn new<S: Into<String>>(addresses: impl IntoIterator<Item = S>) -> Self {
        let addresses: Vec<String> = addresses.into_iter().map(Into::into).collect();
        Client {
            leader: addresses.first().cloned().unwrap_or_default(),
            addresses,
            connection: None,
            limit: Duration::from_secs(10),
            application: PhantomData,
        }
    }

    /// Sets the time after which a call fails.
    pub fn set_timeout(&mut self, limit: Duration) -> &mut Self {
        self.limit = limit;
        self
    }

    /// Submits a request to the Raft group and returns the response once it has been applied.
    ///
    /// # Errors
    /// A request of more than 32 MiB is refused. `NotConnected` if no leader took the request: it
    /// is not applied. After all other errors it may have been applied, or may be later.
    pub async fn write(&mut self, request: A::Request) -> io::Result<A::Response> {
        self.call(Message::Write(request)).await
    }

    /// Reads the value of `key` linearizably: it reflects every write answered before the call.
    ///
    /// # Errors
    /// If no leader answered.
    pub async fn get(&mut self, key: impl AsRef<[u8]>) -> io::Result<Option<Vec<u8>>> {
        self.call(Message::Get(key.as_ref().to_vec())).await
    }

    /// Adds a running node to the cluster; returns when it has the log and is a voter.
    ///
    /// # Errors
    /// See [`Client::write`].
    pub async fn add_node(&mut self, id: u64, address: &str) -> io::Result<()> {
        self.call(Message::AddNode(id, address.to_owned())).await
    }

    /// Sends a message to the leader and returns the answer, within the client's timeout.
    async fn call<R: DeserializeOwned>(&mut self, message: Message<A>) -> io::Result<R> {
        match tokio::time::timeout(self.limit, self.ask_leader(&message)).await {
            Ok(answer) => answer,
            Err(_) => {
                // Without a connection, no node has the request.
                let is_unsent = self.connection.is_none();
                self.connection = None;
                match is_unsent {
                    true => Err(io::Error::new(io::ErrorKind::NotConnected, "no leader")),
                    false => Err(io::ErrorKind::TimedOut.into()),
                }
            }
        }
    }

    /// Sends a message to the presumed leader, and tries other nodes until the leader answers.
    async fn ask_leader<R: DeserializeOwned>(&mut self, message: &Message<A>) -> io::Result<R> {
        let mut attempts = 0;
        loop {
            let connected = match self.connection.take() {
                Some(stream) => Ok(stream),
                None => TcpStream::connect(&self.leader).await,
            };
            let leader = match connected {
                Err(_) => None,
                Ok(stream) => {
                    // It stays here while the request is under way.
                    let stream = self.connection.insert(stream);
                    let _ = stream.set_nodelay(true);
                    let answer = frame::call(stream, message).await;
                    match answer.inspect_err(|_| self.connection = None)? {
                        Reply::Done(answer) => return Ok(answer),
                        Reply::Failed(reason) => return Err(io::Error::other(reason)),
                        Reply::Leader(leader) => leader,
                    }
                }
            };
            self.connection = None;
            attempts += 1;
            match leader {
                Some(leader) if leader != self.leader => self.leader = leader,
                _ => {
                    let next = attempts % self.addresses.len().max(1);
                    if let Some(next) = self.addresses.get(next) {
                        self.leader.clone_from(next);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}
