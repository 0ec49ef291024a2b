//! The adapters to one prerelease of openraft 0.10 (feature `openraft-0-10`).
//!
//! A directory written through one release of openraft is not to be opened through the other:
//! nothing makes their types encode alike.
//!
//! Set `enable_leader_restore` of openraft's `Config` to `Some(false)`. A leader of openraft 0.10 sends
//! entries before they are durable at home, so a power cut may take them from it only. By default a
//! restarted leader goes on in its old term, and gives the ids of the lost entries to others: machines
//! then apply different requests.
//!
//! In debug builds a node may stop by an assertion of this prerelease (`expect submitted:… <
//! new_submitted:…`, in `io_progress.rs`). Simulated clusters met it; no guarantee was violated then.

mod log_store;
mod prerelease;
mod state_machine;

pub use log_store::LogStore;
pub use state_machine::{SnapshotBuilder, StateMachine};
