//! The state of a group with the application that changes it, entry by entry.

use std::io;
use std::marker::PhantomData;

use crate::application::{Application, StateBatch};
use crate::durable::DurableIndex;
use crate::encoding::Encoding;
use crate::release::{Applied, Payload, Release};
use crate::snapshot::SnapshotDir;
use crate::state::StateStore;

/// The size in bytes at which a batch of applied entries is written to the state.
const BATCH_BYTES: usize = 1 << 20;

/// An application on a [`StateStore`], at a position of release `R` that is encoded with `E`.
pub(crate) struct Replica<R: Release, A, E> {
    store: Store<R, E>,
    application: A,
    applied: Applied<R>,
}

/// The state without its application: it builds and installs snapshots.
pub(crate) struct Store<R, E> {
    state: StateStore,
    durable: DurableIndex,
    types: PhantomData<fn() -> (R, E)>,
}

impl<R, E> Clone for Store<R, E> {
    fn clone(&self) -> Self {
        Store {
            state: self.state.clone(),
            durable: self.durable.clone(),
            types: PhantomData,
        }
    }
}

impl<R: Release, E: Encoding> Store<R, E> {
    /// Decodes a stored applied position; `None` gives that of a state without applied entries.
    fn decode(applied: Option<&[u8]>) -> io::Result<Applied<R>> {
        match applied {
            Some(applied) => Ok(E::decode(applied)?),
            None => Ok(Applied::<R>::default()),
        }
    }

    /// Returns the newest snapshot with its position.
    pub(crate) fn snapshot(&self) -> io::Result<Option<(Applied<R>, SnapshotDir)>> {
        let Some(snapshot) = self.state.current_snapshot() else {
            return Ok(None);
        };
        Ok(Some((Self::decode(Some(snapshot.applied()))?, snapshot)))
    }

    /// Reads the applied position.
    pub(crate) fn applied(&self) -> io::Result<Applied<R>> {
        Self::decode(self.state.applied()?.as_deref())
    }

    /// Calls `work` in a thread in which it may block; in a simulation, in this one.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StateStore) -> koeldb::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        if !self.state.has_threads() {
            return Ok(work(&self.state)?);
        }
        let state = self.state.clone();
        Ok(R::spawn_blocking(move || work(&state)).await??)
    }

    /// Builds a snapshot, and marks its entries as durable.
    pub(crate) async fn build_snapshot(&self) -> io::Result<(Applied<R>, SnapshotDir)> {
        let built = self.run(StateStore::build_snapshot).await?;
        let snapshot = built.ok_or_else(|| io::Error::other("nothing has been applied yet"))?;
        let applied = Self::decode(Some(snapshot.applied()))?;
        self.raise(&applied);
        Ok((applied, snapshot))
    }

    /// Marks the entries up to a position as durable in the state or a snapshot.
    fn raise(&self, (last, _): &Applied<R>) {
        if let Some(last) = last {
            self.durable.raise(R::index(last));
        }
    }
}

impl<R: Release, A, E: Encoding> Replica<R, A, E> {
    /// Starts the application on a state just opened, and brings it and its snapshot together.
    ///
    /// If the newest snapshot is behind, this builds one: a flush may have made entries durable that
    /// the log of this node has lost; openraft then purges the log up to the applied position, which
    /// it expects a snapshot to have. If it is ahead, a crash ended its installation; this repeats it.
    pub(crate) fn new(state: StateStore, application: A) -> io::Result<Self> {
        let store: Store<R, E> = Store {
            state,
            durable: DurableIndex::default(),
            types: PhantomData,
        };
        let mut applied = store.applied()?;
        match store.snapshot()? {
            Some((position, snapshot)) if position.0 > applied.0 => {
                let expected = snapshot.applied().to_vec();
                store.state.install_snapshot(&snapshot, &expected)?;
                applied = position;
            }
            Some((position, _)) if position.0 == applied.0 => {}
            _ if applied.0.is_none() => {}
            _ => {
                store.state.build_snapshot()?;
            }
        }
        if let Some(last) = &applied.0 {
            store.durable.set_opened(R::index(last), E::encode(last)?);
        }
        Ok(Replica {
            store,
            application,
            applied,
        })
    }

    /// Returns the state without its application.
    pub(crate) fn store(&self) -> &Store<R, E> {
        &self.store
    }

    /// Returns the shared index up to which the state is durable.
    pub(crate) fn durable_index(&self) -> DurableIndex {
        self.store.durable.clone()
    }

    /// Returns the state for a snapshot builder; even one without applied entries names its end then.
    pub(crate) fn builder(&mut self) -> Store<R, E> {
        if self.applied.0.is_none() {
            // If that fails, the builder says so.
            let _ = self.batch().write();
        }
        self.store.clone()
    }

    /// Begins a batch of entries.
    pub(crate) fn batch(&mut self) -> Batch<'_, R, A, E> {
        let batch = self.store.state.batch();
        Batch {
            replica: self,
            batch,
        }
    }

    /// Returns an empty directory for the files of a snapshot; it is removed with its last handle.
    pub(crate) fn receive_snapshot(&self) -> io::Result<SnapshotDir> {
        Ok(self.store.state.receive_snapshot()?)
    }

    /// Replaces the state by a received snapshot, whose position is `applied`.
    pub(crate) async fn install_snapshot(
        &mut self,
        applied: Applied<R>,
        snapshot: SnapshotDir,
    ) -> io::Result<()> {
        let expected = E::encode(&applied)?;
        let install = move |state: &StateStore| state.install_snapshot(&snapshot, &expected);
        let installed = self.store.run(install).await;
        installed.inspect_err(|_| self.store.durable.fail())?;
        self.store.raise(&applied);
        self.applied = applied;
        Ok(())
    }
}

/// Entries that are being applied: their effects are written to the state in batches.
pub(crate) struct Batch<'a, R: Release, A, E> {
    replica: &'a mut Replica<R, A, E>,
    batch: StateBatch,
}

impl<R: Release, A, E: Encoding> Batch<'_, R, A, E> {
    /// Applies the next entry and returns the response to it.
    pub(crate) fn apply(
        &mut self,
        id: R::LogId,
        payload: &Payload<A::Request, R::Membership>,
    ) -> io::Result<A::Response>
    where
        A: Application,
    {
        let Replica {
            application,
            applied,
            ..
        } = &mut *self.replica;
        if let Some(last) = &applied.0
            && R::index(last) >= R::index(&id)
        {
            return Err(io::Error::other(format!(
                "entry {id} is to be applied behind {last}"
            )));
        }
        let response = match payload {
            Payload::Request(request) => application.apply(&mut self.batch, request)?,
            Payload::Membership(membership) => {
                applied.1 = membership.clone();
                A::Response::default()
            }
            Payload::Blank => A::Response::default(),
        };
        applied.0 = Some(id);
        Ok(response)
    }

    /// Writes the entries so far if they are many; returns whether it did.
    pub(crate) fn write_if_full(&mut self) -> io::Result<bool> {
        let is_full = self.batch.batch.batch().size_in_bytes() >= BATCH_BYTES;
        if is_full {
            let next = self.replica.store.state.batch();
            let full = std::mem::replace(&mut self.batch, next);
            self.replica.write(full)?;
        }
        Ok(is_full)
    }

    /// Writes the entries that are not written yet.
    pub(crate) fn write(self) -> io::Result<()> {
        self.replica.write(self.batch)
    }
}

impl<R: Release, A, E: Encoding> Replica<R, A, E> {
    /// Writes a batch together with the applied position.
    fn write(&self, batch: StateBatch) -> io::Result<()> {
        let applied = E::encode(&self.applied)?;
        Ok(self.store.state.write(batch, &applied)?)
    }
}
