//! RocksDB: Debian's command-line tools, and the Java library used by `tests/java/Check.java`.
//!
//! A missing installation prints a notice, and is a failure with `CI=true`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use crate::expected::Expected;

/// The environment variable with the path of RocksDB's Java library, set by `.ci/run`.
const JAR_VARIABLE: &str = "KOELDB_ROCKSDBJNI_JAR";

fn missing<T>(what: &str) -> Option<T> {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{what}");
    eprintln!("notice: {what}; nothing is checked against it");
    None
}

/// The exit status and the whole output of a program.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) succeeded: bool,
    pub(crate) text: String,
}

impl Outcome {
    fn of(command: &mut Command) -> Self {
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Outcome {
            succeeded: output.status.success(),
            text,
        }
    }
}

/// `ldb` or `sst_dump`.
pub(crate) struct Tool {
    program: PathBuf,
}

impl Tool {
    fn find(name: &str) -> Option<Self> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&paths)
            .map(|dir| dir.join(name))
            .find(|path| path.is_file());
        match found {
            Some(program) => Some(Tool { program }),
            None => missing(&format!("{name} is not installed (Debian: rocksdb-tools)")),
        }
    }

    pub(crate) fn ldb() -> Option<Self> {
        Self::find("ldb")
    }

    pub(crate) fn sst_dump() -> Option<Self> {
        Self::find("sst_dump")
    }

    /// Runs with these arguments, whatever comes of it.
    pub(crate) fn attempt(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(Command::new(&self.program).args(arguments))
    }

    /// Runs with these arguments and must succeed, without a word of damage.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let outcome = self.attempt(arguments);
        let complains = ["Corruption", "Failed", "mismatch"]
            .iter()
            .any(|word| outcome.text.contains(word));
        assert!(
            outcome.succeeded && !complains,
            "{arguments:?}: {}",
            outcome.text
        );
        outcome.text
    }

    /// Returns the entries that `ldb scan` prints for a column family, in order.
    ///
    /// They are `(key, value)` in hexadecimal.
    pub(crate) fn scan(&self, dir: &Path, family: &str) -> Vec<(String, String)> {
        let text = self.run(&[
            &format!("--db={}", dir.display()),
            &format!("--column_family={family}"),
            "--try_load_options",
            "--hex",
            "scan",
        ]);
        let entries = text.lines().map(|line| {
            let entry = line
                .split_once(" : ")
                .unwrap_or_else(|| panic!("an entry, not {line:?}"));
            (entry.0.replacen("0x", "", 1), entry.1.replacen("0x", "", 1))
        });
        entries.collect()
    }
}

/// The contents and counters that RocksDB read from a directory.
pub(crate) struct Verdict {
    pub(crate) found: Expected,
    /// Keys it got, and as many it did not find.
    pub(crate) gets: u64,
    /// Lookups that a filter ended.
    pub(crate) useful: u64,
    /// Lookups that a filter let through and that found their key.
    pub(crate) true_positive: u64,
}

/// RocksDB behind the programs in `tests/java`.
pub(crate) struct Java {
    class_path: String,
    /// The directory of the library's native part, unless each process unpacks it.
    native: Option<PathBuf>,
}

impl Java {
    /// Compiles the programs once; `None`, with a notice, where Java or the library is missing.
    pub(crate) fn find() -> Option<&'static Java> {
        static FOUND: OnceLock<Option<Java>> = OnceLock::new();
        FOUND.get_or_init(Self::compile).as_ref()
    }

    fn compile() -> Option<Java> {
        let Some(jar) = std::env::var_os(JAR_VARIABLE) else {
            return missing(&format!(
                "{JAR_VARIABLE} does not name the Java library of RocksDB"
            ));
        };
        let jar = jar.to_string_lossy();
        let classes =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("java-{}", std::process::id()));
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java");
        let mut javac = Command::new("javac");
        javac
            .args(["-Xlint:all", "-Werror", "-cp", &jar, "-d"])
            .arg(&classes)
            .args(
                [
                    "Check.java",
                    "Counters.java",
                    "Cursors.java",
                    "Files.java",
                    "Golden.java",
                    "History.java",
                    "Prepared.java",
                    "Timestamps.java",
                ]
                .map(|name| sources.join(name)),
            );
        match javac.output() {
            Ok(output) => assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            ),
            Err(error) => return missing(&format!("javac cannot be run: {error}")),
        }
        Some(Java {
            native: unpack_native_part(Path::new(&*jar)),
            class_path: format!("{jar}:{}", classes.display()),
        })
    }

    /// A process of a program, which starts fast and uses few threads.
    fn program(&self, main: &str) -> Command {
        let mut command = Command::new("java");
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
        if let Some(native) = &self.native {
            command.arg(format!("-Djava.library.path={}", native.display()));
        }
        command.args(["-cp", &self.class_path]);
        if main == "History" {
            // A killed process leaves no dump where it is run.
            command.args(["-Xmx256m", "-XX:-CreateCoredumpOnCrash"]);
            command.arg("-XX:ErrorFile=/dev/null");
        }
        command.arg(main);
        command
    }

    fn command(&self, what: &str, dir: &Path, settings: &[&str]) -> Command {
        let mut command = self.program("Check");
        command.arg(what).arg(dir).args(settings);
        command
    }

    /// Reads or writes keys with user-defined timestamps (`Timestamps.java`); returns what it prints.
    pub(crate) fn timestamps(&self, what: &str, dir: &Path, arguments: &[&str]) -> String {
        let mut command = self.program("Timestamps");
        command.arg(what).arg(dir).args(arguments);
        let outcome = Outcome::of(&mut command);
        assert!(
            outcome.succeeded,
            "{what} {}: {}",
            dir.display(),
            outcome.text
        );
        outcome.text
    }

    /// Returns the statistics of the reads of `Counters.java`, which writes to `dir`.
    pub(crate) fn counters(&self, dir: &Path) -> String {
        let mut command = self.program("Counters");
        let outcome = Outcome::of(command.arg(dir));
        assert!(outcome.succeeded, "{}: {}", dir.display(), outcome.text);
        outcome.text
    }

    /// Returns what the cursors over pending writes of `Cursors.java` show after each move.
    pub(crate) fn cursors(&self, dir: &Path, pending: &str, commands: &str) -> Vec<String> {
        let mut command = self.program("Cursors");
        command.arg(dir).arg(pending);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        // The program prints when its input has ended.
        input.write_all(commands.as_bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{commands}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Leaves prepared transactions or decides them (`Prepared.java`); returns what it printed.
    pub(crate) fn prepared(&self, what: &str, dir: &Path, settings: &[&str]) -> String {
        let mut command = self.program("Prepared");
        command.arg(what).arg(dir).args(settings);
        let outcome = Outcome::of(&mut command);
        assert!(
            outcome.succeeded,
            "{what} {}: {}",
            dir.display(),
            outcome.text
        );
        outcome.text
    }

    /// A process that executes the commands of its input (`History.java`).
    pub(crate) fn history(&self) -> Command {
        self.program("History")
    }

    /// Runs a command of the program, whatever comes of it.
    pub(crate) fn attempt(&self, what: &str, dir: &Path, settings: &[&str]) -> Outcome {
        Outcome::of(&mut self.command(what, dir, settings))
    }

    fn run(&self, what: &str, dir: &Path, settings: &[&str]) -> String {
        let outcome = self.attempt(what, dir, settings);
        assert!(
            outcome.succeeded,
            "{what} {}: {}",
            dir.display(),
            outcome.text
        );
        outcome.text
    }

    /// Puts `key0` to `key99`, and changes options as `set:NAME=VALUE` says.
    pub(crate) fn set(&self, dir: &Path, settings: &[&str]) {
        self.run("set", dir, settings);
    }

    /// Opens, verifies and reads a directory, with the changes that an open by RocksDB makes.
    pub(crate) fn check(&self, dir: &Path, settings: &[&str]) -> Verdict {
        let mut verdict = Verdict {
            found: Expected::default(),
            gets: 0,
            useful: 0,
            true_positive: 0,
        };
        for line in self.run("check", dir, settings).lines() {
            let number = |text: &str| {
                text.parse::<u64>()
                    .unwrap_or_else(|_| panic!("a count, not {line:?}"))
            };
            match line.split_once('\t') {
                Some(("entry", entry)) => verdict.found.add_line(entry),
                Some(("gets", count)) => verdict.gets = number(count),
                Some(("useful", count)) => verdict.useful = number(count),
                Some(("true_positive", count)) => verdict.true_positive = number(count),
                _ => panic!("an answer, not {line:?}"),
            }
        }
        verdict
    }

    /// Returns what RocksDB records of each table, a line with tabs each (`Check.java`, `live`).
    pub(crate) fn live(&self, dir: &Path, settings: &[&str]) -> Vec<String> {
        let lines = self.run("live", dir, settings);
        lines.lines().map(str::to_owned).collect()
    }

    /// Opens a directory and changes every column family (`Check.java`, `write`).
    pub(crate) fn write(&self, dir: &Path, settings: &[&str]) {
        self.run("write", dir, settings);
    }

    /// Drops and recreates every column family, first in the other order (`Check.java`, `reuse`).
    pub(crate) fn reuse(&self, dir: &Path, settings: &[&str]) {
        self.run("reuse", dir, settings);
    }

    /// Puts under tracked logs, and flushes the column family `flushed` (`Check.java`, `track`).
    pub(crate) fn track(&self, dir: &Path, flushed: usize) {
        self.run("track", dir, &[&format!("flush={flushed}")]);
    }

    /// Leaves a prepared transaction, or one that was rolled back (`Check.java`, `prepare`).
    pub(crate) fn prepare(&self, dir: &Path, is_settled: bool) {
        let settings: &[&str] = if is_settled { &["settled=true"] } else { &[] };
        self.run("prepare", dir, settings);
    }

    /// Runs a command of `Files.java`, which must succeed; returns what it prints.
    pub(crate) fn files(&self, arguments: &[&str]) -> String {
        let mut command = self.program("Files");
        command.args(arguments);
        let outcome = Outcome::of(&mut command);
        assert!(outcome.succeeded, "{arguments:?}: {}", outcome.text);
        outcome.text
    }

    /// A process that opens a directory and writes to it until it is killed (`Check.java`, `load`).
    pub(crate) fn load(&self, dir: &Path) -> Command {
        self.command("load", dir, &["small=true"])
    }

    /// Opens a directory and keeps it open.
    pub(crate) fn hold(&self, dir: &Path) -> Holder {
        Holder::start(&mut self.command("hold", dir, &[]))
    }
}

/// Unpacks the native part of the Java library, once for all test runs.
///
/// Without it every process unpacks the 17 MB for itself. Returns `None` if that is not possible.
fn unpack_native_part(jar: &Path) -> Option<PathBuf> {
    let name = match std::env::consts::ARCH {
        "x86_64" => "librocksdbjni-linux64.so",
        "aarch64" => "librocksdbjni-linux-aarch64.so",
        _ => return None,
    };
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(jar.file_stem()?);
    if !kept.exists() {
        let scratch = kept.with_extension(std::process::id().to_string());
        std::fs::create_dir_all(&scratch).ok()?;
        let mut unpack = Command::new("jar");
        unpack.arg("xf").arg(jar.canonicalize().ok()?).arg(name);
        let status = unpack.current_dir(&scratch).status().ok()?;
        // Another process may have been faster.
        if !status.success() || std::fs::rename(&scratch, &kept).is_err() {
            let _ = std::fs::remove_dir_all(&scratch);
        }
    }
    kept.join(name).exists().then_some(kept)
}

/// Another process that has reported an open directory; it ends when its input is closed.
pub(crate) struct Holder {
    child: Child,
    input: Option<ChildStdin>,
    /// Kept open: the process may say more.
    output: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts a process and waits until it prints `held`.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut holder = Holder {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        let mut line = String::new();
        while !line.trim_end().ends_with("held") {
            line.clear();
            let bytes = holder.output.read_line(&mut line).unwrap();
            assert!(bytes > 0, "{command:?} did not open the directory");
        }
        holder
    }

    /// Has it close the directory and waits for its end.
    pub(crate) fn release(mut self) {
        self.input = None;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}
