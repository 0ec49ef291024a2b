//! Loom models of a leader, and of members that help with the insertion.

use std::sync::Arc;

use koeldb_base::sync::{AtomicU8, explore, spawn};

use super::*;

/// Explores an insertion in which the part `failing`, if any, cannot be inserted.
fn model(name: &str, failing: Option<usize>) {
    explore(name, move || {
        const PARTS: usize = 3;
        let inserted: Arc<[AtomicU8; PARTS]> = Arc::new(std::array::from_fn(|_| AtomicU8::new(0)));
        let parts = (0..PARTS).map(|at| Part {
            records: at..at + 1,
            first: at as SeqNo,
            protection: None,
        });
        let insert = {
            let inserted = Arc::clone(&inserted);
            move |part: &Part| {
                inserted[part.records.start].fetch_add(1, Ordering::Relaxed);
                match failing == Some(part.records.start) {
                    true => Err(Error::invalid_argument("a part that cannot be inserted")),
                    false => Ok(part.first == 1),
                }
            }
        };
        let shared = Arc::new(SharedApply::new(parts.collect(), Box::new(insert)));
        let members = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            spawn(move || shared.help())
        });
        shared.help();
        let outcome = shared.wait();
        // The leader publishes only after all entries are inserted, by any thread.
        for inserted in &*inserted {
            assert_eq!(inserted.load(Ordering::Relaxed), 1);
        }
        assert_eq!(outcome.ok(), failing.is_none().then_some(true));
        for member in members {
            member.join().unwrap();
        }
    });
}

#[test]
fn the_leader_goes_on_when_every_part_is_inserted_once() {
    model("a group inserted by its members", None);
}

#[test]
fn the_leader_is_told_of_a_part_that_a_member_could_not_insert() {
    model("a group inserted by its members, one part fails", Some(2));
}
