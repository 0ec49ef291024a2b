//! A node and its clients over TCP: a complete replicated service for an [`Application`](crate::Application).
//!
//! [`Node`] opens both stores, runs openraft and serves a port; [`Client`] sends requests to whichever
//! node leads. Frames are a length (4 bytes, little-endian) and a message encoded by
//! [`Postcard`](crate::Postcard). There is no encryption and no authentication: use it within a
//! trusted network.
//!
//! ```text
//! frame      length (4) | message
//! snapshot   frame with the list of files → frame with those that are missing → their bytes → frame
//! ```

mod client;
mod frame;
mod message;
mod network;
mod node;
mod receive;
mod types;

pub use client::Client;
pub use node::Node;
pub use types::{Machine, Types};
