//! The adapter of [`StateStore`] to openraft's state machine.

use std::io;

use openraft::storage::RaftStateMachine;
use openraft::{
    Entry, EntryPayload, ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftSnapshotBuilder,
    RaftTypeConfig, Snapshot, SnapshotMeta, StorageError, StoredMembership,
};

use crate::application::Application;
use crate::durable::DurableIndex;
use crate::encoding::{Encoding, Postcard};
use crate::release::{Applied, Payload};
use crate::replica::{Replica, Store};
use crate::snapshot::SnapshotDir;
use crate::stable::Stable;
use crate::state::StateStore;

/// A Raft group's state machine for openraft: an [`Application`] on a [`StateStore`].
pub struct StateMachine<C: RaftTypeConfig, A, E = Postcard> {
    replica: Replica<Stable<C>, A, E>,
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
    /// Creates the state machine with encoding `E`, and brings the state and its snapshot together.
    ///
    /// If the newest snapshot is behind the state, this builds one: a flush may have made entries
    /// durable that the log of this node has lost; openraft then purges the log up to the applied
    /// position, which it expects a snapshot to have. If the snapshot is ahead, a crash ended its
    /// installation, and this repeats it.
    ///
    /// # Errors
    /// If the applied position cannot be read, or the snapshot cannot be built or installed.
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

/// Builds openraft's snapshot from a directory and its position, which names it.
fn describe<C: RaftTypeConfig<SnapshotData = SnapshotDir>>(
    ((last_log_id, last_membership), snapshot): (Applied<Stable<C>>, SnapshotDir),
) -> Snapshot<C> {
    let snapshot_id = last_log_id.as_ref().map(ToString::to_string);
    let meta = SnapshotMeta {
        last_log_id,
        last_membership,
        snapshot_id: snapshot_id.unwrap_or_default(),
    };
    Snapshot {
        meta,
        snapshot: Box::new(snapshot),
    }
}

/// Returns openraft's error for a failed read of the state.
fn read_error<N: openraft::NodeId>(error: io::Error) -> StorageError<N> {
    StorageError::from_io_error(ErrorSubject::StateMachine, ErrorVerb::Read, error)
}

/// Returns openraft's error for a failed write of the state.
fn write_error<N: openraft::NodeId>(error: io::Error) -> StorageError<N> {
    StorageError::from_io_error(ErrorSubject::StateMachine, ErrorVerb::Write, error)
}

/// openraft's snapshot builder (`RaftSnapshotBuilder`) for a [`StateMachine`].
pub struct SnapshotBuilder<C: RaftTypeConfig, E = Postcard> {
    store: Store<Stable<C>, E>,
}

impl<C, E> RaftSnapshotBuilder<C> for SnapshotBuilder<C, E>
where
    C: RaftTypeConfig<SnapshotData = SnapshotDir>,
    E: Encoding,
{
    async fn build_snapshot(&mut self) -> Result<Snapshot<C>, StorageError<C::NodeId>> {
        let built = self.store.build_snapshot().await;
        built.map(describe).map_err(write_error)
    }
}

impl<C, A, E> StateMachine<C, A, E>
where
    C: RaftTypeConfig<Entry = Entry<C>>,
    A: Application<Request = C::D, Response = C::R>,
    E: Encoding,
{
    /// Applies entries in order.
    fn apply_all(&mut self, entries: impl Iterator<Item = Entry<C>>) -> io::Result<Vec<C::R>> {
        let mut batch = self.replica.batch();
        let mut responses = Vec::new();
        for Entry { log_id, payload } in entries {
            let payload = match payload {
                EntryPayload::Normal(request) => Payload::Request(request),
                EntryPayload::Membership(membership) => {
                    Payload::Membership(StoredMembership::new(Some(log_id.clone()), membership))
                }
                EntryPayload::Blank => Payload::Blank,
            };
            responses.push(batch.apply(log_id, &payload)?);
            batch.write_if_full()?;
        }
        batch.write()?;
        Ok(responses)
    }
}

impl<C, A, E> RaftStateMachine<C> for StateMachine<C, A, E>
where
    C: RaftTypeConfig<Entry = Entry<C>, SnapshotData = SnapshotDir>,
    A: Application<Request = C::D, Response = C::R>,
    E: Encoding,
{
    type SnapshotBuilder = SnapshotBuilder<C, E>;

    async fn applied_state(
        &mut self,
    ) -> Result<
        (
            Option<LogId<C::NodeId>>,
            StoredMembership<C::NodeId, C::Node>,
        ),
        StorageError<C::NodeId>,
    > {
        self.replica.store().applied().map_err(read_error)
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<C::R>, StorageError<C::NodeId>>
    where
        I: IntoIterator<Item = Entry<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.apply_all(entries.into_iter()).map_err(write_error)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder<C, E> {
        SnapshotBuilder {
            store: self.replica.builder(),
        }
    }

    /// Returns an empty directory for the files of a snapshot; it is removed with its last handle.
    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<SnapshotDir>, StorageError<C::NodeId>> {
        let received = self.replica.receive_snapshot();
        received.map(Box::new).map_err(write_error)
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<C::NodeId, C::Node>,
        snapshot: Box<SnapshotDir>,
    ) -> Result<(), StorageError<C::NodeId>> {
        let applied = (meta.last_log_id.clone(), meta.last_membership.clone());
        let installed = self.replica.install_snapshot(applied, *snapshot).await;
        installed.map_err(write_error)
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<C>>, StorageError<C::NodeId>> {
        let snapshot = self.replica.store().snapshot().map_err(read_error)?;
        Ok(snapshot.map(describe))
    }
}
