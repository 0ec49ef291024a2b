//! A node and its clients over gRPC: a complete replicated service for an [`Application`](crate::Application).
//!
//! [`Node`] opens both stores, runs openraft and serves a port with [tonic](https://docs.rs/tonic);
//! [`Client`] sends requests to whichever node leads. [`Security`] says how connections are encrypted
//! (TLS, by rustls) and which tokens open them. Feature `grpc`, on by default.
//!
//! Messages are values of serde, encoded by [`Postcard`](crate::Postcard). The services are those of
//! the package `koeldb.replication.v1`:
//!
//! | service | calls | token |
//! |---|---|---|
//! | `Raft` | `Append`, `Vote`, `Snapshot` (a stream each way) | that of the cluster |
//! | `Membership` | `Add`, `Remove` | that of the cluster |
//! | `Store` | `Write`, `Get`, `Members` | that of the cluster or of clients |
//!
//! ```text
//! snapshot   vote, metadata and list of files → numbers of those that are missing → their bytes →
//!            response of Raft
//! ```

mod client;
mod message;
mod network;
mod node;
mod receive;
mod security;
mod send;
mod service;
mod types;
pub(crate) mod wire;

pub use client::Client;
pub use message::{Member, Members};
pub use node::{Node, NodeOptions};
pub use security::Security;
pub use types::{Machine, Types};
