//! Threads that lead in turn, and insert and let groups leave in any order.

use std::cell::RefCell;
use std::sync::atomic::AtomicU64;

use koeldb_testkit::Random;

use super::*;

const GROUPS: u64 = 2000;
const THREADS: u64 = 6;

/// The groups of a run, by number from 1; the writer of a group has its number.
struct Groups {
    is_ordered: bool,
    published: AtomicU64,
    inserted: Vec<AtomicBool>,
    ended: Vec<Mutex<Option<Result<()>>>>,
}

impl Groups {
    fn new(is_ordered: bool) -> Self {
        Groups {
            is_ordered,
            published: AtomicU64::new(0),
            inserted: (0..=GROUPS).map(|_| AtomicBool::new(false)).collect(),
            ended: (0..=GROUPS).map(|_| Mutex::default()).collect(),
        }
    }

    fn check_inserted(&self, last: u64) {
        let whole = &self.inserted[1..=usize::try_from(last).unwrap()];
        assert!(whole.iter().all(|group| group.load(Ordering::SeqCst)));
    }

    fn wait(&self, group: u64) -> Result<()> {
        loop {
            let ended = lock(&self.ended[usize::try_from(group).unwrap()]).take();
            match ended {
                Some(outcome) => return outcome,
                None => std::thread::yield_now(),
            }
        }
    }
}

impl PipelineEnv for Groups {
    fn publish(&self, seqno: SeqNo) {
        let before = self.published.swap(seqno, Ordering::SeqCst);
        assert!(before < seqno, "{seqno} is published after {before}");
        if self.is_ordered {
            self.check_inserted(seqno);
        }
    }

    fn finish(&self, writer: WriterId, failure: Option<Error>) -> bool {
        let outcome = failure.map_or(Ok(()), Err);
        let before = lock(&self.ended[writer as usize]).replace(outcome);
        assert!(before.is_none(), "{writer} ends twice");
        false
    }

    fn wake(&self, _writer: WriterId) {}
}

fn outcome_of(group: u64, fails: Option<u64>) -> Result<()> {
    match fails == Some(group) {
        true => Err(Error::invalid_argument("not to be inserted")),
        false => Ok(()),
    }
}

/// Runs threads that lead in turn and are interrupted anywhere after that.
///
/// `fails` is the group that cannot be inserted.
fn run(is_ordered: bool, seed: u64, fails: Option<u64>) {
    let pipeline = Pipeline::new(is_ordered);
    let last = Mutex::new(0_u64);
    let groups = Groups::new(is_ordered);
    let work = |thread: u64| {
        let mut random = Random::new(seed ^ thread << 32);
        loop {
            let mut leadership = lock(&last);
            if *leadership == GROUPS {
                return;
            }
            *leadership += 1;
            let own = *leadership;
            if random.chance(1, 16) {
                let drained = pipeline.drain();
                assert!(pipeline.is_empty());
                assert!(drained.is_ok() || fails.is_some_and(|at| at < own));
                groups.check_inserted(own - 1);
            }
            let writer = WriterId::try_from(own).unwrap();
            let slot = pipeline.enter(&groups, own, 1, [writer].into_iter());
            drop(leadership);
            for _ in 0..random.below(4) {
                std::thread::yield_now();
            }
            groups.inserted[usize::try_from(own).unwrap()].store(true, Ordering::SeqCst);
            pipeline.complete(&groups, slot, outcome_of(own, fails));
            let ended = groups.wait(own);
            let fails = fails.filter(|&group| group == own || is_ordered && group < own);
            assert_eq!(ended.is_err(), fails.is_some(), "group {own}");
            if ended.is_ok() {
                assert!(groups.published.load(Ordering::SeqCst) >= own);
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    assert!(pipeline.is_empty());
    assert_eq!(pipeline.is_idle(), fails.is_none() || !is_ordered);
    let expected = fails.filter(|_| is_ordered).map_or(GROUPS, |at| at - 1);
    assert_eq!(groups.published.load(Ordering::SeqCst), expected);
}

#[test]
fn groups_are_published_whole_and_in_order() {
    for seed in 0..3 {
        run(true, seed, None);
    }
}

#[test]
fn unordered_groups_wait_for_nobody_and_sealing_waits_for_them() {
    for seed in 0..3 {
        run(false, seed, None);
    }
}

#[test]
fn behind_a_group_that_failed_nothing_is_published() {
    run(true, 1, Some(GROUPS / 2));
    run(false, 1, Some(GROUPS / 2));
}

/// Tests all orders of completion of five groups: each ends when all before it have.
#[test]
fn any_order_of_completion_publishes_in_order() {
    const COUNT: u64 = 5;
    let mut orders = vec![Vec::new()];
    for _ in 0..COUNT {
        let longer = |order: Vec<u64>| {
            let free: Vec<u64> = (1..=COUNT).filter(|n| !order.contains(n)).collect();
            free.into_iter()
                .map(move |n| [order.clone(), vec![n]].concat())
        };
        orders = orders.into_iter().flat_map(longer).collect();
    }
    for order in orders {
        for failing in 0..=COUNT {
            let pipeline = Pipeline::new(true);
            let groups = Groups::new(false);
            let slots = (1..=COUNT).map(|group| {
                let writer = [WriterId::try_from(group).unwrap()];
                pipeline.enter(&groups, group, 1, writer.into_iter())
            });
            let slots: Vec<_> = slots.collect();
            let done = RefCell::new(Vec::new());
            for &group in &order {
                done.borrow_mut().push(group);
                let slot = slots[usize::try_from(group).unwrap() - 1];
                pipeline.complete(&groups, slot, outcome_of(group, Some(failing)));
                let whole = (1..=COUNT)
                    .take_while(|group| done.borrow().contains(group))
                    .count() as u64;
                for group in 1..=COUNT {
                    let ended = &groups.ended[usize::try_from(group).unwrap()];
                    let ended = lock(ended).as_ref().map(Result::is_ok);
                    let expected = (group <= whole).then_some(failing == 0 || group < failing);
                    assert_eq!(ended, expected, "{order:?}, {failing} fails");
                }
                let expected = match failing {
                    0 => whole,
                    failing => whole.min(failing - 1),
                };
                assert_eq!(groups.published.load(Ordering::SeqCst), expected);
            }
        }
    }
}
