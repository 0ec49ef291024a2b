//! Messages between nodes, and between clients and nodes.

use openraft::{BasicNode, SnapshotMeta, Vote};
use serde::{Deserialize, Serialize};

use crate::snapshot::SnapshotFile;

/// A message of a node, with the id of the node that it is for.
///
/// An address may have been given to another node; the messages of Raft must not reach it.
#[derive(Serialize, Deserialize)]
pub(super) struct ToNode<T> {
    pub(super) target: u64,
    pub(super) message: T,
}

/// A leader's offer to install a snapshot: its vote, the metadata and the list of files.
#[derive(Serialize, Deserialize)]
pub(super) struct SnapshotOffer {
    pub(super) vote: Vote<u64>,
    pub(super) meta: SnapshotMeta<u64, BasicNode>,
    pub(super) files: Vec<SnapshotFile>,
}

/// The answer to a client: the result, or the leader to ask instead.
#[derive(Serialize, Deserialize)]
pub(super) enum Reply<T> {
    Done(T),
    /// Nothing was proposed: the leader, if one is known, is at this address.
    Leader(Option<String>),
    /// Nothing was proposed: too few members confirm that this node leads, for this reason.
    Unconfirmed(String),
}

impl<T> Reply<T> {
    /// Returns the reply that names this node as the leader.
    pub(super) fn leader(leader: Option<&BasicNode>) -> Self {
        Reply::Leader(leader.map(|node| node.addr.clone()))
    }
}

/// The members of a cluster, as its leader knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// The id of the leader.
    pub leader: u64,
    /// The index of the leader's last entry.
    pub last_index: u64,
    /// All members, ascending by id.
    pub members: Vec<Member>,
}

/// A member of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The id, unique in the cluster.
    pub id: u64,
    /// The address at which the other nodes and clients reach it.
    pub address: String,
    /// Whether it votes and counts for a majority. One that does not only receives the log.
    pub is_voter: bool,
    /// The index up to which it is known to have the leader's log; `None` if nothing is known.
    pub matched_index: Option<u64>,
}
