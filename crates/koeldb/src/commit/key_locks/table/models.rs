//! Loom models of the lock table: hand-off, time limits, expired holders, upgrades, detection.

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::sync::loom::thread;
use koeldb_base::sync::{AtomicUsize, Ordering, explore, park};

use super::*;

const KEY: LockId = 1;
const NOW: Duration = Duration::from_secs(10);

/// Locks a key, and waits for the lock if necessary.
fn take(locks: &LockTable, owner: &Arc<Owner>, id: LockId, mode: LockMode) {
    let key = || LockKey {
        cf: 0,
        key: Box::default(),
    };
    if let Answer::Queued(wait) = locks.request(owner, id, mode, &|| NOW, Some(&key)) {
        while wait.sleep_as_thread() {
            park();
        }
        assert!(wait.is_granted());
    }
}

fn queue(locks: &LockTable, owner: &Arc<Owner>, id: LockId, mode: LockMode) -> Option<Arc<Wait>> {
    let key = || LockKey {
        cf: 0,
        key: Box::default(),
    };
    match locks.request(owner, id, mode, &|| NOW, Some(&key)) {
        Answer::Queued(wait) => Some(wait),
        _ => None,
    }
}

#[test]
fn models_a_lock_excludes_and_is_handed_on() {
    explore("a lock excludes and is handed on", || {
        let locks = Arc::new(LockTable::new(1, 0));
        let inside = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|id| {
                let (locks, inside) = (Arc::clone(&locks), Arc::clone(&inside));
                thread::spawn(move || {
                    let owner = Owner::new(id, None);
                    take(&locks, &owner, KEY, LockMode::Exclusive);
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    inside.fetch_sub(1, Ordering::Relaxed);
                    locks.release(&owner, KEY);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn models_a_wait_is_granted_or_given_up() {
    explore("a wait is granted or given up", || {
        let locks = Arc::new(LockTable::new(1, 0));
        let (holder, waiter) = (Owner::new(1, None), Owner::new(2, None));
        take(&locks, &holder, KEY, LockMode::Exclusive);
        let wait = queue(&locks, &waiter, KEY, LockMode::Exclusive).unwrap();
        let other = Arc::clone(&locks);
        let thread = thread::spawn(move || other.release(&holder, KEY));
        if locks.give_up(&wait) {
            locks.release(&waiter, KEY);
        }
        thread.join().unwrap();
        assert!(lock(&locks.shards[0]).is_empty());
    });
}

#[test]
fn models_a_thief_and_a_commit_do_not_both_win() {
    explore("a thief and a commit do not both win", || {
        let locks = Arc::new(LockTable::new(1, 0));
        let holder = Owner::new(1, Some(Duration::from_secs(5)));
        take(&locks, &holder, KEY, LockMode::Exclusive);
        let (other, robbed) = (Arc::clone(&locks), Arc::clone(&holder));
        let thread = thread::spawn(move || {
            let thief = Owner::new(2, None);
            queue(&other, &thief, KEY, LockMode::Exclusive).is_none()
        });
        // It looked at the clock before it expired.
        let commits = holder.decide(Duration::ZERO);
        let is_stolen = thread.join().unwrap();
        assert_ne!(commits, is_stolen);
        drop(robbed);
    });
}

#[test]
fn models_an_upgrade_meets_the_last_shared_release() {
    explore("an upgrade meets the last shared release", || {
        let locks = Arc::new(LockTable::new(1, 0));
        let (a, b) = (Owner::new(1, None), Owner::new(2, None));
        take(&locks, &a, KEY, LockMode::Shared);
        take(&locks, &b, KEY, LockMode::Shared);
        let other = Arc::clone(&locks);
        let thread = thread::spawn(move || other.release(&b, KEY));
        take(&locks, &a, KEY, LockMode::Exclusive);
        thread.join().unwrap();
        assert_eq!(lock(&locks.shards[0])[&KEY].mode, LockMode::Exclusive);
    });
}

#[test]
fn models_one_of_two_detectors_ends_a_deadlock() {
    explore("one of two detectors ends a deadlock", || {
        let locks = Arc::new(LockTable::new(1, 0));
        let owners = [Owner::new(1, None), Owner::new(2, None)];
        take(&locks, &owners[0], 1, LockMode::Exclusive);
        take(&locks, &owners[1], 2, LockMode::Exclusive);
        let run = |locks: &LockTable, owner: &Arc<Owner>, own: LockId, wanted: LockId| {
            let wait = queue(locks, owner, wanted, LockMode::Exclusive);
            let is_victim = wait
                .as_ref()
                .is_some_and(|wait| locks.detect(wait).is_some());
            if !is_victim {
                while wait.as_ref().is_some_and(|wait| wait.sleep_as_thread()) {
                    park();
                }
                locks.release(owner, wanted);
            }
            locks.release(owner, own);
            is_victim
        };
        let (other, second) = (Arc::clone(&locks), Arc::clone(&owners[1]));
        let thread = thread::spawn(move || run(&other, &second, 2, 1));
        let first = run(&locks, &owners[0], 1, 2);
        let second = thread.join().unwrap();
        assert!(!(first && second));
        assert!(lock(&locks.shards[0]).is_empty());
    });
}
