//! RocksDB in a separate process: commands and answers of `History.java`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb_testkit::proc_stat;

use super::model::Scan;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

/// A process with RocksDB, and its replacement, which is started when the first is killed.
pub(crate) struct RocksDb {
    java: &'static Java,
    process: Process,
}

/// The text of the error of a command that RocksDB does not answer: some of its calls wait for
/// ever, as a flush for a memtable that no job flushes.
pub(super) const HANGS: &str = "RocksDB gives no answer to";

/// The text of the error of a command in which RocksDB's process ends.
pub(super) const ENDS: &str = "RocksDB ended in";

/// The text of the error of an open in which RocksDB refuses what it wrote last: in point-in-time
/// recovery it takes for damage what a recycled log held before.
pub(super) const REFUSES_ITS_OWN: &str = "RocksDB refuses what it wrote last";

/// The texts of errors that no directory of KoelDB causes:
/// - RocksDB's Java library reads no options of plain tables back;
/// - an ingestion that has flushed a memtable may meet a new one, twice at times;
/// - an incremental compaction counts the tables of the last level that a sorted run leaves behind,
///   reads past the last of them, and crashes.
pub(super) const FAULTS_OF_ITS_OWN: [&str; 3] = [
    "readNewTableFormatConfig() is not implemented",
    "Inconsistent memtable state detected when flushed before run",
    "rocksdb::UniversalCompactionPicker::PickCompaction",
];

/// The time between two looks at a process that has not answered yet.
const LOOK: Duration = Duration::from_millis(100);

/// The number of looks, one after the other, that find every thread asleep before a command counts as
/// unanswered. A process that computes, waits for a processor or for the device is not asleep.
const LOOKS: u32 = 100;

/// The processor time after which a command counts as unanswered, in the hundredths of a second of
/// `/proc`: some of RocksDB's calls try something again without an end.
const MOST_TICKS: u64 = 1_500;

struct Process {
    child: Arc<Mutex<Child>>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Says to the watchdog that a command was sent, or answered.
    steps: Sender<()>,
    hangs: Arc<AtomicBool>,
    /// Where the Java library unpacks its native part, which a killed process leaves behind.
    _unpacked: ScratchDir,
}

/// Whether every thread of a process sleeps.
fn is_asleep(process: &Path) -> bool {
    let Ok(threads) = std::fs::read_dir(process.join("task")) else {
        return false;
    };
    let mut threads = threads.flatten();
    threads.all(|thread| proc_stat::is_asleep(&thread.path().join("stat")))
}

/// Kills `child` if it does not answer a command. Each command is two steps: sent, answered.
fn watch(child: &Mutex<Child>, steps: &Receiver<()>, hangs: &AtomicBool) {
    let process = PathBuf::from(format!("/proc/{}", child.lock().unwrap().id()));
    while steps.recv().is_ok() {
        let stat = process.join("stat");
        let most = proc_stat::processor_ticks(&stat) + MOST_TICKS;
        let mut looks = 0;
        while steps.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            looks = if is_asleep(&process) { looks + 1 } else { 0 };
            if looks == LOOKS || proc_stat::processor_ticks(&stat) > most {
                hangs.store(true, Ordering::Release);
                let _ = child.lock().unwrap().kill();
                return;
            }
        }
    }
}

impl Process {
    fn start(java: &Java) -> Self {
        let unpacked = ScratchDir::new();
        let option = format!("-Djava.io.tmpdir={}", unpacked.path().display());
        let mut child = java
            .history()
            .env("JDK_JAVA_OPTIONS", option)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let child = Arc::new(Mutex::new(child));
        let hangs = Arc::new(AtomicBool::new(false));
        let (steps, received) = channel();
        let watched = (Arc::clone(&child), Arc::clone(&hangs));
        std::thread::spawn(move || watch(&watched.0, &received, &watched.1));
        Process {
            child,
            input,
            output,
            steps,
            hangs,
            _unpacked: unpacked,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap());
        }
    }
    text
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap();
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::try_from(digit(pair[0]) * 16 + digit(pair[1])).unwrap())
        .collect()
}

impl RocksDb {
    pub(crate) fn start(java: &'static Java) -> Self {
        RocksDb {
            java,
            process: Process::start(java),
        }
    }

    /// Sends a command without waiting for its answer.
    pub(crate) fn send(&mut self, fields: &[&str]) {
        let mut line = fields.join("\t");
        line.push('\n');
        // If the process has ended, its answer will show it.
        let _ = self.process.input.write_all(line.as_bytes());
        let _ = self.process.input.flush();
    }

    /// Sends a command; returns the lines before its answer, and the fields of the answer.
    fn converse(&mut self, fields: &[&str]) -> Result<(Vec<String>, Vec<String>), String> {
        let _ = self.process.steps.send(());
        self.send(fields);
        let answer = self.read_answer(fields[0]);
        let _ = self.process.steps.send(());
        answer
    }

    fn read_answer(&mut self, command: &str) -> Result<(Vec<String>, Vec<String>), String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.process.output.read_line(&mut line).unwrap() == 0 {
                return Err(match self.process.hangs.load(Ordering::Acquire) {
                    true => format!("{HANGS} {command}"),
                    // The report of a fatal signal by the Java virtual machine, with the native function.
                    false => {
                        let last = lines.iter().filter(|line: &&String| line.starts_with('#'));
                        let last: Vec<_> = last.map(String::as_str).collect();
                        format!("{ENDS} {command}: {}", last.join(" "))
                    }
                });
            }
            let mut words = line.trim_end_matches('\n').split('\t').map(str::to_owned);
            match words.next().as_deref() {
                Some("ok") => return Ok((lines, words.collect())),
                Some("err") => {
                    let message = words.next().unwrap_or_default();
                    return Err(format!("RocksDB, {command}: {message}"));
                }
                _ => lines.push(line.trim_end_matches('\n').to_owned()),
            }
        }
    }

    /// Executes a command; returns the fields of its answer.
    pub(crate) fn execute(&mut self, fields: &[&str]) -> Result<Vec<String>, String> {
        self.converse(fields).map(|(_, answer)| answer)
    }

    /// Returns the names of the column families in a directory that is not open.
    pub(super) fn list(&mut self, dir: &Path) -> Result<Vec<String>, String> {
        self.execute(&["list", &dir.display().to_string()])
    }

    /// Scans a column family, forward or in both directions, and gets each key.
    pub(crate) fn dump(
        &mut self,
        family: &str,
        snapshot: Option<usize>,
        both_directions: bool,
    ) -> Result<Scan, String> {
        self.dump_at(family, snapshot, both_directions, None)
    }

    /// Scans a column family at a timestamp, if its keys have them.
    pub(super) fn dump_at(
        &mut self,
        family: &str,
        snapshot: Option<usize>,
        both_directions: bool,
        time: Option<u64>,
    ) -> Result<Scan, String> {
        let time = time.map_or("-".to_owned(), |time| time.to_string());
        let snapshot = snapshot.map_or("-1".to_owned(), |index| index.to_string());
        let directions = if both_directions { "2" } else { "1" };
        let (lines, _) = self.converse(&["dump", family, &snapshot, directions, &time])?;
        let entries = lines.iter().map(|line| {
            let mut words = line.split('\t').skip(1).map(unhex);
            (words.next().unwrap(), words.next().unwrap())
        });
        Ok(entries.collect())
    }

    /// Kills the process like `kill -9`, and starts another.
    pub(crate) fn kill(&mut self) {
        self.process = Process::start(self.java);
    }
}
