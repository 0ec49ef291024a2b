//! A node's connections to the others.

#![expect(
    clippy::result_large_err,
    reason = "the errors of calls are openraft's"
)]

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use openraft::error::{Fatal, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{AppData, AppDataResponse, BasicNode, LogId, OptionalSend, Snapshot, Vote};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use super::message::{SnapshotOffer, ToNode};
use super::security::{Bearer, Security, describe};
use super::send::send_snapshot;
use super::service::generated::raft_client::RaftClient;
use super::types::Types;
use super::wire::{MESSAGE_BYTES_MAX, decode, encode};
use crate::application::Application;

/// The shortest and the longest time between two calls to a node that did not answer.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// openraft's `RaftNetworkFactory`, which makes a [`Connection`] for each other node.
pub(super) struct Connections<A> {
    security: Security,
    /// The shared clients by node, with the addresses that they are for.
    shared: HashMap<u64, (String, Client)>,
    application: PhantomData<fn() -> A>,
}

pub(super) type Client = RaftClient<InterceptedService<Channel, Bearer>>;

/// The connections to another node, opened by the first call, and again after they broke.
///
/// openraft makes one of these for each replication, and for each heartbeat of a linearizable read.
pub(super) struct Connection<A> {
    target: u64,
    /// The clients, or why the address cannot be used.
    clients: Result<Clients, String>,
    sending: Option<Sending>,
    application: PhantomData<fn() -> A>,
}

/// The clients of a node.
struct Clients {
    /// The client for heartbeats, which wait for nothing large. All connections to the node share it.
    shared: Client,
    endpoint: Endpoint,
    bearer: Bearer,
    /// The client for votes, entries and snapshots.
    own: Option<Client>,
}

impl Clients {
    fn new(security: &Security, endpoint: Endpoint, shared: Option<Client>) -> Self {
        let bearer = security.bearer();
        Clients {
            shared: shared.unwrap_or_else(|| connect(&endpoint, &bearer)),
            endpoint,
            bearer,
            own: None,
        }
    }

    fn own(&mut self) -> &mut Client {
        let (endpoint, bearer) = (&self.endpoint, &self.bearer);
        self.own.get_or_insert_with(|| connect(endpoint, bearer))
    }
}

/// Returns a client that connects with its first call.
fn connect(endpoint: &Endpoint, bearer: &Bearer) -> Client {
    RaftClient::with_interceptor(endpoint.connect_lazy(), bearer.clone())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// Entries that are on their way, for longer than one call of openraft if they are large.
///
/// openraft gives up a call after a heartbeat's interval, and then asks for the same entries again.
struct Sending {
    vote: Vote<u64>,
    previous: Option<LogId<u64>>,
    last: LogId<u64>,
    /// One task, which ends with this.
    call: JoinSet<Result<Response<Bytes>, Status>>,
}

impl<A> Connections<A> {
    pub(super) fn new(security: &Security) -> Self {
        Connections {
            security: security.clone(),
            shared: HashMap::new(),
            application: PhantomData,
        }
    }

    /// Returns the clients of the node `target` at `address`.
    fn clients(&mut self, target: u64, address: &str) -> io::Result<Clients> {
        let known = self.shared.get(&target);
        let known = known.filter(|(known, _)| known == address);
        let known = known.map(|(_, client)| client.clone());
        let clients = Clients::new(&self.security, self.security.endpoint(address)?, known);
        let shared = (address.to_owned(), clients.shared.clone());
        self.shared.insert(target, shared);
        Ok(clients)
    }
}

impl<A> RaftNetworkFactory<Types<A>> for Connections<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    type Network = Connection<A>;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Connection<A> {
        let clients = self.clients(target, &node.addr);
        Connection {
            target,
            clients: clients.map_err(|error| error.to_string()),
            sending: None,
            application: PhantomData,
        }
    }
}

/// An error of a call to another node, as openraft wants it.
type CallError<E> = RPCError<u64, BasicNode, E>;

/// Returns the error of a failed call, of the only kind after which openraft pauses.
///
/// It repeats calls immediately after all other kinds, and keeps both nodes busy while one of them
/// cannot serve.
fn failed<E: std::error::Error>(error: impl Display) -> CallError<E> {
    RPCError::Unreachable(unreachable(error))
}

fn unreachable(error: impl Display) -> Unreachable {
    Unreachable::new(&io::Error::other(error.to_string()))
}

impl<A> Connection<A> {
    fn clients(&mut self) -> Result<&mut Clients, Unreachable> {
        self.clients.as_mut().map_err(unreachable)
    }

    fn envelope<T: Serialize>(&self, message: T) -> io::Result<Bytes> {
        let target = self.target;
        encode(&ToNode { target, message })
    }
}

impl<A> Connection<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Returns the entries of `rpc`, up to `last`, as they are being sent; begins to send them if they
    /// are not.
    fn sending(
        &mut self,
        rpc: AppendEntriesRequest<Types<A>>,
        last: LogId<u64>,
    ) -> Result<&mut Sending, CallError<RaftError<u64>>> {
        let (vote, previous) = (rpc.vote, rpc.prev_log_id);
        let is_same = |sending: &Sending| {
            (sending.vote, sending.previous) == (vote, previous) && sending.last <= last
        };
        let sending = match self.sending.take().filter(is_same) {
            Some(sending) => sending,
            None => {
                let message = self.envelope(rpc).map_err(failed)?;
                let mut client = self.clients()?.own().clone();
                let mut call = JoinSet::new();
                call.spawn(async move { client.append(message).await });
                Sending {
                    vote,
                    previous,
                    last,
                    call,
                }
            }
        };
        Ok(self.sending.insert(sending))
    }

    /// Sends a heartbeat of this vote behind the entry `previous`.
    async fn heartbeat(
        &mut self,
        rpc: AppendEntriesRequest<Types<A>>,
        limit: Duration,
    ) -> Result<AppendEntriesResponse<u64>, CallError<RaftError<u64>>> {
        let message = self.envelope(rpc).map_err(failed)?;
        answer(limit, self.clients()?.shared.append(message)).await
    }
}

/// Awaits the answer to a call within `limit` and decodes it.
async fn answer<R: DeserializeOwned, E: std::error::Error>(
    limit: Duration,
    call: impl Future<Output = Result<Response<Bytes>, Status>>,
) -> Result<R, CallError<E>> {
    match tokio::time::timeout(limit, call).await {
        Ok(answered) => read_answer(answered),
        Err(late) => Err(failed(late)),
    }
}

/// Decodes the answer to a call.
fn read_answer<R: DeserializeOwned, E: std::error::Error>(
    answered: Result<Response<Bytes>, Status>,
) -> Result<R, CallError<E>> {
    match answered {
        Ok(answered) => decode(answered.get_ref()).map_err(failed),
        Err(status) => Err(failed(describe(&status))),
    }
}

impl<A> RaftNetwork<Types<A>> for Connection<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Sends entries for as long as it takes, and heartbeats meanwhile.
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types<A>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, CallError<RaftError<u64>>> {
        use AppendEntriesResponse::{PartialSuccess, Success};
        let limit = option.soft_ttl();
        let Some(last) = rpc.entries.last().map(|entry| entry.log_id) else {
            return self.heartbeat(rpc, limit).await;
        };
        let previous = rpc.prev_log_id;
        let heartbeat = AppendEntriesRequest {
            vote: rpc.vote,
            prev_log_id: previous,
            entries: Vec::new(),
            leader_commit: rpc.leader_commit,
        };
        let sending = self.sending(rpc, last)?;
        match tokio::time::timeout(limit / 2, sending.call.join_next()).await {
            Ok(answered) => {
                let last = sending.last;
                self.sending = None;
                let answered = answered.ok_or_else(|| failed("nothing is being sent"))?;
                let answered = read_answer(answered.map_err(failed)?)?;
                Ok(match answered {
                    Success => PartialSuccess(Some(last)),
                    other => other,
                })
            }
            // openraft asks again. Behind no entry, there is no election to prevent yet.
            Err(late) if previous.is_none() => Err(failed(late)),
            Err(_) => match self.heartbeat(heartbeat, limit / 2).await? {
                Success => Ok(PartialSuccess(previous)),
                other => Ok(other),
            },
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, CallError<RaftError<u64>>> {
        let message = self.envelope(rpc).map_err(failed)?;
        answer(option.soft_ttl(), self.clients()?.own().vote(message)).await
    }

    /// Waits longer with each failed call.
    fn backoff(&self) -> Backoff {
        let doubled =
            std::iter::successors(Some(RETRY_MIN), |wait| Some((*wait * 2).min(RETRY_MAX)));
        Backoff::new(doubled)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote<u64>,
        snapshot: Snapshot<Types<A>>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<Types<A>, Fatal<u64>>> {
        let (meta, snapshot) = (snapshot.meta, *snapshot.snapshot);
        let failed = |error: io::Error| StreamingError::Unreachable(unreachable(error));
        let listed = snapshot.clone();
        // The first time this reads all files.
        let files = tokio::task::spawn_blocking(move || listed.files()).await;
        let files = files.map_err(io::Error::other).and_then(|files| Ok(files?));
        let files = files.map_err(failed)?;
        let listed = files.clone();
        let offer = self.envelope(SnapshotOffer { vote, meta, files });
        let offer = offer.map_err(failed)?;
        let clients = self.clients().map_err(StreamingError::Unreachable)?;
        let client = clients.own();
        tokio::select! {
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = send_snapshot(client, offer, &snapshot, &listed) => sent.map_err(failed),
        }
    }
}
