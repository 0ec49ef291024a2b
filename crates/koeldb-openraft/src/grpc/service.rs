//! The calls that a node serves, from other nodes and from clients.

use std::sync::Arc;

use bytes::Bytes;
use openraft::error::{CheckIsLeaderError, ClientWriteError, RaftError};
use openraft::{AppData, AppDataResponse, BasicNode, ChangeMembers, Raft, ServerState, Snapshot};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::message::{Member, Members, Reply, SnapshotOffer, ToNode};
use super::receive::Receiver;
use super::types::Types;
use super::wire::{decode, encode, failed};
use crate::application::Application;
use crate::state::StateStore;

#[expect(
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::default_constructed_unit_structs,
    reason = "generated"
)]
pub(super) mod generated {
    include!(concat!(env!("OUT_DIR"), "/koeldb.replication.v1.Raft.rs"));
    include!(concat!(
        env!("OUT_DIR"),
        "/koeldb.replication.v1.Membership.rs"
    ));
    include!(concat!(env!("OUT_DIR"), "/koeldb.replication.v1.Store.rs"));
}

use generated::membership_server::Membership;
use generated::raft_server::Raft as RaftService;
use generated::store_server::Store;

/// The parts of a node that answer calls; clones share them.
pub(super) struct Service<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    pub(super) id: u64,
    pub(super) raft: Raft<Types<A>>,
    pub(super) state: StateStore,
    pub(super) receiver: Arc<Receiver>,
}

impl<A> Clone for Service<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    fn clone(&self) -> Self {
        Service {
            id: self.id,
            raft: self.raft.clone(),
            state: self.state.clone(),
            receiver: Arc::clone(&self.receiver),
        }
    }
}

type Answer = Result<Response<Bytes>, Status>;

/// Decodes the message of a call.
fn read<T: DeserializeOwned>(message: &Bytes) -> Result<T, Status> {
    decode(message).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// Encodes the result of a call.
fn reply<T: Serialize>(answered: T) -> Answer {
    encode(&answered).map(Response::new).map_err(failed)
}

impl<A> Service<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Decodes the message of another node, which must be for this one.
    fn read_own<T: DeserializeOwned>(&self, message: &Bytes) -> Result<T, Status> {
        let ToNode { target, message } = read(message)?;
        match target == self.id {
            true => Ok(message),
            false => Err(Status::failed_precondition(format!(
                "this is node {}, and the message is for node {target}: two nodes have had this address",
                self.id
            ))),
        }
    }
}

#[tonic::async_trait]
impl<A> RaftService for Service<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    type SnapshotStream = ReceiverStream<Result<Bytes, Status>>;

    async fn append(&self, request: Request<Bytes>) -> Answer {
        let rpc = self.read_own(request.get_ref())?;
        reply(self.raft.append_entries(rpc).await.map_err(failed)?)
    }

    async fn vote(&self, request: Request<Bytes>) -> Answer {
        let rpc = self.read_own(request.get_ref())?;
        reply(self.raft.vote(rpc).await.map_err(failed)?)
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<Bytes>>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        let (answers, stream) = mpsc::channel(1);
        let service = self.clone();
        let mut pieces = request.into_inner();
        tokio::spawn(async move {
            if let Err(status) = service.install(&mut pieces, &answers).await {
                let _ = answers.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

impl<A> Service<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Receives a snapshot and installs it.
    async fn install(
        &self,
        pieces: &mut Streaming<Bytes>,
        answers: &mpsc::Sender<Result<Bytes, Status>>,
    ) -> Result<(), Status> {
        let gone = |_| Status::cancelled("the sender is gone");
        let offer = pieces.message().await?;
        let offer = offer.ok_or_else(|| Status::invalid_argument("no snapshot is offered"))?;
        let SnapshotOffer { vote, meta, files } = self.read_own(&offer)?;
        let transfer = self.receiver.begin(files).await.map_err(failed)?;
        let missing = encode(&transfer.missing).map_err(failed)?;
        answers.send(Ok(missing)).await.map_err(gone)?;
        let snapshot = transfer.receive(pieces).await.map_err(failed)?;
        let snapshot = Box::new(snapshot);
        let snapshot = Snapshot { meta, snapshot };
        let installed = self.raft.install_full_snapshot(vote, snapshot).await;
        let installed = encode(&installed.map_err(failed)?).map_err(failed)?;
        answers.send(Ok(installed)).await.map_err(gone)
    }

    /// Converts the error of a proposal to a reply that names the leader, or to a status.
    fn not_written<T>(
        error: &RaftError<u64, ClientWriteError<u64, BasicNode>>,
    ) -> Result<Reply<T>, Status> {
        match error.forward_to_leader() {
            Some(leader) => Ok(Reply::leader(leader.leader_node.as_ref())),
            None => Err(failed(error)),
        }
    }

    /// Returns a reply that names the leader, unless this node takes itself for it.
    fn other_leader(&self) -> Option<Reply<A::Response>> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        if metrics.state == ServerState::Leader {
            return None;
        }
        let members = metrics.membership_config.membership();
        let leader = metrics.current_leader.and_then(|id| members.get_node(&id));
        Some(Reply::leader(leader))
    }

    /// Waits until this node has applied what a majority has, as its leader; else returns the reply.
    async fn confirm_leader<T>(&self) -> Result<Option<Reply<T>>, Status> {
        match self.raft.ensure_linearizable().await {
            Ok(_) => Ok(None),
            Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(leader))) => {
                Ok(Some(Reply::leader(leader.leader_node.as_ref())))
            }
            // A voter that has just been added may not answer yet.
            Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(error))) => {
                Ok(Some(Reply::Unconfirmed(error.to_string())))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Reads a key linearizably, by a read index.
    async fn read(&self, key: &[u8]) -> Result<Reply<Option<Vec<u8>>>, Status> {
        if let Some(elsewhere) = self.confirm_leader().await? {
            return Ok(elsewhere);
        }
        let value = self.state.db().get(key).map_err(failed)?;
        Ok(Reply::Done(value.map(|value| value.to_vec())))
    }

    /// Changes the members.
    async fn change(&self, change: ChangeMembers<u64, BasicNode>) -> Result<Reply<()>, Status> {
        match self.raft.change_membership(change, false).await {
            Ok(_) => Ok(Reply::Done(())),
            Err(error) => Self::not_written(&error),
        }
    }

    /// Adds a node as a learner, waits until it has the log, and lets it vote.
    async fn add_node(&self, id: u64, address: String) -> Result<Reply<()>, Status> {
        if let Some(elsewhere) = self.confirm_leader().await? {
            return Ok(elsewhere);
        }
        let members = self.raft.metrics().borrow().membership_config.clone();
        let known = members
            .membership()
            .get_node(&id)
            .map(|node| node.addr.clone());
        if let Some(known) = known
            && known != address
        {
            return Err(Status::invalid_argument(format!(
                "node {id} is a member at {known}; remove it first, or choose another id"
            )));
        }
        let learner = self.raft.add_learner(id, BasicNode::new(address), false);
        let added = match learner.await {
            Ok(added) => added.log_id,
            Err(error) => return Self::not_written(&error),
        };
        // openraft itself waits only until a learner is at most `replication_lag_threshold` entries
        // behind, which one that nobody reaches is in a young cluster; as a voter it would stop that.
        let mut metrics = self.raft.metrics();
        let has_log = metrics.wait_for(|metrics| match &metrics.replication {
            Some(replication) => replication
                .get(&id)
                .is_some_and(|matched| *matched >= Some(added)),
            None => true,
        });
        has_log.await.map_err(failed)?;
        self.change(ChangeMembers::AddVoterIds([id].into())).await
    }

    /// Removes a node, whether it votes or not.
    async fn remove_node(&self, id: u64) -> Result<Reply<()>, Status> {
        if let Some(elsewhere) = self.confirm_leader().await? {
            return Ok(elsewhere);
        }
        let members = self.raft.metrics().borrow().membership_config.clone();
        let members = members.membership();
        let change = if members.voter_ids().any(|voter| voter == id) {
            ChangeMembers::RemoveVoters([id].into())
        } else if members.get_node(&id).is_some() {
            ChangeMembers::RemoveNodes([id].into())
        } else {
            return Err(Status::invalid_argument(format!("node {id} is no member")));
        };
        self.change(change).await
    }

    async fn list_members(&self) -> Result<Reply<Members>, Status> {
        if let Some(elsewhere) = self.confirm_leader().await? {
            return Ok(elsewhere);
        }
        let metrics = self.raft.metrics().borrow().clone();
        let members = metrics.membership_config.membership();
        let voters: Vec<u64> = members.voter_ids().collect();
        let replication = metrics.replication.unwrap_or_default();
        let member = |(&id, node): (&u64, &BasicNode)| Member {
            id,
            address: node.addr.clone(),
            is_voter: voters.contains(&id),
            matched_index: match id == self.id {
                true => metrics.last_log_index,
                false => (replication.get(&id)).and_then(|matched| matched.map(|log| log.index)),
            },
        };
        let mut members: Vec<Member> = members.nodes().map(member).collect();
        members.sort_by_key(|member| member.id);
        Ok(Reply::Done(Members {
            leader: self.id,
            last_index: metrics.last_log_index.unwrap_or(0),
            members,
        }))
    }
}

#[tonic::async_trait]
impl<A> Membership for Service<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    async fn add(&self, request: Request<Bytes>) -> Answer {
        let (id, address) = read(request.get_ref())?;
        reply(self.add_node(id, address).await?)
    }

    async fn remove(&self, request: Request<Bytes>) -> Answer {
        let id = read(request.get_ref())?;
        reply(self.remove_node(id).await?)
    }
}

#[tonic::async_trait]
impl<A> Store for Service<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    async fn write(&self, request: Request<Bytes>) -> Answer {
        let request: A::Request = read(request.get_ref())?;
        // A request that was proposed may be applied although this node loses the lead, and removes it
        // from its log: another node may have it. Only who never proposed it may name the leader.
        if let Some(leader) = self.other_leader() {
            return reply(leader);
        }
        match self.raft.client_write(request).await {
            Ok(written) => reply(Reply::Done(written.data)),
            Err(error) => Err(failed(format!("{error}; the request may still be applied"))),
        }
    }

    async fn get(&self, request: Request<Bytes>) -> Answer {
        let key: Vec<u8> = read(request.get_ref())?;
        reply(self.read(&key).await?)
    }

    async fn members(&self, _: Request<Bytes>) -> Answer {
        reply(self.list_members().await?)
    }
}
