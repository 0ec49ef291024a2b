//! A node's connections to the others.

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use openraft::alias::{SnapshotOf, VoteOf};
use openraft::async_runtime::{AsyncRuntime, Select2};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::impls::BasicNode;
use openraft::network::v2::RaftNetworkV2;
use openraft::network::{RPCOption, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{AppData, AppDataResponse, OptionalSend, RaftTypeConfig};
use openraft_rt_tokio::TokioRuntime;
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::frame::{self, IDLE_MAX, within};
use super::message::{Message, SnapshotOffer};
use super::types::Types;
use crate::application::Application;
use crate::snapshot::{PIECE_BYTES, SnapshotDir};

/// openraft's `RaftNetworkFactory`, which makes a [`Connection`] for each other node.
pub(super) struct Connections<A>(pub(super) PhantomData<fn() -> A>);

/// A client connection to another node, opened on demand and dropped if a call gets no answer.
pub(super) struct Connection<A> {
    address: String,
    stream: Option<TcpStream>,
    application: PhantomData<fn() -> A>,
}

impl<A> RaftNetworkFactory<Types<A>> for Connections<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    type Network = Connection<A>;

    async fn new_client(&mut self, _: u64, node: &BasicNode) -> Connection<A> {
        Connection {
            address: node.addr.clone(),
            stream: None,
            application: PhantomData,
        }
    }
}

/// Wraps an error as openraft's `NetworkError`.
fn failed<C: RaftTypeConfig>(error: impl Display) -> RPCError<C> {
    RPCError::Network(NetworkError::from_string(error))
}

impl<A> Connection<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Takes the open TCP stream out of `self`, or opens a new one; an answered call puts it back.
    async fn connect(&mut self) -> Result<TcpStream, RPCError<Types<A>>> {
        if let Some(stream) = self.stream.take() {
            return Ok(stream);
        }
        let connected = TcpStream::connect(&self.address).await;
        let stream = connected.map_err(|error| Unreachable::new(&error))?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// Sends a message to the node and returns its answer, within `limit`.
    async fn call<R: DeserializeOwned>(
        &mut self,
        message: Message<A>,
        limit: Duration,
    ) -> Result<R, RPCError<Types<A>>> {
        let call = async {
            let mut stream = self.connect().await?;
            let answer: Result<R, String> = frame::call(&mut stream, &message)
                .await
                .map_err(failed::<Types<A>>)?;
            self.stream = Some(stream);
            answer.map_err(failed)
        };
        match tokio::time::timeout(limit, call).await {
            Ok(answered) => answered,
            Err(late) => Err(failed(late)),
        }
    }

    /// Offers a snapshot to the node, sends the files that it lacks, and returns its response.
    async fn send_snapshot(
        &mut self,
        offer: Message<A>,
        snapshot: &SnapshotDir,
    ) -> Result<SnapshotResponse<Types<A>>, StreamingError<Types<A>>> {
        let mut stream = self.connect().await?;
        let sent = send_files(&mut stream, &offer, snapshot).await;
        let answer = sent.map_err(failed::<Types<A>>)?;
        self.stream = Some(stream);
        Ok(answer.map_err(failed::<Types<A>>)?)
    }
}

/// Sends a snapshot offer, then the files that the receiver reports missing; returns its response.
async fn send_files<A>(
    stream: &mut TcpStream,
    offer: &Message<A>,
    snapshot: &SnapshotDir,
) -> io::Result<Result<SnapshotResponse<Types<A>>, String>>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    let files = snapshot.files()?;
    let patience = patience(files.iter().map(|file| file.bytes).sum());
    within(IDLE_MAX, frame::write(stream, offer)).await?;
    let missing: Result<Vec<u64>, String> = read_answer(stream, patience).await?;
    let missing = missing.map_err(io::Error::other)?;
    let mut buffer = vec![0; PIECE_BYTES];
    for (number, file) in (0..).zip(files) {
        if !missing.contains(&number) {
            continue;
        }
        let source = snapshot.open(&file.name)?;
        let mut offset = 0;
        while offset < file.bytes {
            let rest = usize::try_from(file.bytes - offset).unwrap_or(PIECE_BYTES);
            let read = source.read_at(offset, &mut buffer[..rest.min(PIECE_BYTES)])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            within(IDLE_MAX, stream.write_all(&buffer[..read])).await?;
            offset += read as u64;
        }
    }
    read_answer(stream, patience).await
}

/// Returns the timeout for an answer about a snapshot of `bytes` bytes: grows with its size.
fn patience(bytes: u64) -> Duration {
    IDLE_MAX + Duration::from_secs(bytes >> 22)
}

/// Reads an answer within the timeout `patience`; fails if the peer closes the connection.
async fn read_answer<T: DeserializeOwned>(
    stream: &mut TcpStream,
    patience: Duration,
) -> io::Result<T> {
    let answer = within(patience, frame::read(stream)).await?;
    answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

impl<A> RaftNetworkV2<Types<A>> for Connection<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    type SnapshotData = SnapshotDir;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types<A>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<A>>, RPCError<Types<A>>> {
        self.call(Message::Append(rpc), option.soft_ttl()).await
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types<A>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<A>>, RPCError<Types<A>>> {
        self.call(Message::Vote(rpc), option.soft_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types<A>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<A>>, RPCError<Types<A>>> {
        self.call(Message::PreVote(rpc), option.soft_ttl()).await
    }

    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<Types<A>>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types<A>>, RPCError<Types<A>>> {
        self.call(Message::TransferLeader(rpc), option.soft_ttl())
            .await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<Types<A>>,
        snapshot: SnapshotOf<Types<A>, SnapshotDir>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types<A>>, StreamingError<Types<A>>> {
        let (meta, snapshot) = (snapshot.meta, snapshot.snapshot);
        let listed = snapshot.clone();
        // The first time this reads all files.
        let files = TokioRuntime::spawn_blocking(move || listed.files()).await;
        let files = files.and_then(|files| Ok(files?));
        let files = files.map_err(failed::<Types<A>>)?;
        let offer = Message::Snapshot(SnapshotOffer { vote, meta, files });
        let sending = self.send_snapshot(offer, &snapshot);
        match TokioRuntime::select2(cancel, sending).await {
            Select2::First(closed) => Err(closed.into()),
            Select2::Second(sent) => sent,
        }
    }
}
