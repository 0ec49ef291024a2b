//! Storage for [openraft] on KoelDB: Raft log, state machine, snapshots.
//!
//! - [`RaftLogs`] is the log database of a node. All Raft groups of the node share it, and with it
//!   the syncs of its write-ahead log (group commit across groups).
//! - [`StateStore`] is the replicated state of one group, a database of its own. Its writes bypass
//!   the write-ahead log, since the Raft log already has them.
//! - [`SnapshotDir`] is a snapshot: a checkpoint of the state, sent and installed as files.
//! - [`LogStore`] and [`StateMachine`] adapt them to openraft; an [`Application`] says what requests
//!   do to the state.
//! - `v0_9`, with the feature `openraft-0-9`, has the adapters to the stable release of openraft.
//! - [`tcp`] is a node and its clients over TCP, for clusters with one group.
//!
//! The first three know nothing of openraft. Building and installing a snapshot run in a thread of
//! their own (`AsyncRuntime::spawn_blocking`); the other calls block only on writes of the log to the
//! operating system, on reads, and in write stalls.
//!
//! # Durability
//! | call | durable |
//! |---|---|
//! | `append` | when its callback runs |
//! | `save_vote`, `truncate_after` | before it returns |
//! | `purge`, `save_committed` | with the next sync; their order with appends is that of the calls |
//! | `apply` | with the next flush of the state; openraft applies the rest again from the log |
//! | `build_snapshot`, `install_snapshot` | before they return |
//!
//! Log and state are two databases. When a node starts, the log gives way to the state: if it neither
//! has the last applied entry nor has purged it, all its entries are removed.
//!
//! A leader sends entries before they are durable at home, so a power cut may take them from it only.
//! Set `enable_leader_restore` of openraft's `Config` to `Some(false)`, as [`tcp::Node`] does. By
//! default a restarted leader goes on in its old term, and gives the ids of the lost entries to others:
//! machines then apply different requests.
//!
//! After the first failed write or sync of the log database every later call fails until it is
//! reopened: what is on the disk is unknown.

mod application;
mod encoding;
mod key;
mod log_store;
mod logs;
mod snapshot;
mod state;
mod state_machine;
mod syncer;
pub mod tcp;
#[cfg(feature = "openraft-0-9")]
pub mod v0_9;

pub use application::{Application, StateBatch};
pub use encoding::{Encoding, Postcard};
pub use log_store::{DurableIndex, LogStore};
pub use logs::{GroupLog, RaftLogs};
pub use snapshot::{SnapshotDir, SnapshotFile};
pub use state::{APPLIED_KEY, StateStore};
pub use state_machine::{SnapshotBuilder, StateMachine};
