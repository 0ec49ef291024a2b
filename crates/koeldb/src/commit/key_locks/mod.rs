//! Key locks: the lock table, waits, deadlocks, and the locks of writes outside of transactions.
//!
//! A database with pessimistic transactions locks each key before it is used; other databases lock
//! none. Lock order: the detector of deadlocks, shards of the lock table, the sleeper of a wait.

mod deadlock;
pub(crate) mod errors;
pub(crate) mod table;
mod timer;
pub(crate) mod waits;
mod write_locks;

use std::cell::Cell;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use koeldb_base::sync::{Padded, lock_plain as lock};

pub use deadlock::{DeadlockInfo, DeadlockPath};
pub use table::LockMode;

use crate::options::TransactionDbOptions;
use crate::state::context::Context;
use crate::state::health::Health;
use table::{LockId, LockTable};
use timer::LockTimer;

/// The number of ids that a thread takes together.
const IDS_TAKEN: u64 = 64;

/// A thread's reserve of unused owner ids, of the database of its last transaction.
#[derive(Clone, Copy)]
struct TakenIds {
    database: u64,
    next: u64,
    end: u64,
}

thread_local! {
    static TAKEN: Cell<TakenIds> = const {
        Cell::new(TakenIds {
            database: 0,
            next: 0,
            end: 0,
        })
    };
}

/// The key locks of a database.
pub(crate) struct KeyLocks {
    context: Arc<Context>,
    health: Arc<Health>,
    pub(crate) options: Option<TransactionDbOptions>,
    /// The lock table, in databases with pessimistic transactions.
    pub(crate) table: Option<LockTable>,
    seed: RandomState,
    /// The first id that no thread has taken.
    next_id: Padded<AtomicU64>,
    /// The latest deadlocks, newest first.
    deadlocks: Mutex<VecDeque<DeadlockPath>>,
    timer: LockTimer,
}

impl KeyLocks {
    pub(crate) fn new(context: &Arc<Context>, health: &Arc<Health>) -> Self {
        let options = context.plugins.transactions.clone();
        let table = options.as_ref().map(|options| {
            let count_max = usize::try_from(options.max_num_locks).unwrap_or(0);
            LockTable::new(options.num_stripes.clamp(1, 1 << 16), count_max)
        });
        KeyLocks {
            context: Arc::clone(context),
            health: Arc::clone(health),
            options,
            table,
            seed: RandomState::new(),
            next_id: Padded(AtomicU64::new(1)),
            deadlocks: Mutex::default(),
            timer: LockTimer::default(),
        }
    }

    /// Returns the lock id of a key: the hash under which it is locked and tracked.
    pub(crate) fn id_of(&self, cf: u32, key: &[u8]) -> LockId {
        let mut hasher = self.seed.build_hasher();
        hasher.write_u32(cf);
        hasher.write(key);
        hasher.finish()
    }

    /// Returns a new id for an owner of locks.
    ///
    /// A thread takes several from the counter that all threads share.
    pub(crate) fn new_id(&self) -> u64 {
        TAKEN.with(|taken| {
            let mut ids = taken.get();
            if ids.database != self.context.id || ids.next == ids.end {
                let first = self.next_id.fetch_add(IDS_TAKEN, Ordering::Relaxed);
                ids = TakenIds {
                    database: self.context.id,
                    next: first,
                    end: first + IDS_TAKEN,
                };
            }
            let id = ids.next;
            ids.next += 1;
            taken.set(ids);
            id
        })
    }

    /// The latest deadlocks, newest first.
    pub(crate) fn deadlocks(&self) -> Vec<DeadlockPath> {
        lock(&self.deadlocks).iter().cloned().collect()
    }

    /// Adds a deadlock to the most recent ones, `max_num_deadlocks` at most.
    fn remember(&self, path: DeadlockPath) {
        let max = self.options.as_ref().map_or(0, |o| o.max_num_deadlocks) as usize;
        let mut deadlocks = lock(&self.deadlocks);
        deadlocks.push_front(path);
        deadlocks.truncate(max);
    }
}

/// A locked key of a database, and the transactions that wait for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockInfo {
    /// The mode of the lock.
    pub mode: LockMode,
    /// The ids of the transactions that hold the lock; a write outside of transactions has its own
    /// id.
    pub holders: Vec<u64>,
    /// The column family id and the key; known only while a transaction waits for the lock.
    ///
    /// Locks are on hashes: the table has no keys of locks that nobody waits for.
    pub key: Option<(u32, Vec<u8>)>,
    /// The ids of the waiting transactions, in the order in which they get the lock.
    pub waiting: Vec<u64>,
}
