//! The adapter of [`StateStore`] to the state machine of openraft 0.10.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use futures_core::Stream;
use openraft_0_10::alias::{
    DefaultEntryOf, EntryPayloadOf, LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf,
};
use openraft_0_10::entry::RaftEntry;
use openraft_0_10::storage::{ApplyResponder, EntryResponder, RaftStateMachine, SnapshotMeta};
use openraft_0_10::{
    EntryPayload, OptionalSend, RaftSnapshotBuilder, RaftTypeConfig, StoredMembership,
};

use super::prerelease::Prerelease;
use crate::application::Application;
use crate::durable::DurableIndex;
use crate::encoding::{Encoding, Postcard};
use crate::release::{Applied, Payload};
use crate::replica::{Replica, Store};
use crate::snapshot::SnapshotDir;
use crate::state::StateStore;

/// A Raft group's state machine for openraft: an [`Application`] on a [`StateStore`].
pub struct StateMachine<C: RaftTypeConfig, A, E = Postcard> {
    replica: Replica<Prerelease<C>, A, E>,
}

impl<C: RaftTypeConfig, A> StateMachine<C, A> {
    /// Creates the state machine over a state just opened, with [`Postcard`] encoding.
    ///
    /// # Errors
    /// If the applied position cannot be read, or a snapshot that is needed cannot be built.
    pub fn new(state: StateStore, application: A) -> io::Result<Self> {
        Self::with_encoding(state, application)
    }
}

impl<C: RaftTypeConfig, A, E: Encoding> StateMachine<C, A, E> {
    /// Creates the state machine with encoding `E`; see [`crate::StateMachine::with_encoding`].
    ///
    /// # Errors
    /// If the applied position cannot be read, or a snapshot that is needed cannot be built.
    pub fn with_encoding(state: StateStore, application: A) -> io::Result<Self> {
        Ok(StateMachine {
            replica: Replica::new(state, application)?,
        })
    }

    /// Returns the shared index up to which the state is durable, for the group's log store.
    #[must_use]
    pub fn durable_index(&self) -> DurableIndex {
        self.replica.durable_index()
    }
}

/// Builds openraft's snapshot from a directory and its position.
fn describe<C: RaftTypeConfig>(
    ((last_log_id, last_membership), snapshot): (Applied<Prerelease<C>>, SnapshotDir),
) -> SnapshotOf<C, SnapshotDir> {
    let meta = SnapshotMeta {
        last_log_id,
        last_membership,
    };
    SnapshotOf::<C, SnapshotDir> { meta, snapshot }
}

/// openraft's snapshot builder (`RaftSnapshotBuilder`) for a [`StateMachine`].
pub struct SnapshotBuilder<C: RaftTypeConfig, E = Postcard> {
    store: Store<Prerelease<C>, E>,
}

impl<C: RaftTypeConfig, E: Encoding> RaftSnapshotBuilder<C> for SnapshotBuilder<C, E> {
    type SnapshotData = SnapshotDir;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<C, SnapshotDir>> {
        Ok(describe::<C>(self.store.build_snapshot().await?))
    }
}

impl<C, A, E> RaftStateMachine<C> for StateMachine<C, A, E>
where
    C: RaftTypeConfig<Payload = EntryPayloadOf<C>, Entry = DefaultEntryOf<C>>,
    A: Application<Request = C::D, Response = C::R>,
    E: Encoding,
{
    type SnapshotData = SnapshotDir;
    type SnapshotBuilder = SnapshotBuilder<C, E>;

    async fn applied_state(&mut self) -> io::Result<(Option<LogIdOf<C>>, StoredMembershipOf<C>)> {
        self.replica.store().applied()
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = Result<EntryResponder<C>, io::Error>> + Unpin + OptionalSend,
    {
        let mut batch = self.replica.batch();
        let mut answers: Vec<(ApplyResponder<C>, C::R)> = Vec::new();
        let answer = |answers: &mut Vec<(ApplyResponder<C>, C::R)>| {
            for (responder, response) in answers.drain(..) {
                responder.send(response);
            }
        };
        while let Some(entry) = poll_fn(|context| Pin::new(&mut entries).poll_next(context)).await {
            let (entry, responder) = entry?;
            let id = entry.log_id();
            let payload = match entry.payload {
                EntryPayload::Normal(request) => Payload::Request(request),
                EntryPayload::Membership(membership) => {
                    Payload::Membership(StoredMembership::new(Some(id.clone()), membership))
                }
                EntryPayload::Blank => Payload::Blank,
            };
            let response = batch.apply(id, &payload)?;
            answers.extend(responder.map(|responder| (responder, response)));
            if batch.write_if_full()? {
                answer(&mut answers);
            }
        }
        batch.write()?;
        answer(&mut answers);
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder<C, E> {
        SnapshotBuilder {
            store: self.replica.builder(),
        }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<C>,
        snapshot: SnapshotDir,
    ) -> io::Result<()> {
        let applied = (meta.last_log_id.clone(), meta.last_membership.clone());
        self.replica.install_snapshot(applied, snapshot).await
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<C, SnapshotDir>>> {
        Ok(self.replica.store().snapshot()?.map(describe::<C>))
    }
}
