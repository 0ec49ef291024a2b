//! The stores under openraft's own suite, under crashes, and in clusters.
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod cluster;
mod logs;
mod processes;
mod state;
mod suite;
mod support;
mod tcp;
#[cfg(feature = "openraft-0-9")]
mod v0_9;
