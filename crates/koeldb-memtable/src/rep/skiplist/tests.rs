//! Tests of the accuracy of the index.

use super::*;
use koeldb_base::ValueType;
use koeldb_base::comparator::{BytewiseComparator, Comparator};
use std::thread;

/// A bytewise order that the list cannot recognise as such.
struct Disguised;

impl Comparator for Disguised {
    fn name(&self) -> &str {
        "test.Disguised"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Order {
        BytewiseComparator.compare(a, b)
    }
}

fn shuffled(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The mean number of steps that a search walks from the index's guess.
fn steps_per_search(list: &SkipList) -> f64 {
    let (mut steps, mut searches) = (0_u32, 0_u32);
    let mut before = list.head();
    for node in list.nodes() {
        let (user_key, footer) = list.entry(node).user_key_and_footer();
        let (target, guess) = list.guess(user_key, footer);
        let mut at = list.start(guess, &target);
        while !ptr::eq(at.address(), before.address()) {
            at = at.next().expect("the walk ends before the node");
            steps += 1;
        }
        searches += 1;
        before = node;
    }
    f64::from(steps) / f64::from(searches)
}

fn insert(list: &SkipList, key: &[u8], seqno: u64) {
    let parts = EntryParts::new(seqno, ValueType::Value, key, b"v").unwrap();
    list.insert(&parts).unwrap();
}

/// Under Miri enough to split leaves and to rebuild the tree above them.
fn count() -> u64 {
    if cfg!(miri) { 40 } else { 15_000 }
}

#[test]
fn the_index_leads_next_to_every_target() {
    type Key = fn(u64) -> Vec<u8>;
    let keys: [(&str, Key); 8] = [
        ("strays at last", |n| {
            let prefix = ["message", "a", "z"][usize::try_from(n % 3).unwrap()];
            let prefix = if n < count() / 10 * 9 {
                "message"
            } else {
                prefix
            };
            format!("{prefix}{:020}", shuffled(n)).into_bytes()
        }),
        ("ascending", |n| format!("user{n:012}").into_bytes()),
        ("descending", |n| {
            format!("user{:012}", 99_999 - n).into_bytes()
        }),
        ("ascending bytes", |n| {
            n.swap_bytes().to_le_bytes().repeat(2)
        }),
        ("random", |n| shuffled(n).to_le_bytes().to_vec()),
        ("long prefix", |n| {
            format!("{:<70}{:020}", "p", shuffled(n)).into_bytes()
        }),
        ("no order in sight", |n| {
            format!("{:x}", shuffled(n)).into_bytes()
        }),
        ("versions", |n| vec![b'k'; usize::try_from(n % 3).unwrap()]),
    ];
    let orders = [
        KeyOrder::Bytewise,
        KeyOrder::ReverseBytewise,
        KeyOrder::Uint64,
        KeyOrder::new(Disguised),
    ];
    // Under Miri only distinct hints and equal hints.
    for order in orders.into_iter().step_by(if cfg!(miri) { 3 } else { 1 }) {
        for (name, key) in keys.into_iter().step_by(if cfg!(miri) { 7 } else { 1 }) {
            let list = SkipList::new(order.clone(), SharedArena::of_blocks(1 << 20), 0);
            for number in 0..count() {
                insert(&list, &key(number), number);
            }
            let steps = steps_per_search(&list);
            assert!(steps == 0.0, "{name} in {order:?}: {steps} steps");
        }
    }
}

#[test]
fn nodes_left_out_of_the_index_are_put_in_by_who_walks_past_them() {
    let list = SkipList::new(KeyOrder::Bytewise, SharedArena::of_blocks(1 << 20), 0);
    insert(&list, b"a", 0);
    insert(&list, b"z", 1);
    let tree = list.index.tree().unwrap();
    let locked = tree.first();
    assert!(locked.try_lock_page());
    // Several times as many as a walk passes before it adds one.
    let left_out: u32 = if cfg!(miri) { 40 } else { 1000 };
    for number in 0..left_out {
        insert(&list, format!("k{number:08}").as_bytes(), number.into());
    }
    assert!(steps_per_search(&list) > f64::from(left_out) / 3.0);
    locked.unlock_page();
    for number in 0..left_out {
        list.search(format!("k{number:08}12345678").as_bytes());
    }
    let steps = steps_per_search(&list);
    assert!(steps < STEPS_MAX as f64, "{steps} steps");
}

#[test]
fn the_index_keeps_up_with_writers_at_once() {
    for ascending in [false, true] {
        let list = SkipList::new(KeyOrder::Bytewise, SharedArena::of_blocks(1 << 16), 0);
        thread::scope(|scope| {
            for writer in 0..4 {
                let list = &list;
                scope.spawn(move || {
                    for number in 0..count() / 4 {
                        let seqno = number * 4 + writer;
                        let key = if ascending { seqno } else { shuffled(seqno) };
                        insert(list, format!("{key:020}").as_bytes(), seqno);
                    }
                });
            }
        });
        let steps = steps_per_search(&list);
        assert!(steps < 2.0 * STEPS_MAX as f64, "{steps} steps");
    }
}
