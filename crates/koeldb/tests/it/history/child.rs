//! KoelDB in a process that is killed while it writes.
//!
//! The parent writes a script: how the directory is opened, and the operations. The child answers
//! each operation with a line, so that the parent knows which writes were acknowledged.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use koeldb::fs::{Clock, SystemClock};

use super::ours::{How, Ours};
use super::theirs::{hex, unhex};

/// The environment variable with the path of the script.
const SCRIPT: &str = "KOELDB_HISTORY_SCRIPT";

/// An operation of the child.
#[derive(Debug)]
pub(super) enum Operation {
    Write { batch: Vec<u8>, sync: bool },
    Flush { family: String, wait: bool },
    Compact { family: String },
}

impl Operation {
    fn line(&self) -> String {
        match self {
            Operation::Write { batch, sync } => format!("write\t{sync}\t{}", hex(batch)),
            Operation::Flush { family, wait } => format!("flush\t{wait}\t{family}"),
            Operation::Compact { family } => format!("compact\tfalse\t{family}"),
        }
    }

    fn execute(line: &str, ours: &Ours) -> Result<(), String> {
        let words: Vec<&str> = line.split('\t').collect();
        let [what, flag, operand] = words[..] else {
            return Err(format!("no operation: {line}"));
        };
        let flag = flag == "true";
        match what {
            "write" => ours.write(&unhex(operand), flag, false),
            "flush" => ours.flush(&[operand], flag),
            _ => ours.compact(operand, None, None, false, None),
        }
    }
}

/// The answers of a killed child.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Operations that it acknowledged.
    pub(super) done: usize,
    /// Whether acknowledged writes may stay in memory.
    pub(super) keeps_log_in_memory: bool,
    /// The error of its open or of an operation.
    pub(super) error: Option<String>,
}

impl Answers {
    fn take(&mut self, line: &str) {
        match line.split_once('\t') {
            Some(("open", manual)) => self.keeps_log_in_memory = manual == "true",
            Some(("done", _)) => self.done += 1,
            Some(("error", text)) => self.error = Some(text.to_owned()),
            _ => {}
        }
    }
}

fn script(db: &Path, how: &How, operations: &[Operation]) -> String {
    let mut text = format!("{}\n{}\n", db.display(), how.database);
    for (name, options) in &how.families {
        text += &format!("family\t{name}\t{options}\n");
    }
    for name in &how.ignoring_case {
        text += &format!("ignoring_case\t{name}\n");
    }
    text += "operations\n";
    for operation in operations {
        text += &operation.line();
        text.push('\n');
    }
    text
}

fn start(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["history::child::child_process", "--exact", "--nocapture"])
        .env(SCRIPT, path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a child and kills it `pause` after it acknowledged `count` operations.
pub(super) fn run_and_kill(
    path: &Path,
    (db, how): (&Path, &How),
    operations: &[Operation],
    (count, pause): (usize, Duration),
) -> Answers {
    std::fs::write(path, script(db, how, operations)).unwrap();
    let mut child = start(path);
    let mut answers = Answers::default();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut listen = |answers: &mut Answers, until: usize| {
        while answers.done < until && answers.error.is_none() {
            match lines.next() {
                Some(Ok(line)) => answers.take(&line),
                _ => return,
            }
        }
    };
    listen(&mut answers, count.min(operations.len()));
    SystemClock.sleep(pause);
    let _ = child.kill();
    let _ = child.wait();
    listen(&mut answers, usize::MAX);
    std::fs::remove_file(path).unwrap();
    answers
}

/// One write for each line, so that a kill tears none of the previous lines.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The child: opens the directory, executes the script and waits to be killed.
#[test]
fn child_process() {
    let Ok(path) = std::env::var(SCRIPT) else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let db = lines.next().unwrap();
    let mut how = How {
        database: lines.next().unwrap().to_owned(),
        ..How::default()
    };
    for line in lines.by_ref().take_while(|line| *line != "operations") {
        let words: Vec<&str> = line.split('\t').collect();
        match words[..] {
            ["family", name, options] => {
                how.families.insert(name.to_owned(), options.to_owned());
            }
            ["ignoring_case", name] => {
                how.ignoring_case.insert(name.to_owned());
            }
            _ => unreachable!("no such line: {line}"),
        }
    }
    let ours = match Ours::open(Path::new(db), &how) {
        Ok(ours) => ours,
        Err(error) => return say(&format!("error\t{}\n", error.replace('\n', " "))),
    };
    let manual = ours.db.options().get_manual_wal_flush();
    say(&format!("open\t{manual}\n"));
    for line in lines {
        match Operation::execute(line, &ours) {
            Ok(()) => say("done\t\n"),
            Err(error) => say(&format!("error\t{}\n", error.replace('\n', " "))),
        }
    }
    loop {
        SystemClock.sleep(Duration::from_secs(1));
    }
}
