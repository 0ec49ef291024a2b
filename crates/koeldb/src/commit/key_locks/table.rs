//! The table of key locks: shared and exclusive, with one queue for each key.
//!
//! A lock is on the hash of a column family and a key; two keys with the same hash share a lock,
//! which costs a wait and no more. The table has shards, each under a mutex that is held for a few
//! steps. An uncontended lock is one entry of a hash table; a queue exists only while somebody
//! waits.
//!
//! # Invariants
//! - **K1** A request is granted under the mutex of its shard, by the thread that made the grant
//!   possible: requests are granted in the order of the queue, shared ones at its head together. An
//!   upgrade goes before other requests. A waiter cannot be overtaken.
//! - **K2** A waiter leaves the queue under the same mutex: it is granted, or it gives up, never
//!   both.
//! - **K3** The state of an owner decides between its commit and a thief of its locks: an expired
//!   owner is robbed of a key by all waiters together or not at all, and then never commits.
//! - **K4** A cycle is reported only if every wait of it was still a wait after all edges were
//!   seen.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use koeldb_base::sync::{
    AtomicU8, AtomicUsize, Mutex, Ordering, Padded, Thread, current, lock, spin_loop, yield_now,
};

/// The mode of a key lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Shared with other shared locks.
    Shared,
    /// Exclusive to one transaction.
    Exclusive,
}

/// The hash of a column family and a key.
pub(crate) type LockId = u64;

/// An identity hasher, for map keys that are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unchanged(u64);

impl Hasher for Unchanged {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A map by [`LockId`].
pub(crate) type ById<V> = HashMap<LockId, V, BuildHasherDefault<Unchanged>>;

/// The state of an owner that may still take and lose locks.
const ACTIVE: u8 = 0;
/// The state of an owner that commits or is prepared: it keeps its locks until it releases them.
const DECIDING: u8 = 1;
/// The state of an expired owner whose locks another request is about to take.
const CLAIMED: u8 = 2;
/// The state of an expired owner that has lost its locks, or may lose them to any request.
const ROBBED: u8 = 3;

/// An owner of key locks: a transaction, or a write outside of transactions.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    /// The time from which other requests may take its locks, on the clock of the database.
    expires: Option<Duration>,
    state: AtomicU8,
    waiting: Mutex<Option<Arc<Wait>>>,
}

impl Owner {
    pub(crate) fn new(id: u64, expires: Option<Duration>) -> Arc<Self> {
        Arc::new(Owner {
            id,
            expires,
            state: AtomicU8::new(ACTIVE),
            waiting: Mutex::new(None),
        })
    }

    /// Whether the lock expiration of the transaction has passed at `now`.
    pub(crate) fn is_expired(&self, now: Duration) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Protects an owner's locks from expiration, for its commit or prepare; `false` if too late.
    pub(crate) fn decide(&self, now: Duration) -> bool {
        let target = if self.is_expired(now) {
            ROBBED
        } else {
            DECIDING
        };
        loop {
            match self.exchange(ACTIVE, target) {
                Ok(_) => return target == DECIDING,
                Err(CLAIMED) => yield_now(),
                Err(state) => return state == DECIDING,
            }
        }
    }

    /// Replaces the owner's state `from` by `to`; fails with the current state if it is another.
    fn exchange(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// The time from which other requests may steal the owner's locks; `None` for never.
    fn may_be_robbed_at(&self) -> Option<Duration> {
        let is_decided = self.state.load(Ordering::Acquire) == DECIDING;
        self.expires.filter(|_| !is_decided)
    }

    /// Claims an owner before its locks are stolen; `false` if it has not expired, or commits.
    fn claim(&self, now: Duration) -> bool {
        if !self.is_expired(now) {
            return false;
        }
        self.state.load(Ordering::Acquire) == ROBBED || self.exchange(ACTIVE, CLAIMED).is_ok()
    }
}

/// The column family and key of a queued lock request, for reports of locks and deadlocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockKey {
    pub(crate) cf: u32,
    pub(crate) key: Box<[u8]>,
}

/// The thread or async task to wake when a lock request ends.
#[derive(Debug)]
enum Sleeper {
    Thread(Thread),
    Task(Waker),
}

/// The state of a wait that has not ended.
const WAITING: u8 = 0;
/// The state of a wait whose lock was granted.
const GRANTED: u8 = 1;
/// The state of a wait that ended without the lock.
const GONE: u8 = 2;

/// A queued lock request.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) owner: Arc<Owner>,
    pub(crate) id: LockId,
    pub(crate) mode: LockMode,
    pub(crate) key: LockKey,
    is_upgrade: bool,
    state: AtomicU8,
    sleeper: Mutex<Option<Sleeper>>,
}

impl Wait {
    /// Whether the lock was granted.
    pub(crate) fn is_granted(&self) -> bool {
        self.state.load(Ordering::Acquire) == GRANTED
    }

    /// Whether the owner waits to upgrade its shared lock.
    pub(crate) fn is_upgrade(&self) -> bool {
        self.is_upgrade
    }

    /// Whether the request is still queued: neither granted nor given up.
    fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Acquire) == WAITING
    }

    /// Registers the calling thread to be woken; `false` if the wait is over.
    pub(crate) fn sleep_as_thread(&self) -> bool {
        self.sleep(|| Sleeper::Thread(current()))
    }

    /// Registers a task to be woken; `false` if the wait is over.
    pub(crate) fn sleep_as_task(&self, waker: &Waker) -> bool {
        self.sleep(|| Sleeper::Task(waker.clone()))
    }

    /// Stores the thread or task to wake when the wait ends; `false` if it has ended.
    fn sleep(&self, sleeper: impl FnOnce() -> Sleeper) -> bool {
        let mut place = lock(&self.sleeper);
        let is_waiting = self.is_waiting();
        if is_waiting {
            *place = Some(sleeper());
        }
        is_waiting
    }

    /// Wakes the thread or task of the waiter, which then checks its request again.
    pub(crate) fn wake(&self) {
        match lock(&self.sleeper).take() {
            Some(Sleeper::Thread(thread)) => thread.unpark(),
            Some(Sleeper::Task(waker)) => waker.wake(),
            None => {}
        }
    }
}

/// The lock of one key: its holders, and the queue of requests.
#[derive(Debug)]
struct Entry {
    mode: LockMode,
    /// The holders of the lock; not empty, except during a change.
    holders: Holders,
    queue: VecDeque<Arc<Wait>>,
}

/// The holders of a lock; a single one needs no allocation.
#[derive(Debug, Default)]
struct Holders {
    first: Option<Arc<Owner>>,
    others: Vec<Arc<Owner>>,
}

impl Holders {
    fn iter(&self) -> impl Iterator<Item = &Arc<Owner>> {
        self.first.iter().chain(&self.others)
    }

    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether `owner` holds the lock.
    fn contains(&self, owner: &Arc<Owner>) -> bool {
        self.iter().any(|holder| Arc::ptr_eq(holder, owner))
    }

    /// Whether `owner` is the only holder.
    fn is_only(&self, owner: &Arc<Owner>) -> bool {
        self.others.is_empty() && self.contains(owner)
    }

    fn add(&mut self, owner: Arc<Owner>) {
        match self.first {
            None => self.first = Some(owner),
            Some(_) => self.others.push(owner),
        }
    }

    /// Removes a holder; returns whether it held the lock.
    fn remove(&mut self, owner: &Arc<Owner>) -> bool {
        if let Some(at) = self
            .others
            .iter()
            .position(|other| Arc::ptr_eq(other, owner))
        {
            self.others.swap_remove(at);
            return true;
        }
        let is_first = self.first.as_ref().is_some_and(|f| Arc::ptr_eq(f, owner));
        if is_first {
            self.first = self.others.pop();
        }
        is_first
    }
}

/// The answer to a lock request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The owner has the lock, and did not have it before.
    Granted,
    /// The owner had a shared lock, which is now exclusive.
    Upgraded,
    /// The owner had the lock before.
    Held,
    /// The request waits in the queue.
    Queued(Arc<Wait>),
    /// Others hold the lock, and the request does not wait.
    Taken,
    /// The table has the maximum number of locks.
    Full,
}

/// A shard of the lock table.
type Shard = Padded<Mutex<ById<Entry>>>;

/// The lock table of a database.
pub(crate) struct LockTable {
    shards: Box<[Shard]>,
    /// The maximum number of locks; 0 for no limit.
    count_max: usize,
    /// The number of locks, counted only if it is limited.
    count: Padded<AtomicUsize>,
    detector: Padded<Mutex<()>>,
}

impl LockTable {
    pub(crate) fn new(shard_count: usize, count_max: usize) -> Self {
        let shards = std::iter::repeat_with(Shard::default);
        LockTable {
            shards: shards.take(shard_count.next_power_of_two()).collect(),
            count_max,
            count: Padded(AtomicUsize::new(0)),
            detector: Padded(Mutex::new(())),
        }
    }

    /// Returns the shard of a lock.
    fn shard(&self, id: LockId) -> &Mutex<ById<Entry>> {
        // The hash tables of the shards use the low and the highest bits.
        let index = usize::try_from(id >> 32 & 0xffff).unwrap_or(0) & (self.shards.len() - 1);
        &self.shards[index]
    }

    /// Counts a new lock; `false` if the maximum number of locks (`max_num_locks`) is reached.
    fn count_one(&self) -> bool {
        if self.count_max == 0 {
            return true;
        }
        if self.count.fetch_add(1, Ordering::Relaxed) < self.count_max {
            return true;
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        false
    }

    /// Subtracts released locks from the count, if it is limited.
    fn uncount(&self, count: usize) {
        if self.count_max > 0 {
            self.count.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// Requests lock `id` for `owner`: grants it, or queues the request if `key` is given.
    ///
    /// The time is asked for only if others hold the lock.
    pub(crate) fn request(
        &self,
        owner: &Arc<Owner>,
        id: LockId,
        mode: LockMode,
        now: &dyn Fn() -> Duration,
        key: Option<&dyn Fn() -> LockKey>,
    ) -> Answer {
        let mut woken = Vec::new();
        let answer = {
            let mut entries = lock(self.shard(id));
            match entries.entry(id) {
                std::collections::hash_map::Entry::Vacant(free) => {
                    if !self.count_one() {
                        return Answer::Full;
                    }
                    let mut holders = Holders::default();
                    holders.add(Arc::clone(owner));
                    let queue = VecDeque::new();
                    free.insert(Entry {
                        mode,
                        holders,
                        queue,
                    });
                    Answer::Granted
                }
                std::collections::hash_map::Entry::Occupied(mut taken) => {
                    self.request_taken(taken.get_mut(), owner, id, mode, now, key, &mut woken)
                }
            }
        };
        wake_all(woken);
        answer
    }

    /// Answers a request for a lock that has holders; collects the waits to wake in `woken`.
    #[expect(clippy::too_many_arguments, reason = "one step of a request")]
    fn request_taken(
        &self,
        entry: &mut Entry,
        owner: &Arc<Owner>,
        id: LockId,
        mode: LockMode,
        now: &dyn Fn() -> Duration,
        key: Option<&dyn Fn() -> LockKey>,
        woken: &mut Vec<Arc<Wait>>,
    ) -> Answer {
        let is_upgrade = entry.holders.contains(owner);
        if is_upgrade && (mode == LockMode::Shared || entry.mode == LockMode::Exclusive) {
            return Answer::Held;
        }
        self.rob(entry, is_upgrade.then_some(owner), mode, now());
        self.grant(entry, woken);
        if is_upgrade && entry.holders.is_only(owner) {
            entry.mode = LockMode::Exclusive;
            return Answer::Upgraded;
        }
        let is_shared = mode == LockMode::Shared && entry.mode == LockMode::Shared;
        if entry.queue.is_empty() && (is_shared || entry.holders.is_empty()) {
            if !self.count_one() {
                return Answer::Full;
            }
            entry.mode = mode;
            entry.holders.add(Arc::clone(owner));
            return Answer::Granted;
        }
        let Some(key) = key else {
            return Answer::Taken;
        };
        let wait = Arc::new(Wait {
            owner: Arc::clone(owner),
            id,
            mode,
            key: key(),
            is_upgrade,
            state: AtomicU8::new(WAITING),
            sleeper: Mutex::new(None),
        });
        *lock(&owner.waiting) = Some(Arc::clone(&wait));
        if is_upgrade {
            entry.queue.push_front(Arc::clone(&wait));
        } else {
            entry.queue.push_back(Arc::clone(&wait));
        }
        Answer::Queued(wait)
    }

    /// Steals a lock from all holders except `except`, if all of them have expired.
    fn rob(&self, entry: &mut Entry, except: Option<&Arc<Owner>>, mode: LockMode, now: Duration) {
        let is_shared = mode == LockMode::Shared && entry.mode == LockMode::Shared;
        let is_victim =
            |holder: &&Arc<Owner>| except.is_none_or(|except| !Arc::ptr_eq(holder, except));
        if is_shared
            || !entry
                .holders
                .iter()
                .filter(is_victim)
                .all(|h| h.is_expired(now))
        {
            return;
        }
        let victims: Vec<Arc<Owner>> = entry.holders.iter().filter(is_victim).cloned().collect();
        let claimed = victims
            .iter()
            .take_while(|victim| victim.claim(now))
            .count();
        if claimed < victims.len() {
            for victim in &victims[..claimed] {
                let _ = victim.exchange(CLAIMED, ACTIVE);
            }
            return;
        }
        for victim in &victims {
            let _ = victim.exchange(CLAIMED, ROBBED);
            entry.holders.remove(victim);
        }
        self.uncount(victims.len());
    }

    /// Grants the requests at the head of the queue, as far as possible (K1).
    fn grant(&self, entry: &mut Entry, woken: &mut Vec<Arc<Wait>>) {
        while let Some(head) = entry.queue.front() {
            let can_have = if head.is_upgrade && entry.holders.contains(&head.owner) {
                entry.holders.is_only(&head.owner)
            } else {
                entry.holders.is_empty()
                    || head.mode == LockMode::Shared && entry.mode == LockMode::Shared
            };
            if !can_have {
                return;
            }
            let Some(head) = entry.queue.pop_front() else {
                return;
            };
            entry.mode = head.mode;
            if !entry.holders.contains(&head.owner) {
                // A wait that is granted takes the place of a lock that was released.
                if self.count_max > 0 {
                    self.count.fetch_add(1, Ordering::Relaxed);
                }
                entry.holders.add(Arc::clone(&head.owner));
            }
            head.state.store(GRANTED, Ordering::Release);
            *lock(&head.owner.waiting) = None;
            woken.push(head);
        }
    }

    /// Lets `change` modify a lock, grants queued requests, and removes it if it has no holder.
    fn change<R>(&self, id: LockId, change: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        let mut woken = Vec::new();
        let result = {
            let mut entries = lock(self.shard(id));
            let entry = entries.get_mut(&id)?;
            let result = change(entry);
            self.grant(entry, &mut woken);
            if entry.holders.is_empty() {
                entries.remove(&id);
            }
            result
        };
        wake_all(woken);
        Some(result)
    }

    /// Releases a lock that `owner` holds; does nothing if the lock was stolen.
    pub(crate) fn release(&self, owner: &Arc<Owner>, id: LockId) {
        self.change(id, |entry| {
            if entry.holders.remove(owner) {
                self.uncount(1);
            }
        });
    }

    /// Turns an exclusive lock into a shared one.
    pub(crate) fn downgrade(&self, owner: &Arc<Owner>, id: LockId) {
        self.change(id, |entry| {
            if entry.holders.is_only(owner) {
                entry.mode = LockMode::Shared;
            }
        });
    }

    /// Adds `owner` to the holders of an exclusive lock, as recovered transactions may share one.
    pub(crate) fn share(&self, owner: &Arc<Owner>, id: LockId) {
        self.change(id, |entry| {
            if !entry.holders.contains(owner) {
                entry.holders.add(Arc::clone(owner));
                self.count
                    .fetch_add(usize::from(self.count_max > 0), Ordering::Relaxed);
            }
        });
    }

    /// Removes a waiting request from its queue; `true` if the lock was granted before (K2).
    pub(crate) fn give_up(&self, wait: &Arc<Wait>) -> bool {
        self.change(wait.id, |entry| {
            if wait.is_waiting() {
                entry.queue.retain(|other| !Arc::ptr_eq(other, wait));
                wait.state.store(GONE, Ordering::Release);
                *lock(&wait.owner.waiting) = None;
            }
        });
        wait.is_granted()
    }

    /// Steals a lock from its holders for a queued request, if they have expired.
    ///
    /// Returns the time at which all remaining holders have expired; `None` if one never does, or
    /// none remains.
    pub(crate) fn steal_expired_for(&self, wait: &Arc<Wait>, now: Duration) -> Option<Duration> {
        self.change(wait.id, |entry| {
            // All who wait profit: the head of the queue gets the lock.
            let head = entry.queue.front().cloned()?;
            let except = head.is_upgrade.then_some(&head.owner);
            self.rob(entry, except, head.mode, now);
            let times = entry.holders.iter().map(|holder| holder.may_be_robbed_at());
            times.collect::<Option<Vec<Duration>>>()?.into_iter().max()
        })
        .flatten()
    }

    /// The owners that a request waits for directly: those ahead of it, else the holders.
    fn blockers(&self, wait: &Arc<Wait>) -> Vec<Arc<Owner>> {
        let entries = lock(self.shard(wait.id));
        let Some(entry) = entries.get(&wait.id).filter(|_| wait.is_waiting()) else {
            return Vec::new();
        };
        let position = entry
            .queue
            .iter()
            .position(|other| Arc::ptr_eq(other, wait));
        let mut blockers = Vec::new();
        for ahead in entry.queue.range(..position.unwrap_or(0)).rev() {
            let conflicts = (wait.mode, ahead.mode) != (LockMode::Shared, LockMode::Shared);
            if conflicts && !Arc::ptr_eq(&ahead.owner, &wait.owner) {
                blockers.push(Arc::clone(&ahead.owner));
            }
            // Those further ahead block this one, too.
            if ahead.mode == LockMode::Exclusive {
                break;
            }
        }
        let is_led = blockers.is_empty()
            || entry.mode == LockMode::Exclusive
            || wait.mode == LockMode::Exclusive;
        if is_led {
            let others = entry
                .holders
                .iter()
                .filter(|h| !Arc::ptr_eq(h, &wait.owner));
            blockers.extend(others.cloned());
        }
        blockers
    }

    /// Searches for a cycle of waits that contains `wait`, and ends `wait` if there is one (K4).
    ///
    /// Returns the waits of the cycle, beginning with `wait`.
    pub(crate) fn detect(&self, wait: &Arc<Wait>) -> Option<Vec<Arc<Wait>>> {
        let _one_at_a_time = lock(&self.detector);
        let cycle = self.cycle_through(wait)?;
        let is_real = || {
            cycle.iter().enumerate().all(|(at, from)| {
                let to = &cycle[(at + 1) % cycle.len()];
                let blockers = self.blockers(from);
                blockers.iter().any(|owner| Arc::ptr_eq(owner, &to.owner))
            }) && cycle.iter().all(|wait| wait.is_waiting())
        };
        (is_real() && !self.give_up(wait)).then_some(cycle)
    }

    /// Searches the waits-for graph depth first for a cycle through `wait`, and returns the cycle.
    fn cycle_through(&self, wait: &Arc<Wait>) -> Option<Vec<Arc<Wait>>> {
        let mut visited = vec![Arc::as_ptr(&wait.owner)];
        let mut path = vec![(Arc::clone(wait), self.blockers(wait))];
        while let Some((_, blockers)) = path.last_mut() {
            let Some(owner) = blockers.pop() else {
                path.pop();
                continue;
            };
            if Arc::ptr_eq(&owner, &wait.owner) {
                return Some(path.into_iter().map(|(wait, _)| wait).collect());
            }
            if visited.contains(&Arc::as_ptr(&owner)) {
                continue;
            }
            visited.push(Arc::as_ptr(&owner));
            let next = lock(&owner.waiting).clone();
            if let Some(next) = next {
                let blockers = self.blockers(&next);
                path.push((next, blockers));
            }
        }
        None
    }

    /// Calls `visit` with each lock: its mode, its holders, and the queued requests.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(LockMode, Vec<u64>, Vec<Arc<Wait>>)) {
        for shard in &self.shards {
            let entries = lock(shard);
            for entry in entries.values() {
                let holders = entry.holders.iter().map(|holder| holder.id).collect();
                let queue = entry.queue.iter().cloned().collect();
                visit(entry.mode, holders, queue);
            }
        }
    }
}

/// Spins at most `count` times until the request is granted; returns whether it was.
pub(crate) fn spin(wait: &Wait, count: u32) -> bool {
    for _ in 0..count {
        if wait.is_granted() {
            return true;
        }
        spin_loop();
    }
    wait.is_granted()
}

/// Wakes the owners of granted waits; called without the lock of a shard.
fn wake_all(woken: Vec<Arc<Wait>>) {
    for wait in woken {
        wait.wake();
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
