//! Loom models of an owner and revokers. Both barriers are fences: Loom does not model
//! `membarrier`.

use super::*;
use crate::sync::{AtomicU64, Mutex, explore, lock, spawn};

#[test]
fn owner_and_taker_are_never_both_inside_and_nothing_is_lost() {
    explore("biased", || {
        let (mut owner, revoker) = biased();
        *owner.enter().expect("nobody else is there") = Some(Box::new(1));
        let sweeper = spawn(move || {
            let mut revokers = [revoker];
            (revoke_idle(&mut revokers), revokers)
        });
        let mut counted = 0;
        for number in [10, 100] {
            if let Some(mut inside) = owner.enter() {
                counted += inside.replace(Box::new(number)).map_or(0, |last| *last);
            } else {
                counted += number;
            }
        }
        let (taken, mut revokers) = sweeper.join().unwrap();
        counted += taken.into_iter().map(|left| *left).sum::<u64>();
        counted += revoke_idle(&mut revokers)
            .into_iter()
            .map(|left| *left)
            .sum::<u64>();
        assert_eq!(counted, 111);
    });
}

/// Explores an owner that must keep no value older than the last announced number.
///
/// The owner checks the number after leaving the cell, and again after being turned away.
fn announce(name: &str, waits: bool) {
    explore(name, move || {
        let announced = Arc::new(AtomicU64::new(1));
        let (mut owner, revoker) = biased();
        *owner.enter().expect("nobody else is there") = Some(1);
        let revokers = Arc::new(Mutex::new(vec![revoker]));
        let sweeper = {
            let (announced, revokers) = (Arc::clone(&announced), Arc::clone(&revokers));
            spawn(move || {
                for number in [2, 3] {
                    announced.store(number, Ordering::Release);
                    for left in revoke_idle(&mut lock(&revokers)) {
                        assert!(left <= number);
                    }
                }
            })
        };
        let mut inside = |act: &mut dyn FnMut(&mut Option<u64>)| {
            let mut guard = owner.enter();
            let no_sweep = (waits && guard.is_none()).then(|| lock(&revokers));
            if no_sweep.is_some() {
                drop(guard);
                guard = owner.enter();
            }
            drop(no_sweep);
            if let Some(guard) = &mut guard {
                act(guard);
            }
        };
        let mut seen = None;
        inside(&mut |value| {
            seen = Some(announced.load(Ordering::Acquire));
            *value = seen;
        });
        if Some(announced.load(Ordering::Relaxed)) != seen {
            inside(&mut |value| {
                value.take_if(|left| *left != announced.load(Ordering::Acquire));
            });
        }
        sweeper.join().unwrap();
        let left = *owner.enter().expect("nobody else is there");
        assert!(left.is_none_or(|left| left == 3), "{left:?} is left behind");
    });
}

#[test]
fn an_owner_that_comes_back_after_a_sweep_keeps_nothing_old() {
    announce("biased hand-off", true);
}

#[test]
#[should_panic(expected = "left behind")]
fn control_an_owner_that_is_turned_away_and_gives_up_keeps_what_is_old() {
    announce("biased, giving up", false);
}
