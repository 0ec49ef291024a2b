//! The types of openraft 0.9.

use std::io;
use std::marker::PhantomData;

use openraft::{LogId, RaftLogId, RaftTypeConfig, StoredMembership};

use crate::release::Release;

/// openraft 0.9 with the configuration `C`.
pub(crate) struct Stable<C>(PhantomData<fn() -> C>);

impl<C: RaftTypeConfig> Release for Stable<C> {
    type Entry = C::Entry;
    type LogId = LogId<C::NodeId>;
    type Membership = StoredMembership<C::NodeId, C::Node>;

    fn log_id(entry: &C::Entry) -> LogId<C::NodeId> {
        entry.get_log_id().clone()
    }

    fn index(id: &LogId<C::NodeId>) -> u64 {
        id.index
    }

    async fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        Ok(tokio::task::spawn_blocking(work).await?)
    }
}
