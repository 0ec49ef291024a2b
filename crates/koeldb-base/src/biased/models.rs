//! Loom models of an owner and takers. Both barriers are fences: Loom does not model `membarrier`.

use super::*;
use crate::sync::{AtomicU64, Mutex, explore, lock, spawn};

#[test]
fn owner_and_taker_are_never_both_inside_and_nothing_is_lost() {
    explore("biased", || {
        let (mut owner, taker) = biased();
        *owner.enter().expect("nobody else is there") = Some(Box::new(1));
        let sweeper = spawn(move || {
            let mut takers = [taker];
            (take_idle(&mut takers), takers)
        });
        let mut counted = 0;
        for number in [10, 100] {
            if let Some(mut inside) = owner.enter() {
                counted += inside.replace(Box::new(number)).map_or(0, |last| *last);
            } else {
                counted += number;
            }
        }
        let (taken, mut takers) = sweeper.join().unwrap();
        counted += taken.into_iter().map(|left| *left).sum::<u64>();
        counted += take_idle(&mut takers)
            .into_iter()
            .map(|left| *left)
            .sum::<u64>();
        assert_eq!(counted, 111);
    });
}

/// Announces two values. An owner that checks after leaving, and again after being turned away,
/// keeps no older one.
fn announce(name: &str, waits: bool) {
    explore(name, move || {
        let announced = Arc::new(AtomicU64::new(1));
        let (mut owner, taker) = biased();
        *owner.enter().expect("nobody else is there") = Some(1);
        let takers = Arc::new(Mutex::new(vec![taker]));
        let sweeper = {
            let (announced, takers) = (Arc::clone(&announced), Arc::clone(&takers));
            spawn(move || {
                for number in [2, 3] {
                    announced.store(number, Ordering::Release);
                    for left in take_idle(&mut lock(&takers)) {
                        assert!(left <= number);
                    }
                }
            })
        };
        let mut inside = |act: &mut dyn FnMut(&mut Option<u64>)| {
            let mut entered = owner.enter();
            let no_sweep = (waits && entered.is_none()).then(|| lock(&takers));
            if no_sweep.is_some() {
                drop(entered);
                entered = owner.enter();
            }
            drop(no_sweep);
            if let Some(entered) = &mut entered {
                act(entered);
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
