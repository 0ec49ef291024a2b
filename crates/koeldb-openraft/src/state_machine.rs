//! The adapter of [`StateStore`] to the state machine of openraft 0.9.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{
    Entry, EntryPayload, ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftSnapshotBuilder,
    RaftTypeConfig, Snapshot, SnapshotMeta, StorageError, StoredMembership,
};

use crate::application::Application;
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
type Applied<C> = (
    Option<LogId<<C as RaftTypeConfig>::NodeId>>,
    StoredMembership<<C as RaftTypeConfig>::NodeId, <C as RaftTypeConfig>::Node>,
);

/// Decodes the stored applied position; `None` gives that of a state without applied entries.
fn decode<C: RaftTypeConfig, E: Encoding>(applied: Option<&[u8]>) -> io::Result<Applied<C>> {
    match applied {
        Some(applied) => Ok(E::decode(applied)?),
        None => Ok((None, StoredMembership::default())),
    }
}

/// Builds openraft's snapshot from a directory and the applied position in it, which names it.
fn describe<C, E>(snapshot: SnapshotDir) -> io::Result<Snapshot<C>>
where
    C: RaftTypeConfig<SnapshotData = SnapshotDir>,
    E: Encoding,
{
    let (last_log_id, last_membership) = decode::<C, E>(Some(snapshot.applied()))?;
    let snapshot_id = last_log_id.as_ref().map(ToString::to_string);
    let meta = SnapshotMeta {
        last_log_id,
        last_membership,
        snapshot_id: snapshot_id.unwrap_or_default(),
    };
    Ok(Snapshot {
        meta,
        snapshot: Box::new(snapshot),
    })
}

/// Returns openraft's error for a failed read of the state.
fn read_error<C: RaftTypeConfig>(error: impl Into<io::Error>) -> StorageError<C::NodeId> {
    StorageError::from_io_error(ErrorSubject::StateMachine, ErrorVerb::Read, error.into())
}

/// Returns openraft's error for a failed write of the state.
fn write_error<C: RaftTypeConfig>(error: impl Into<io::Error>) -> StorageError<C::NodeId> {
    StorageError::from_io_error(ErrorSubject::StateMachine, ErrorVerb::Write, error.into())
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
        let position = |snapshot: Option<SnapshotDir>| {
            decode::<C, E>(snapshot.as_ref().map(SnapshotDir::applied))
        };
        if position(state.current_snapshot())?.0 < applied.0 {
            state.build_snapshot()?;
        }
        let durable = DurableIndex::default();
        // A snapshot whose installation a crash ended is ahead of the state; openraft installs it.
        let snapshot = position(state.current_snapshot())?;
        if let Some(last) = snapshot.0.as_ref().max(applied.0.as_ref()) {
            durable.set_opened(last.index, E::encode(last)?);
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

/// openraft's snapshot builder (`RaftSnapshotBuilder`) for a [`StateMachine`].
pub struct SnapshotBuilder<E> {
    state: StateStore,
    durable: DurableIndex,
    encoding: PhantomData<fn() -> E>,
}

impl<C, E> RaftSnapshotBuilder<C> for SnapshotBuilder<E>
where
    C: RaftTypeConfig<SnapshotData = SnapshotDir>,
    E: Encoding,
{
    async fn build_snapshot(&mut self) -> Result<Snapshot<C>, StorageError<C::NodeId>> {
        let state = self.state.clone();
        let built = tokio::task::spawn_blocking(move || state.build_snapshot()).await;
        let built = built
            .map_err(write_error::<C>)?
            .map_err(write_error::<C>)?
            .ok_or_else(|| io::Error::other("nothing has been applied yet"));
        let built = built.and_then(describe::<C, E>);
        let built = built.map_err(write_error::<C>)?;
        if let Some(last) = &built.meta.last_log_id {
            self.durable.raise(last.index);
        }
        Ok(built)
    }
}

impl<C, A, E> StateMachine<C, A, E>
where
    C: RaftTypeConfig<Entry = Entry<C>>,
    C::R: Default,
    A: Application<Request = C::D, Response = C::R>,
    E: Encoding,
{
    /// Applies entries in order and writes them, with the applied position, in batches.
    fn apply_all(&mut self, entries: impl Iterator<Item = Entry<C>>) -> io::Result<Vec<C::R>> {
        let mut batch = self.state.batch();
        let mut responses = Vec::new();
        for Entry { log_id, payload } in entries {
            if let Some(last) = &self.applied.0
                && last.index >= log_id.index
            {
                return Err(io::Error::other(format!(
                    "entry {log_id} is to be applied behind {last}"
                )));
            }
            responses.push(match payload {
                EntryPayload::Normal(request) => self.application.apply(&mut batch, &request)?,
                EntryPayload::Membership(membership) => {
                    self.applied.1 = StoredMembership::new(Some(log_id.clone()), membership);
                    C::R::default()
                }
                EntryPayload::Blank => C::R::default(),
            });
            self.applied.0 = Some(log_id);
            if batch.batch.batch().size_in_bytes() >= BATCH_BYTES {
                let full = std::mem::replace(&mut batch, self.state.batch());
                self.state.write(full, &E::encode(&self.applied)?)?;
            }
        }
        self.state.write(batch, &E::encode(&self.applied)?)?;
        Ok(responses)
    }
}

impl<C, A, E> RaftStateMachine<C> for StateMachine<C, A, E>
where
    C: RaftTypeConfig<Entry = Entry<C>, SnapshotData = SnapshotDir>,
    C::R: Default,
    A: Application<Request = C::D, Response = C::R>,
    E: Encoding,
{
    type SnapshotBuilder = SnapshotBuilder<E>;

    async fn applied_state(&mut self) -> Result<Applied<C>, StorageError<C::NodeId>> {
        let applied = self.state.applied().map_err(read_error::<C>)?;
        decode::<C, E>(applied.as_deref()).map_err(read_error::<C>)
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<C::R>, StorageError<C::NodeId>>
    where
        I: IntoIterator<Item = Entry<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.apply_all(entries.into_iter())
            .map_err(write_error::<C>)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder<E> {
        // Even an empty state names its end. If that fails, the builder says so.
        if self.applied.0.is_none() {
            let _ = self.apply_all(std::iter::empty());
        }
        SnapshotBuilder {
            state: self.state.clone(),
            durable: self.durable.clone(),
            encoding: PhantomData,
        }
    }

    /// Returns an empty directory for the files of a snapshot; it is removed with its last handle.
    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<SnapshotDir>, StorageError<C::NodeId>> {
        let snapshot = self.state.receive_snapshot().map_err(write_error::<C>)?;
        Ok(Box::new(snapshot))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<C::NodeId, C::Node>,
        snapshot: Box<SnapshotDir>,
    ) -> Result<(), StorageError<C::NodeId>> {
        let applied: Applied<C> = (meta.last_log_id.clone(), meta.last_membership.clone());
        let expected = E::encode(&applied).map_err(write_error::<C>)?;
        let state = self.state.clone();
        let install = move || state.install_snapshot(&snapshot, &expected);
        let installed = tokio::task::spawn_blocking(install).await;
        installed
            .map_err(write_error::<C>)?
            .map_err(write_error::<C>)?;
        if let Some(last) = &applied.0 {
            self.durable.raise(last.index);
        }
        self.applied = applied;
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<C>>, StorageError<C::NodeId>> {
        let snapshot = self.state.current_snapshot();
        let snapshot = snapshot.map(describe::<C, E>).transpose();
        snapshot.map_err(read_error::<C>)
    }
}
