//! The types of the prerelease of openraft 0.10.

use std::future::Future;
use std::io;
use std::marker::PhantomData;

use openraft_0_10::RaftTypeConfig;
use openraft_0_10::alias::{AsyncRuntimeOf, EntryOf, LogIdOf, StoredMembershipOf};
use openraft_0_10::async_runtime::AsyncRuntime;
use openraft_0_10::entry::RaftEntry;

use crate::release::Release;

/// openraft 0.10 with the configuration `C`.
pub(crate) struct Prerelease<C>(PhantomData<fn() -> C>);

impl<C: RaftTypeConfig> Release for Prerelease<C> {
    type Entry = EntryOf<C>;
    type LogId = LogIdOf<C>;
    type Membership = StoredMembershipOf<C>;

    fn log_id(entry: &EntryOf<C>) -> LogIdOf<C> {
        entry.log_id()
    }

    fn index(id: &LogIdOf<C>) -> u64 {
        id.index()
    }

    fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send {
        AsyncRuntimeOf::<C>::spawn_blocking(work)
    }
}
