//! Messages between nodes, and between clients and nodes.

use openraft::alias::{SnapshotMetaOf, VoteOf};
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};
use openraft::{AppData, AppDataResponse};
use serde::{Deserialize, Serialize};

use super::types::Types;
use crate::application::Application;
use crate::snapshot::SnapshotFile;

/// A request sent to a node, by another node (Raft) or by a client.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) enum Message<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    /// Answered by `Result<AppendEntriesResponse, String>`.
    Append(AppendEntriesRequest<Types<A>>),
    /// Answered by `Result<VoteResponse, String>`.
    Vote(VoteRequest<Types<A>>),
    /// Answered by `Result<VoteResponse, String>`.
    PreVote(VoteRequest<Types<A>>),
    /// Answered by `Result<TransferLeaderResponse, String>`.
    TransferLeader(TransferLeaderRequest<Types<A>>),
    /// Answered by the indices of the files that are missing; after their bytes by
    /// `Result<SnapshotResponse, String>`.
    Snapshot(SnapshotOffer<A>),
    /// Answered by `Reply<A::Response>`.
    Write(A::Request),
    /// Answered by `Reply<Option<Vec<u8>>>`.
    Get(Vec<u8>),
    /// Answered by `Reply<()>`.
    AddNode(u64, String),
}

/// A leader's offer to install a snapshot: its vote, the metadata and the list of files.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct SnapshotOffer<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    pub(super) vote: VoteOf<Types<A>>,
    pub(super) meta: SnapshotMetaOf<Types<A>>,
    pub(super) files: Vec<SnapshotFile>,
}

/// The answer to a client: the result, the leader to ask instead, or a failure.
#[derive(Serialize, Deserialize)]
pub(super) enum Reply<T> {
    Done(T),
    /// Nothing was done: the leader, if one is known, is at this address.
    Leader(Option<String>),
    /// It may have been done or not.
    Failed(String),
}
