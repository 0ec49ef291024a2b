//! The adapters to openraft 0.9, the stable release (feature `openraft-0-9`).
//!
//! A directory written through one release of openraft is not to be opened through the other:
//! nothing makes their types encode alike.
//!
//! Snapshots are directories, so openraft's feature `generic-snapshot-data` is on: a network sends the
//! files of [`SnapshotDir`](crate::SnapshotDir) in its `full_snapshot`, and the receiver writes them to
//! the directory that `Raft::begin_receiving_snapshot` returns before `install_full_snapshot`.

mod log_store;
mod state_machine;

pub use log_store::LogStore;
pub use state_machine::{SnapshotBuilder, StateMachine};
