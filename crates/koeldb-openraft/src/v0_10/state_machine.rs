//! The adapter of [`StateStore`] to openraft's state machine.

use std::future::poll_fn;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use openraft_0_10::alias::{
    AsyncRuntimeOf, DefaultEntryOf, EntryPayloadOf, LogIdOf, SnapshotMetaOf, SnapshotOf,
    StoredMembershipOf,
};
use openraft_0_10::async_runtime::AsyncRuntime;
use openraft_0_10::entry::RaftEntry;
use openraft_0_10::storage::{ApplyResponder, EntryResponder, RaftStateMachine, SnapshotMeta};
use openraft_0_10::{
    EntryPayload, OptionalSend, RaftSnapshotBuilder, RaftTypeConfig, StoredMembership,
};

use crate::application::{Application, StateBatch};
use crate::durable::DurableIndex;
use crate::encoding::{Encoding, Postcard};
use crate::snapshot::SnapshotDir;
use crate::state::{BATCH_BYTES, StateStore};

/// A Raft group's state machine for openraft: an [`Application`] on a [`StateStore`].
pub struct StateMachine<C: RaftTypeConfig, A, E = Postcard> {
    state: StateStore,
    application: Arc<A>,
    durable: DurableIndex,
    applied: Applied<C>,
    encoding: PhantomData<fn() -> E>,
}

/// The applied position: the last entry and the last membership.
type Applied<C> = (Option<LogIdOf<C>>, StoredMembershipOf<C>);

/// Decodes the stored applied position; `None` gives that of a state without applied entries.
fn decode<C: RaftTypeConfig, E: Encoding>(applied: Option<&[u8]>) -> io::Result<Applied<C>> {
    match applied {
        Some(applied) => Ok(E::decode(applied)?),
        None => Ok((None, StoredMembership::default())),
    }
}

/// Builds openraft's snapshot metadata from the applied position of the snapshot.
fn meta<C: RaftTypeConfig>((last_log_id, last_membership): Applied<C>) -> SnapshotMetaOf<C> {
    SnapshotMeta {
        last_log_id,
        last_membership,
    }
}

impl<C: RaftTypeConfig, A> StateMachine<C, A> {
    /// Creates the state machine over a state just opened, with [`Postcard`] encoding.
    ///
    /// See [`StateMachine::with_encoding`].
    ///
    /// # Errors
    /// If the applied position cannot be read, or a snapshot that is needed cannot be built.
    pub fn new(state: StateStore, application: A) -> io::Result<Self> {
        Self::with_encoding(state, application)
    }
}

impl<C: RaftTypeConfig, A, E: Encoding> StateMachine<C, A, E> {
    /// Creates the state machine with encoding `E`; builds a snapshot if the newest one is behind.
    ///
    /// If the state is ahead of its newest snapshot, this builds one. A flush may have made entries
    /// durable that the log of this node has lost; openraft then purges the log up to the applied
    /// position, which it expects a snapshot to have.
    ///
    /// # Errors
    /// If the applied position cannot be read, or the snapshot cannot be built.
    pub fn with_encoding(state: StateStore, application: A) -> io::Result<Self> {
        let applied: Applied<C> = decode::<C, E>(state.applied()?.as_deref())?;
        let durable = DurableIndex::default();
        // What was just opened came from tables: the state has no other log than Raft's.
        if let Some(last) = &applied.0 {
            let snapshot = state.current_snapshot();
            let snapshot: Applied<C> = decode::<C, E>(snapshot.as_ref().map(SnapshotDir::applied))?;
            if snapshot.0.as_ref() < Some(last) {
                state.build_snapshot()?;
            }
        }
        // A snapshot whose installation a crash ended is ahead of the state; openraft installs it.
        let snapshot = state.current_snapshot();
        let snapshot: Applied<C> = decode::<C, E>(snapshot.as_ref().map(SnapshotDir::applied))?;
        if let Some(last) = snapshot.0.as_ref().max(applied.0.as_ref()) {
            durable.set_opened(last.index(), E::encode(last)?);
        }
        Ok(StateMachine {
            state,
            application: Arc::new(application),
            durable,
            applied,
            encoding: PhantomData,
        })
    }

    /// Returns the shared index up to which the state is durable, for the group's log store.
    #[must_use]
    pub fn durable_index(&self) -> DurableIndex {
        self.durable.clone()
    }
}

/// Returns the default response, with which blank and membership entries are answered.
fn no_answer<A: Application>() -> A::Response {
    A::Response::default()
}

/// openraft's snapshot builder (`RaftSnapshotBuilder`) for a [`StateMachine`].
pub struct SnapshotBuilder<E> {
    state: StateStore,
    durable: DurableIndex,
    encoding: PhantomData<fn() -> E>,
}

impl<C: RaftTypeConfig, E: Encoding> RaftSnapshotBuilder<C> for SnapshotBuilder<E> {
    type SnapshotData = SnapshotDir;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<C, SnapshotDir>> {
        let state = self.state.clone();
        let built = AsyncRuntimeOf::<C>::spawn_blocking(move || state.build_snapshot()).await??;
        let snapshot = built.ok_or_else(|| io::Error::other("nothing has been applied yet"))?;
        let meta = meta::<C>(decode::<C, E>(Some(snapshot.applied()))?);
        if let Some(last) = &meta.last_log_id {
            self.durable.raise(last.index());
        }
        Ok(SnapshotOf::<C, SnapshotDir> { meta, snapshot })
    }
}

impl<C, A, E> StateMachine<C, A, E>
where
    C: RaftTypeConfig<Payload = EntryPayloadOf<C>, Entry = DefaultEntryOf<C>>,
    A: Application<Request = C::D, Response = C::R>,
    E: Encoding,
{
    /// Writes the batch with the applied position to the state, then sends clients the responses.
    fn write(
        &self,
        batch: StateBatch,
        answers: &mut Vec<(ApplyResponder<C>, C::R)>,
    ) -> io::Result<()> {
        self.state.write(batch, &E::encode(&self.applied)?)?;
        for (responder, response) in answers.drain(..) {
            responder.send(response);
        }
        Ok(())
    }
}

impl<C, A, E> RaftStateMachine<C> for StateMachine<C, A, E>
where
    C: RaftTypeConfig<Payload = EntryPayloadOf<C>, Entry = DefaultEntryOf<C>>,
    A: Application<Request = C::D, Response = C::R>,
    E: Encoding,
{
    type SnapshotData = SnapshotDir;
    type SnapshotBuilder = SnapshotBuilder<E>;

    async fn applied_state(&mut self) -> io::Result<Applied<C>> {
        decode::<C, E>(self.state.applied()?.as_deref())
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = Result<EntryResponder<C>, io::Error>> + Unpin + OptionalSend,
    {
        let mut batch = self.state.batch();
        let mut answers = Vec::new();
        while let Some(entry) = poll_fn(|context| Pin::new(&mut entries).poll_next(context)).await {
            let (entry, responder) = entry?;
            if let Some(last) = &self.applied.0
                && last.index() >= entry.index()
            {
                return Err(io::Error::other(format!(
                    "entry {} is to be applied behind {last}",
                    entry.log_id()
                )));
            }
            let response = match &entry.payload {
                EntryPayload::Normal(request) => self.application.apply(&mut batch, request)?,
                EntryPayload::Membership(membership) => {
                    self.applied.1 =
                        StoredMembership::new(Some(entry.log_id()), membership.clone());
                    no_answer::<A>()
                }
                EntryPayload::Blank => no_answer::<A>(),
            };
            self.applied.0 = Some(entry.log_id());
            answers.extend(responder.map(|responder| (responder, response)));
            if batch.batch.batch().size_in_bytes() >= BATCH_BYTES {
                let full = std::mem::replace(&mut batch, self.state.batch());
                self.write(full, &mut answers)?;
            }
        }
        self.write(batch, &mut answers)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder<E> {
        // Even an empty state names its end. If that fails, the builder says so.
        if self.applied.0.is_none() {
            let _ = self.write(self.state.batch(), &mut Vec::new());
        }
        SnapshotBuilder {
            state: self.state.clone(),
            durable: self.durable.clone(),
            encoding: PhantomData,
        }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<C>,
        snapshot: SnapshotDir,
    ) -> io::Result<()> {
        let applied: Applied<C> = (meta.last_log_id.clone(), meta.last_membership.clone());
        let (state, expected) = (self.state.clone(), E::encode(&applied)?);
        let install = move || state.install_snapshot(&snapshot, &expected);
        AsyncRuntimeOf::<C>::spawn_blocking(install).await??;
        if let Some(last) = &applied.0 {
            self.durable.raise(last.index());
        }
        self.applied = applied;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<C, SnapshotDir>>> {
        let Some(snapshot) = self.state.current_snapshot() else {
            return Ok(None);
        };
        let meta = meta::<C>(decode::<C, E>(Some(snapshot.applied()))?);
        Ok(Some(SnapshotOf::<C, SnapshotDir> { meta, snapshot }))
    }
}
