//! A node's connections to the others.

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
use openraft::{AppData, AppDataResponse, BasicNode, OptionalSend, Snapshot, Vote};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use super::message::{SnapshotOffer, ToNode};
use super::security::{Bearer, Security, describe};
use super::service::generated::raft_client::RaftClient;
use super::types::Types;
use super::wire::{MESSAGE_BYTES_MAX, decode, encode, status_error};
use crate::application::Application;
use crate::snapshot::{PIECE_BYTES, SnapshotDir, SnapshotFile};

/// The longest time without progress in the transfer of a snapshot.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(10);

/// The shortest and the longest time between two calls to a node that did not answer.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// The number of pieces of a snapshot that wait to be sent.
const PIECES: usize = 4;

/// openraft's `RaftNetworkFactory`, which makes a [`Connection`] for each other node.
pub(super) struct Connections<A> {
    pub(super) security: Security,
    pub(super) application: PhantomData<fn() -> A>,
}

type Client = RaftClient<InterceptedService<Channel, Bearer>>;

/// A connection to another node, opened by the first call, and again after it broke.
pub(super) struct Connection<A> {
    target: u64,
    /// The client, or why its address cannot be used.
    client: Result<Client, String>,
    application: PhantomData<fn() -> A>,
}

impl<A> RaftNetworkFactory<Types<A>> for Connections<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    type Network = Connection<A>;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Connection<A> {
        let endpoint = self.security.endpoint(&node.addr);
        let client = endpoint.map(|endpoint| {
            RaftClient::with_interceptor(endpoint.connect_lazy(), self.security.bearer())
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
        });
        Connection {
            target,
            client: client.map_err(|error| error.to_string()),
            application: PhantomData,
        }
    }
}

/// An error of a call to another node, as openraft wants it.
type CallError<E> = RPCError<u64, BasicNode, E>;

/// A failed call. openraft repeats calls at once after all other kinds of errors, and so keeps both nodes
/// busy while one of them cannot serve.
fn failed<E: std::error::Error>(error: impl Display) -> CallError<E> {
    RPCError::Unreachable(unreachable(error))
}

fn unreachable(error: impl Display) -> Unreachable {
    Unreachable::new(&io::Error::other(error.to_string()))
}

impl<A> Connection<A> {
    fn client(&mut self) -> Result<&mut Client, Unreachable> {
        self.client.as_mut().map_err(unreachable)
    }

    fn envelope<T: Serialize>(&self, message: T) -> io::Result<Bytes> {
        let target = self.target;
        encode(&ToNode { target, message })
    }
}

/// Awaits the answer to a call within `limit` and decodes it.
async fn answer<R: DeserializeOwned, E: std::error::Error>(
    limit: Duration,
    call: impl Future<Output = Result<Response<Bytes>, Status>>,
) -> Result<R, CallError<E>> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answered)) => decode(answered.get_ref()).map_err(failed),
        Ok(Err(status)) => Err(failed(describe(&status))),
        Err(late) => Err(failed(late)),
    }
}

/// Awaits `step`; fails with `TimedOut` if it takes longer than `limit`.
pub(super) async fn within<T>(
    limit: Duration,
    step: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match tokio::time::timeout(limit, step).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Returns the timeout for an answer about a snapshot of `bytes` bytes: grows with its size.
fn patience(bytes: u64) -> Duration {
    IDLE_MAX + Duration::from_secs(bytes >> 22)
}

/// Offers a snapshot to a node, sends the files that it lacks, and returns its response.
async fn send_snapshot(
    client: &mut Client,
    offer: Bytes,
    snapshot: &SnapshotDir,
    files: &[SnapshotFile],
) -> io::Result<SnapshotResponse<u64>> {
    let patience = patience(files.iter().map(|file| file.bytes).sum());
    let (pieces, queue) = mpsc::channel(PIECES);
    send(&pieces, offer).await?;
    let called = async {
        let called = client.snapshot(ReceiverStream::new(queue)).await;
        called.map_err(|status| status_error(&status))
    };
    let mut answers = within(IDLE_MAX, called).await?.into_inner();
    let missing: Vec<u64> = within(patience, next(&mut answers)).await?;
    for (number, file) in (0..).zip(files) {
        if missing.contains(&number) {
            send_file(&pieces, snapshot, file).await?;
        }
    }
    within(patience, next(&mut answers)).await
}

/// Queues a piece; fails if none was taken for a while, or the call has ended.
async fn send(pieces: &mpsc::Sender<Bytes>, piece: Bytes) -> io::Result<()> {
    let sending = async {
        let sent = pieces.send(piece).await;
        sent.map_err(|_| io::ErrorKind::ConnectionReset.into())
    };
    within(IDLE_MAX, sending).await
}

/// Sends a file in pieces.
async fn send_file(
    pieces: &mpsc::Sender<Bytes>,
    snapshot: &SnapshotDir,
    file: &SnapshotFile,
) -> io::Result<()> {
    let source = snapshot.open(&file.name)?;
    let mut offset = 0;
    while offset < file.bytes {
        let rest = usize::try_from(file.bytes - offset).unwrap_or(PIECE_BYTES);
        let mut piece = vec![0; rest.min(PIECE_BYTES)];
        let read = source.read_at(offset, &mut piece)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        piece.truncate(read);
        offset += read as u64;
        send(pieces, piece.into()).await?;
    }
    Ok(())
}

/// Reads an answer of the receiver.
async fn next<T: DeserializeOwned>(answers: &mut Streaming<Bytes>) -> io::Result<T> {
    match answers.message().await {
        Ok(Some(answer)) => decode(&answer),
        Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(status) => Err(status_error(&status)),
    }
}

impl<A> RaftNetwork<Types<A>> for Connection<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types<A>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, CallError<RaftError<u64>>> {
        let message = self.envelope(rpc).map_err(failed)?;
        answer(option.soft_ttl(), self.client()?.append(message)).await
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, CallError<RaftError<u64>>> {
        let message = self.envelope(rpc).map_err(failed)?;
        answer(option.soft_ttl(), self.client()?.vote(message)).await
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
        let client = self.client().map_err(StreamingError::Unreachable)?;
        tokio::select! {
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = send_snapshot(client, offer, &snapshot, &listed) => sent.map_err(failed),
        }
    }
}
