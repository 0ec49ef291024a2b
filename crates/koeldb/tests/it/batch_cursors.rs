//! Cursors over pending writes show later writes where those of RocksDB do.
//!
//! A random history adds writes to a transaction or an indexed batch and moves cursors, both here and
//! in RocksDB's Java library.

use std::fmt::Write as _;

use koeldb::{
    BatchCursor, Db, ReadOptions, StringAppend, Transaction, TransactionDbOptions,
    WriteBatchWithIndex,
};
use koeldb_testkit::{Floors, Random};

use crate::prelude::in_memory;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

/// The pending writes that cursors are over.
enum Pending {
    Transaction(Box<Transaction>),
    Batch(Box<WriteBatchWithIndex>),
}

impl Pending {
    fn change(&mut self, words: &[&str]) {
        match (self, words) {
            (Pending::Transaction(of), ["put", key, value]) => of.put(key, value).unwrap(),
            (Pending::Transaction(of), ["merge", key, value]) => of.merge(key, value).unwrap(),
            (Pending::Transaction(of), ["delete", key]) => of.delete(key).unwrap(),
            (Pending::Batch(of), ["put", key, value]) => drop(of.put(key, value)),
            (Pending::Batch(of), ["merge", key, value]) => drop(of.merge(key, value)),
            (Pending::Batch(of), ["delete", key]) => drop(of.delete(key)),
            _ => panic!("{words:?}"),
        }
    }

    fn cursor(&self, db: &Db, options: &ReadOptions) -> BatchCursor {
        match self {
            Pending::Transaction(of) => of.cursor_opt(db.default_cf(), options),
            Pending::Batch(of) => of.cursor_opt(db.default_cf(), options),
        }
    }
}

fn key(random: &mut Random) -> String {
    format!("k{:02}", random.below(24))
}

/// A random history: the commands of `Cursors.java`.
///
/// It moves a cursor only if it may be valid: `is_valid` says so after each line.
struct Generator {
    random: Random,
    cursors: usize,
    writes: u64,
}

impl Generator {
    fn next(&mut self, valid: &[bool]) -> String {
        let random = &mut self.random;
        if self.cursors == 0 || (self.cursors < 4 && random.chance(1, 20)) {
            self.cursors += 1;
            let mut bounds = [key(random), key(random)];
            bounds.sort();
            let [lower, upper] = bounds.map(|bound| match random.chance(1, 3) {
                true => bound,
                false => String::from("-"),
            });
            return format!("cursor {lower} {upper}");
        }
        if random.chance(2, 5) {
            self.writes += 1;
            let (key, number) = (key(random), self.writes);
            return match random.below(6) {
                0 | 1 => format!("delete {key}"),
                2 => format!("merge {key} {number}"),
                _ => format!("put {key} {number}"),
            };
        }
        let cursor = random.index(self.cursors);
        match random.below(if valid[cursor] { 12 } else { 4 }) {
            0 => format!("{cursor} first"),
            1 => format!("{cursor} last"),
            2 => format!("{cursor} seek {}", key(random)),
            3 => format!("{cursor} back {}", key(random)),
            4..=8 => format!("{cursor} next"),
            _ => format!("{cursor} prev"),
        }
    }
}

/// Runs a random history here; returns its commands and what the cursors showed.
fn run(seed: u64, kind: &str) -> (String, Vec<String>) {
    let mut options = in_memory();
    options
        .set_merge_operator(StringAppend::default())
        .set_transactions(&TransactionDbOptions::new());
    let db = Db::open(&options, "/cursors").unwrap();
    let mut generator = Generator {
        random: Random::new(seed),
        cursors: 0,
        writes: 0,
    };
    let mut commands = String::new();
    for _ in 0..generator.random.below(16) {
        let key = key(&mut generator.random);
        db.put(&key, "stored").unwrap();
        writeln!(commands, "store {key} stored").unwrap();
    }
    let mut pending = match kind {
        "transaction" => Pending::Transaction(Box::new(db.transaction())),
        _ => Pending::Batch(Box::new(WriteBatchWithIndex::new(kind == "overwriting"))),
    };
    let (mut cursors, mut valid, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..120 {
        let command = generator.next(&valid);
        writeln!(commands, "{command}").unwrap();
        let words: Vec<&str> = command.split(' ').collect();
        if let ["cursor", lower, upper] = words[..] {
            let mut options = ReadOptions::new();
            if lower != "-" {
                options.set_iterate_lower_bound(lower.as_bytes().to_vec());
            }
            if upper != "-" {
                options.set_iterate_upper_bound(upper.as_bytes().to_vec());
            }
            cursors.push(pending.cursor(&db, &options));
            valid.push(false);
            continue;
        }
        let Ok(index) = words[0].parse::<usize>() else {
            pending.change(&words);
            continue;
        };
        let cursor = &mut cursors[index];
        valid[index] = match words[1..] {
            ["first"] => cursor.seek_to_first(),
            ["last"] => cursor.seek_to_last(),
            ["next"] => cursor.next(),
            ["prev"] => cursor.prev(),
            ["seek", key] => cursor.seek(key),
            ["back", key] => cursor.seek_for_prev(key),
            _ => panic!("{command}"),
        }
        .unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        shown.push(match cursor.entry() {
            Some((key, value)) => format!("{} {}", text(key), text(value)),
            None => String::from("none"),
        });
    }
    (commands, shown)
}

#[test]
fn cursors_show_later_writes_where_those_of_rocksdb_do() {
    let Some(java) = Java::find() else { return };
    for seed in 0..Floors::chosen().of(24, 120, 2_000) {
        let kind = ["transaction", "overwriting", "appending"][usize::try_from(seed % 3).unwrap()];
        let (commands, ours) = run(seed, kind);
        let dir = ScratchDir::new();
        let theirs = java.cursors(dir.path(), kind, &commands);
        let moves = commands
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        for (index, command) in moves.enumerate() {
            assert_eq!(
                ours[index], theirs[index],
                "seed {seed}, {kind}: move {index}, `{command}`, of\n{commands}"
            );
        }
        assert_eq!(ours.len(), theirs.len());
    }
}
