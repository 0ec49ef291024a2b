//! Storage for [openraft](https://docs.rs/openraft) on KoelDB: Raft log, state machine, snapshots.
//!
//! - [`RaftLogs`] is the log database of a node. All Raft groups of the node share it, and with it
//!   the syncs of its write-ahead log (group commit across groups).
//! - [`StateStore`] is the replicated state of one group, a database of its own. Its writes bypass
//!   the write-ahead log, since the Raft log already has them.
//! - [`SnapshotDir`] is a snapshot: a checkpoint of the state, sent and installed as files.
//! - [`LogStore`] and [`StateMachine`] adapt them to openraft; an [`Application`] says what requests
//!   do to the state.
//! - [`grpc`](mod@grpc), with the feature of that name, is a node and its clients over gRPC with TLS, for
//!   clusters with one group.
//! - `v0_10`, with the feature `openraft-0-10`, has the adapters to a prerelease of openraft 0.10.
//!
//! The first three know nothing of openraft. Building and installing a snapshot run in a thread of
//! tokio's blocking pool; the other calls block only on writes of the log to the operating system, on
//! reads, and in write stalls.
//!
//! Snapshots are directories, so openraft's feature `generic-snapshot-data` is on. A network sends the
//! files of [`SnapshotDir`] in its `full_snapshot`; the receiver writes them to the directory that
//! `Raft::begin_receiving_snapshot` returns, compares their checksums with those of
//! [`SnapshotDir::files`] at the sender, and calls `install_full_snapshot`.
//!
//! # Durability
//! | call | durable |
//! |---|---|
//! | `append` | when its callback runs |
//! | `save_vote`, `truncate` | before it returns |
//! | `purge`, `save_committed` | with the next sync; their order with appends is that of the calls |
//! | `apply` | with the next flush of the state; openraft applies the rest again from the log |
//! | `build_snapshot`, `install_snapshot` | before they return |
//!
//! Log and state are two databases. When a node starts, the log gives way to the state: if it neither
//! has the last applied entry nor has purged it, all its entries are removed.
//!
//! A leader that restarts is one no longer: its reads would miss writes that it has confirmed, since the
//! committed position is not synced. [`LogStore`] presents the saved vote as one that no quorum has
//! granted, so a started node waits for a leader or an election.
//!
//! After the first failed write or sync of the log database every later call fails until it is
//! reopened: what is on the disk is unknown.

mod application;
mod durable;
mod encoding;
mod entry_log;
#[cfg(feature = "grpc")]
pub mod grpc;
mod key;
mod log_store;
mod logs;
mod release;
mod replica;
mod snapshot;
mod stable;
mod state;
mod state_machine;
mod syncer;
#[cfg(feature = "openraft-0-10")]
pub mod v0_10;

pub use application::{Application, StateBatch};
pub use durable::DurableIndex;
pub use encoding::{Encoding, Postcard};
pub use log_store::LogStore;
pub use logs::{GroupLog, RaftLogs};
pub use snapshot::{SnapshotDir, SnapshotFile};
pub use state::{APPLIED_KEY, StateStore};
pub use state_machine::{SnapshotBuilder, StateMachine};
