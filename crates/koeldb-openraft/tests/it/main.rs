//! The stores under openraft's own suite, under crashes, and in clusters.
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]

#[cfg(feature = "grpc")]
mod authority;
mod cluster;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(feature = "grpc")]
mod links;
mod logs;
#[cfg(feature = "grpc")]
mod processes;
mod state;
mod suite;
mod support;
#[cfg(feature = "openraft-0-10")]
mod v0_10;
