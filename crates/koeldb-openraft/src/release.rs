//! The types of a release of openraft that the stores work with.

use std::fmt::Display;
use std::future::Future;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The types of one release of openraft, with one configuration of it.
pub(crate) trait Release {
    /// A log entry.
    type Entry: Serialize + DeserializeOwned;
    /// The id of a log entry: its leader and its index.
    type LogId: Serialize + DeserializeOwned + Clone + Display + Ord + Send;
    /// A membership with the id of its entry.
    type Membership: Serialize + DeserializeOwned + Clone + Default + Send;

    /// Returns the id of `entry`.
    fn log_id(entry: &Self::Entry) -> Self::LogId;

    /// Returns the index in `id`.
    fn index(id: &Self::LogId) -> u64;

    /// Runs `work` in a thread in which it may block.
    fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send;
}

/// The applied position: the last entry and the last membership.
pub(crate) type Applied<R> = (Option<<R as Release>::LogId>, <R as Release>::Membership);

/// The content of an entry with requests of type `Q`.
pub(crate) enum Payload<Q, M> {
    Request(Q),
    Membership(M),
    Blank,
}
