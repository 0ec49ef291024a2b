use super::*;

const NOW: Duration = Duration::from_secs(10);

fn table() -> LockTable {
    LockTable::new(4, 0)
}

fn owner(id: u64) -> Arc<Owner> {
    Owner::new(id, None)
}

fn ask(locks: &LockTable, owner: &Arc<Owner>, id: LockId, mode: LockMode) -> Answer {
    let key = || LockKey {
        cf: 0,
        key: id.to_le_bytes().into(),
    };
    locks.request(owner, id, mode, &|| NOW, Some(&key))
}

fn queue(locks: &LockTable, owner: &Arc<Owner>, id: LockId, mode: LockMode) -> Arc<Wait> {
    match ask(locks, owner, id, mode) {
        Answer::Queued(wait) => wait,
        other => panic!("{other:?}"),
    }
}

use LockMode::{Exclusive, Shared};

#[test]
fn requests_are_granted_in_the_order_they_came() {
    let locks = table();
    let owners: Vec<_> = (0..6).map(owner).collect();
    assert!(matches!(
        ask(&locks, &owners[0], 7, Exclusive),
        Answer::Granted
    ));
    assert!(matches!(ask(&locks, &owners[0], 7, Shared), Answer::Held));
    let modes = [Shared, Shared, Exclusive, Shared, Exclusive];
    let waits: Vec<_> = (1..6)
        .map(|at| queue(&locks, &owners[at], 7, modes[at - 1]))
        .collect();
    let granted = || {
        waits
            .iter()
            .map(|wait| wait.is_granted())
            .collect::<Vec<_>>()
    };
    locks.release(&owners[0], 7);
    assert_eq!(granted(), [true, true, false, false, false]);
    // A newcomer does not overtake the exclusive request.
    let late = queue(&locks, &owners[0], 7, Shared);
    locks.release(&owners[1], 7);
    assert_eq!(granted(), [true, true, false, false, false]);
    locks.release(&owners[2], 7);
    assert_eq!(granted(), [true, true, true, false, false]);
    locks.release(&owners[3], 7);
    assert_eq!(granted(), [true, true, true, true, false]);
    assert!(!locks.give_up(&waits[4]));
    assert!(late.is_granted());
}

#[test]
fn an_upgrade_goes_first_and_two_of_them_are_a_deadlock() {
    let locks = table();
    let (a, b, c) = (owner(1), owner(2), owner(3));
    assert!(matches!(ask(&locks, &a, 1, Shared), Answer::Granted));
    assert!(matches!(ask(&locks, &a, 1, Exclusive), Answer::Upgraded));
    locks.downgrade(&a, 1);
    assert!(matches!(ask(&locks, &b, 1, Shared), Answer::Granted));
    let other = queue(&locks, &c, 1, Exclusive);
    let first = queue(&locks, &a, 1, Exclusive);
    assert!(locks.detect(&first).is_none());
    let second = queue(&locks, &b, 1, Exclusive);
    let cycle = locks.detect(&second).unwrap();
    assert_eq!(
        cycle.iter().map(|wait| wait.owner.id).collect::<Vec<_>>(),
        [2, 1]
    );
    locks.release(&b, 1);
    assert!(first.is_granted() && !other.is_granted());
    locks.release(&a, 1);
    assert!(other.is_granted());
}

#[test]
fn expired_holders_are_robbed_together_or_not_at_all() {
    for is_second_expired in [false, true] {
        let locks = table();
        let first = Owner::new(1, Some(Duration::from_secs(5)));
        let expires = if is_second_expired { 6 } else { 60 };
        let second = Owner::new(2, Some(Duration::from_secs(expires)));
        for owner in [&first, &second] {
            assert!(matches!(ask(&locks, owner, 1, Shared), Answer::Granted));
        }
        let thief = owner(3);
        let answer = ask(&locks, &thief, 1, Exclusive);
        assert_eq!(matches!(answer, Answer::Granted), is_second_expired);
        assert_eq!(first.decide(Duration::ZERO), !is_second_expired);
        // The robbed release what is not theirs any more.
        locks.release(&first, 1);
        if is_second_expired {
            locks.release(&second, 1);
            assert!(matches!(ask(&locks, &thief, 1, Exclusive), Answer::Held));
        }
    }
}

#[test]
fn an_owner_that_decides_is_not_robbed() {
    let locks = table();
    let holder = Owner::new(1, Some(Duration::from_secs(5)));
    assert!(matches!(
        ask(&locks, &holder, 1, Exclusive),
        Answer::Granted
    ));
    assert!(holder.decide(Duration::ZERO));
    let wait = queue(&locks, &owner(2), 1, Exclusive);
    assert_eq!(locks.steal_expired_for(&wait, NOW), None);
    assert!(!wait.is_granted());
}

#[test]
fn the_number_of_locks_is_bounded_and_counted_by_holder() {
    let locks = LockTable::new(1, 2);
    let (a, b) = (owner(1), owner(2));
    assert!(matches!(ask(&locks, &a, 1, Shared), Answer::Granted));
    assert!(matches!(ask(&locks, &b, 1, Shared), Answer::Granted));
    assert!(matches!(ask(&locks, &a, 2, Shared), Answer::Full));
    locks.release(&b, 1);
    assert!(matches!(ask(&locks, &a, 2, Shared), Answer::Granted));
    locks.release(&a, 1);
    locks.release(&a, 2);
    locks.release(&a, 2);
    assert_eq!(locks.count.load(Ordering::Relaxed), 0);
}

/// Deadlocks in random graphs of waits are those that a search of the reference graph finds.
#[test]
fn deadlocks_of_random_waits_are_those_of_a_reference() {
    use koeldb_testkit::random::Random;
    let mut found = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let locks = table();
        let owners: Vec<_> = (0..8).map(owner).collect();
        let mut waits: Vec<Option<Arc<Wait>>> = vec![None; 8];
        for _ in 0..200 {
            let at = usize::try_from(random.below(8)).unwrap();
            if waits[at].as_ref().is_some_and(|wait| !wait.is_granted()) {
                continue;
            }
            let mode = if random.chance(1, 2) {
                Shared
            } else {
                Exclusive
            };
            let Answer::Queued(wait) = ask(&locks, &owners[at], random.below(6), mode) else {
                continue;
            };
            waits[at] = Some(Arc::clone(&wait));
            let is_waiting = |at: usize| waits[at].as_ref().filter(|wait| !wait.is_granted());
            // All owners from which the waiter can be reached, by repetition.
            let mut reached = [false; 8];
            let mut next = vec![at];
            let mut is_cycle = false;
            while let Some(at_now) = next.pop() {
                let Some(wait) = is_waiting(at_now) else {
                    continue;
                };
                for blocker in locks.blockers(wait) {
                    let number = usize::try_from(blocker.id).unwrap();
                    is_cycle |= number == at;
                    if !std::mem::replace(&mut reached[number], true) {
                        next.push(number);
                    }
                }
            }
            match locks.detect(&wait) {
                Some(cycle) => {
                    assert!(is_cycle, "seed {seed}");
                    assert!(Arc::ptr_eq(&cycle[0], &wait));
                    found += 1;
                    waits[at] = None;
                    for id in 0..6 {
                        locks.release(&owners[at], id);
                    }
                }
                None => assert!(!is_cycle, "seed {seed}"),
            }
        }
    }
    assert!(found > 300, "{found} deadlocks");
}
