//! Threads that take turns, in a schedule determined by a seed.
//!
//! A switch is possible before every file-system operation. [`Turns::run`] starts one thread for
//! each *actor*. One actor has the turn, all others are parked. At a *point* the actor with the
//! turn may pass it to another one, as the seed determines. Points are all operations of a file
//! system with [`Turns`] as its [`Layer`], all sleeps on [`Turns`] as a [`Clock`], and calls of
//! [`Turns::point`]. So a call of one actor can run between two steps of a job or call of another
//! one.
//!
//! An actor that needs a lock of a parked actor cannot continue, and the lock does not report this.
//! The rules are:
//!
//! - An actor with the turn whose thread sleeps in the kernel, outside of this module, is
//!   *blocked*: no other actor runs that could wake it soon. It loses the turn, and another actor
//!   continues.
//! - A blocked actor whose lock is released runs to its next point and parks there. The actor that
//!   released the lock waits at its own next point until the blocked ones have parked, or sleep
//!   again.
//! - An actor that sleeps on the clock is chosen like any other, though rarely: the clock moves to
//!   the end of its sleep.
//!
//! So the seed determines everything except the order of the actions of two threads between the
//! release of a lock and their next points. Threads that are not actors pass all points.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use koeldb_base::Result;
use koeldb_fs::Clock;
use koeldb_fs::layer::{Call, Layer};

use crate::proc_stat;
use crate::random::Random;

/// How often [`Turns::run`] looks whether the actor with the turn is blocked.
const WATCH_INTERVAL: Duration = Duration::from_micros(400);

/// Looks without any progress after which the run counts as a deadlock.
const DEADLOCK_LOOKS: u64 = 100_000;

/// Of so many choices one may wake a sleeper early.
const SLEEPER_ONE_IN: u64 = 8;

/// The wall clock at zero: the beginning of 2020.
const UNIX_MICROS_AT_ZERO: u64 = 1_577_836_800_000_000;

/// Code of an actor.
pub type Body = Box<dyn FnOnce() + Send>;

type Observer = Arc<dyn Fn(u64) + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Has the turn, or parks at a point.
    Ready,
    /// Sleeps on the clock until this time, in nanoseconds.
    Asleep(u64),
    /// Lost the turn while it waited for a lock.
    Blocked,
    Done,
}

struct TurnsState {
    random: Random,
    standings: Vec<Standing>,
    turn: Option<usize>,
    /// Counts what happens, for the watch.
    serial: u64,
    blocked: u64,
    /// The run has failed: nobody goes on.
    is_over: bool,
}

/// An actor as its watch sees it.
#[derive(Default)]
struct Watched {
    /// The directory of its thread in `/proc`.
    stat: OnceLock<PathBuf>,
    /// It runs or waits in this module.
    is_here: AtomicBool,
    doing: Mutex<String>,
}

struct Shared {
    state: Mutex<TurnsState>,
    changed: Condvar,
    actors: Vec<Watched>,
    /// A switch happens at one point in so many.
    switch_one_in: u64,
    nanos: AtomicU64,
    points: AtomicU64,
    points_max: u64,
    observer: OnceLock<Observer>,
}

/// A schedule; clones are handles of one.
#[derive(Clone)]
pub struct Turns {
    shared: Arc<Shared>,
}

thread_local! {
    /// The schedule that the thread is an actor of, and its index.
    static ACTOR: RefCell<Option<(Turns, usize)>> = const { RefCell::new(None) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns {
    /// Creates a schedule of `actors` actors, with the clock at `nanos`.
    ///
    /// A run fails after `points_max` points.
    #[must_use]
    pub fn new(seed: u64, actors: usize, switch_one_in: u64, nanos: u64, points_max: u64) -> Self {
        let state = TurnsState {
            random: Random::new(seed),
            standings: vec![Standing::Ready; actors],
            turn: None,
            serial: 0,
            blocked: 0,
            is_over: false,
        };
        Turns {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Condvar::new(),
                actors: (0..actors).map(|_| Watched::default()).collect(),
                switch_one_in,
                nanos: AtomicU64::new(nanos),
                points: AtomicU64::new(0),
                points_max,
                observer: OnceLock::new(),
            }),
        }
    }

    /// Sets a function that the actor with the turn calls at every point, with the number of the
    /// point.
    ///
    /// It is set once, before the run.
    pub fn observe(&self, observer: impl Fn(u64) + Send + Sync + 'static) {
        let _ = self.shared.observer.set(Arc::new(observer));
    }

    /// How many points there were.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.shared.points.load(Ordering::Relaxed)
    }

    /// How often an actor lost the turn because it waited for a lock.
    #[must_use]
    pub fn blocked(&self) -> u64 {
        lock(&self.shared.state).blocked
    }

    /// The clock, in nanoseconds.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        self.shared.nanos.load(Ordering::Acquire)
    }

    /// A point of the calling actor.
    pub fn point(&self) {
        self.arrive_as(|_| Standing::Ready);
    }

    /// Notes what the calling actor does, for the report of a deadlock.
    pub fn doing(&self, text: &str) {
        if let Some(me) = self.actor() {
            text.clone_into(&mut lock(&self.shared.actors[me].doing));
        }
    }

    /// The calling thread's index among the actors of this schedule.
    #[must_use]
    pub fn actor(&self) -> Option<usize> {
        ACTOR.with_borrow(|actor| {
            let (turns, index) = actor.as_ref()?;
            Arc::ptr_eq(&turns.shared, &self.shared).then_some(*index)
        })
    }

    /// Runs every body in a separate thread until all are done.
    ///
    /// # Errors
    /// If no actor can continue, there are too many points, or a body panics. Threads that cannot
    /// continue are abandoned.
    pub fn run(&self, bodies: Vec<Body>) -> std::result::Result<(), String> {
        let threads: Vec<_> = (0..)
            .zip(bodies)
            .map(|(index, body)| {
                let turns = self.clone();
                std::thread::spawn(move || turns.act(index, body))
            })
            .collect();
        self.watch()?;
        for thread in threads {
            match thread.join() {
                Ok(None) => {}
                Ok(Some(panic)) => return Err(format!("a call panicked: {panic}")),
                Err(_) => return Err("an actor panicked".to_owned()),
            }
        }
        Ok(())
    }

    /// The life of an actor; the message of its panic, if it panicked.
    fn act(&self, me: usize, body: Body) -> Option<String> {
        let watched = &self.shared.actors[me];
        watched.is_here.store(true, Ordering::SeqCst);
        ACTOR.set(Some((self.clone(), me)));
        let mut state = lock(&self.shared.state);
        let _ = watched.stat.set(own_stat_path());
        let all = &self.shared.actors;
        if all.iter().all(|actor| actor.stat.get().is_some()) {
            self.hand_off(&mut state, None);
        }
        self.park(state, me);
        let outcome = catch_unwind(AssertUnwindSafe(body));
        self.arrive_as(|_| Standing::Done);
        ACTOR.set(None);
        let panic = outcome.err()?;
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Some(text.unwrap_or("?").to_owned())
    }

    /// Waits for the turn.
    fn park(&self, mut state: MutexGuard<'_, TurnsState>, me: usize) {
        while state.turn != Some(me) {
            let waited = self.shared.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.standings[me] = Standing::Ready;
        state.serial += 1;
        drop(state);
        self.shared.actors[me]
            .is_here
            .store(false, Ordering::SeqCst);
    }

    fn arrive_as(&self, standing: impl Fn(u64) -> Standing) -> bool {
        let Some(me) = self.actor() else {
            return false;
        };
        self.shared.actors[me].is_here.store(true, Ordering::SeqCst);
        let mut state = lock(&self.shared.state);
        state.serial += 1;
        let standing = standing(self.nanos());
        if state.turn == Some(me) {
            drop(state);
            self.settle();
            let number = self.shared.points.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some(observer) = self.shared.observer.get() {
                observer(number);
            }
            state = lock(&self.shared.state);
            state.standings[me] = standing;
            self.hand_off(&mut state, Some(me));
        } else {
            state.standings[me] = standing;
            if state.turn.is_none() {
                self.hand_off(&mut state, None);
            }
        }
        if standing == Standing::Done {
            self.shared.changed.notify_all();
            return true;
        }
        self.park(state, me);
        true
    }

    /// Chooses who goes on. `me` is at a point with the turn.
    fn hand_off(&self, state: &mut TurnsState, me: Option<usize>) {
        let next = match state.is_over {
            true => None,
            false => self.choose(state, me),
        };
        if let Some(next) = next
            && let Standing::Asleep(until) = state.standings[next]
        {
            self.shared.nanos.fetch_max(until, Ordering::AcqRel);
        }
        if state.turn != next || next != me {
            state.turn = next;
            self.shared.changed.notify_all();
        }
        state.serial += 1;
    }

    fn choose(&self, state: &mut TurnsState, me: Option<usize>) -> Option<usize> {
        let of = |state: &TurnsState, wanted: fn(Standing) -> bool| -> Vec<usize> {
            let all = state.standings.iter().enumerate();
            all.filter(|(index, standing)| Some(*index) != me && wanted(**standing))
                .map(|(index, _)| index)
                .collect()
        };
        let ready = of(state, |standing| standing == Standing::Ready);
        let asleep = of(state, |standing| matches!(standing, Standing::Asleep(_)));
        let mine = me.map(|me| state.standings[me]);
        if mine == Some(Standing::Ready) && !state.random.chance(1, self.shared.switch_one_in) {
            return me;
        }
        let pick = |state: &mut TurnsState, among: &[usize]| {
            let count = among.len() as u64;
            let index = usize::try_from(state.random.below(count)).unwrap_or(0);
            among.get(index).copied()
        };
        let wakes = !asleep.is_empty() && state.random.chance(1, SLEEPER_ONE_IN);
        if !ready.is_empty() && !wakes {
            return pick(state, &ready);
        }
        if wakes {
            return pick(state, &asleep);
        }
        if mine == Some(Standing::Ready) {
            return me;
        }
        // Time passes until the first of the sleepers wakes.
        let sleepers = state.standings.iter().enumerate();
        sleepers
            .filter_map(|(index, standing)| match standing {
                Standing::Asleep(until) => Some((*until, index)),
                _ => None,
            })
            .min()
            .map(|(_, index)| index)
    }

    /// Waits until every blocked actor has parked or sleeps in the kernel.
    fn settle(&self) {
        loop {
            let blocked: Vec<usize> = {
                let state = lock(&self.shared.state);
                let all = state.standings.iter().enumerate();
                all.filter(|(_, standing)| **standing == Standing::Blocked)
                    .map(|(index, _)| index)
                    .collect()
            };
            let is_settled = blocked
                .iter()
                .all(|&index| is_asleep(&self.shared.actors[index]));
            if is_settled {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Takes the turn from blocked actors until all actors are done.
    fn watch(&self) -> std::result::Result<(), String> {
        let mut state = lock(&self.shared.state);
        let mut last = (0, false);
        let mut idle_looks = 0;
        loop {
            if state.standings.iter().all(|s| *s == Standing::Done) {
                return Ok(());
            }
            let waited = self.shared.changed.wait_timeout(state, WATCH_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            idle_looks = if last.0 == state.serial {
                idle_looks + 1
            } else {
                0
            };
            if idle_looks > DEADLOCK_LOOKS || self.points() > self.shared.points_max {
                state.is_over = true;
                return Err(self.describe(&state));
            }
            let asleep = state
                .turn
                .is_some_and(|turn| is_asleep(&self.shared.actors[turn]));
            if asleep
                && last == (state.serial, true)
                && let Some(turn) = state.turn
            {
                state.standings[turn] = Standing::Blocked;
                state.blocked += 1;
                self.hand_off(&mut state, None);
            }
            last = (state.serial, asleep);
        }
    }

    fn describe(&self, state: &TurnsState) -> String {
        let actors: Vec<String> = (0..)
            .zip(&state.standings)
            .zip(&self.shared.actors)
            .map(|((index, standing), actor): ((usize, _), _)| {
                format!("{index} {standing:?} in {:?}", lock(&actor.doing))
            })
            .collect();
        let what = match self.points() > self.shared.points_max {
            true => "there is no end",
            false => "deadlock",
        };
        format!("{what}: {}", actors.join("; "))
    }
}

/// Whether the thread of an actor sleeps in the kernel, and not in this module.
fn is_asleep(actor: &Watched) -> bool {
    actor
        .stat
        .get()
        .is_some_and(|stat| proc_stat::is_asleep(stat))
        && !actor.is_here.load(Ordering::SeqCst)
}

fn own_stat_path() -> PathBuf {
    let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    Path::new("/proc").join(thread).join("stat")
}

impl Layer for Turns {
    fn around<T>(&self, call: &Call<'_>, proceed: impl FnOnce() -> Result<T>) -> Result<T> {
        let _ = call;
        self.point();
        proceed()
    }
}

impl Clock for Turns {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    fn unix_micros(&self) -> u64 {
        UNIX_MICROS_AT_ZERO + self.nanos() / 1000
    }

    fn sleep(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let is_actor = self.arrive_as(|now| Standing::Asleep(now.saturating_add(nanos)));
        if !is_actor {
            let until = self.nanos().saturating_add(nanos);
            self.shared.nanos.fetch_max(until, Ordering::AcqRel);
        }
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turns({} actors)", self.shared.actors.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which three actors pass their points.
    fn order(seed: u64) -> Vec<usize> {
        let turns = Turns::new(seed, 3, 2, 0, 10_000);
        let passed: Arc<Mutex<Vec<usize>>> = Arc::default();
        let bodies = (0..3)
            .map(|index| {
                let (turns, passed) = (turns.clone(), Arc::clone(&passed));
                Box::new(move || {
                    for _ in 0..20 {
                        lock(&passed).push(index);
                        turns.point();
                    }
                }) as Body
            })
            .collect();
        assert_eq!(turns.run(bodies), Ok(()));
        let passed = lock(&passed).clone();
        assert_eq!(passed.len(), 60);
        passed
    }

    #[test]
    fn a_seed_repeats_the_order_and_another_one_changes_it() {
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn an_actor_that_waits_for_a_lock_of_a_parked_one_loses_its_turn() {
        let turns = Turns::new(3, 2, 1, 0, 10_000);
        let shared = Arc::new(Mutex::new(0));
        let bodies = (0..2)
            .map(|_| {
                let (turns, shared) = (turns.clone(), Arc::clone(&shared));
                Box::new(move || {
                    for _ in 0..10 {
                        let mut held = lock(&shared);
                        turns.point();
                        *held += 1;
                    }
                }) as Body
            })
            .collect();
        assert_eq!(turns.run(bodies), Ok(()));
        assert_eq!(*lock(&shared), 20);
        assert!(turns.blocked() > 0);
    }

    #[test]
    fn time_passes_for_sleepers_when_all_sleep() {
        let turns = Turns::new(4, 2, 2, 0, 10_000);
        let bodies = (1..3)
            .map(|millis| {
                let turns = turns.clone();
                Box::new(move || turns.sleep(Duration::from_millis(millis))) as Body
            })
            .collect();
        assert_eq!(turns.run(bodies), Ok(()));
        assert_eq!(turns.now(), Duration::from_millis(2));
    }

    #[test]
    fn a_run_without_end_and_a_panic_are_errors() {
        let turns = Turns::new(5, 1, 2, 0, 1000);
        let endless = turns.clone();
        let body = Box::new(move || {
            loop {
                endless.point();
            }
        });
        assert!(
            turns
                .run(vec![body])
                .is_err_and(|error| error.contains("no end"))
        );
        let turns = Turns::new(6, 1, 2, 0, 1000);
        let body: Body = Box::new(|| panic!("on purpose"));
        assert!(
            turns
                .run(vec![body])
                .is_err_and(|error| error.contains("on purpose"))
        );
    }
}
