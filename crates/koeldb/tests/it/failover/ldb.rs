//! Alternation with RocksDB 7.8, as Debian's `ldb query`: single changes, each with an answer.
//!
//! Change `n` puts `n` into slot `n % 50`; every seventh deletes a slot instead. So the last
//! hundred changes determine the contents of every slot, and the contents correspond to one number
//! of changes, or there is a gap.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use koeldb::{BlockBasedOptions, Db, IteratorMode, Options};
use koeldb_testkit::{Floors, Random};

use super::{DIRECTORY, copy, lines_of, our_turn, take_turn, tear_newest_log};
use crate::rocksdb::Tool;
use crate::scratch::ScratchDir;

const SLOTS: u64 = 50;

/// This many consecutive changes put into each slot at least once.
const ALL_SLOTS: u64 = 2 * SLOTS;

type Content = BTreeMap<String, String>;

fn slot(number: u64) -> String {
    format!("slot{:02}", number % SLOTS)
}

/// Returns the slot of a change, and its value unless it is a deletion.
fn change(number: u64) -> (String, Option<String>) {
    if number.is_multiple_of(7) {
        return (slot(number / 7), None);
    }
    let length = usize::try_from(number * 37 % 900).unwrap();
    (
        slot(number),
        Some(format!("{number}:{}", "x".repeat(length))),
    )
}

/// Returns the contents after this many changes.
fn content_after(count: u64) -> Content {
    let mut content = Content::new();
    for number in count.saturating_sub(ALL_SLOTS - 1).max(1)..=count {
        match change(number) {
            (slot, Some(value)) => content.insert(slot, value),
            (slot, None) => content.remove(&slot),
        };
    }
    content
}

/// Returns the number of changes for these contents. One without an effect counts.
fn count(content: &Content) -> u64 {
    let numbers = content.values().filter_map(|value| value.split(':').next());
    let newest_put = numbers.map(|text| text.parse().unwrap()).max().unwrap_or(0);
    [newest_put + 1, newest_put]
        .into_iter()
        .find(|count| content_after(*count) == *content)
        .unwrap_or_else(|| panic!("changes are missing before {newest_put}: {content:?}"))
}

fn open(path: &Path) -> Db {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(64 << 10)
        .set_target_file_size_base(64 << 10)
        .set_level_zero_file_num_compaction_trigger(3)
        // The newest that it reads.
        .set_block_based_table_factory(BlockBasedOptions::new().set_format_version(5));
    Db::open(&options, path).unwrap()
}

fn content_of(db: &Db) -> Content {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let entries = db.iterator(IteratorMode::Start).map(Result::unwrap);
    entries
        .map(|(key, value)| (text(&key), text(&value)))
        .collect()
}

/// The child: applies changes until it is killed.
#[test]
fn changing_child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let db = open(Path::new(&directory));
    let say = |what: &str, number: u64| {
        std::io::stderr()
            .write_all(format!("{what} {number}\n").as_bytes())
            .is_ok()
    };
    let mut number = count(&content_of(&db));
    say("opened", number);
    loop {
        number += 1;
        match change(number) {
            (slot, Some(value)) => db.put(slot, value).unwrap(),
            (slot, None) => db.delete(slot).unwrap(),
        }
        if !say("written", number) {
            return;
        }
    }
}

/// Returns the contents that RocksDB reads, without changing anything.
fn scan(ldb: &Tool, directory: &Path) -> Content {
    let text = ldb.run(&[&format!("--db={}", directory.display()), "scan"]);
    let entries = text.lines().map(|line| line.split_once(" : ").unwrap());
    entries
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Returns the answers of `ldb` to these queries and to subsequent changes, in the child's format.
fn converse(
    mut questions: ChildStdin,
    answers: Receiver<String>,
    found: Content,
) -> Receiver<String> {
    let (sender, receiver) = channel();
    let begun = count(&found);
    let keys: Vec<String> = found.keys().cloned().collect();
    std::thread::spawn(move || {
        let gets = keys.into_iter().map(|key| format!("get {key}\n"));
        let changes = (begun + 1..).map(|number| match change(number) {
            (slot, Some(value)) => format!("put {slot} {value}\n"),
            (slot, None) => format!("delete {slot}\n"),
        });
        // Until it is killed.
        gets.chain(changes)
            .all(|question| questions.write_all(question.as_bytes()).is_ok())
    });
    std::thread::spawn(move || {
        let mut entries = found.iter();
        let mut number = begun;
        for answer in answers {
            let line = match entries.next() {
                Some((key, value)) if answer == format!("{key} ==> {value}") => {
                    match entries.len() {
                        0 => format!("opened {begun}"),
                        _ => continue,
                    }
                }
                None if answer.starts_with("Successfully") => {
                    number += 1;
                    format!("written {number}")
                }
                _ => answer,
            };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn their_turn(ldb: &Tool, directory: &Path, life: Duration) -> (u64, u64) {
    let found = scan(ldb, directory);
    // An answer is to be heard when it is given. With smaller memtables it fails an assertion.
    let mut child = Command::new("stdbuf")
        .args(["-oL", "ldb", "query", "--write_buffer_size=1000000"])
        .arg(format!("--db={}", directory.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let answers = lines_of(child.stdout.take().unwrap());
    let lines = converse(child.stdin.take().unwrap(), answers, found);
    take_turn(child, &lines, life)
}

#[test]
fn rocksdb_7_8_and_we_go_on_from_what_the_death_of_the_other_left() {
    let Some(ldb) = Tool::ldb() else {
        return;
    };
    let rounds = Floors::chosen().of(5, 10, 200);
    let mut random = Random::new(2);
    let dir = ScratchDir::new();
    // An entry to return after the open.
    open(dir.path()).put(slot(1), change(1).1.unwrap()).unwrap();
    let mut acknowledged = 1;
    for round in 0..rounds {
        for theirs in [false, true] {
            let life = Duration::from_millis(random.below(400));
            let (opened, written) = match theirs {
                false => our_turn("failover::ldb::changing_child", dir.path(), life),
                true => their_turn(&ldb, dir.path(), life),
            };
            // A change may be in the log before its acknowledgement is in the pipe; another may
            // have no effect.
            assert!(
                (acknowledged..=acknowledged + 2).contains(&opened),
                "round {round}: {opened} changes are there, {acknowledged} were acknowledged"
            );
            acknowledged = written;
            if (round + u64::from(theirs)).is_multiple_of(2) {
                tear_newest_log(dir.path(), &mut random);
                let ours = content_of(&open(copy(dir.path()).path()));
                assert_eq!(ours, scan(&ldb, dir.path()));
                let count = count(&ours);
                assert!(count <= acknowledged + 2);
                acknowledged = count;
            }
        }
    }
    println!("summary suite=failover_7_8 seed=2 rounds={rounds} changes={acknowledged} failures=0");
}
