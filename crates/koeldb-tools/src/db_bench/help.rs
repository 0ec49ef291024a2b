//! The texts of `--help`, `--helpfull` and `--build_info`.

use std::fmt::Write as _;

use super::catalog::{ABSENT, BENCHMARKS};
#[cfg(test)]
use super::flags::unplanned;
use super::flags::{Effect, FlagInfo, FlagType, Flags, Group, TABLE};

const INTRODUCTION: &str = "\
db_bench measures KoelDB. Flags, benchmarks, key sequences and output lines are those of RocksDB's
db_bench, so that one command line measures both engines.

Usage: db_bench --flag=value ...        (also --flag value, -flag=value; --flag, --noflag for yes and no)

Examples:
  db_bench --db=/tmp/bench --benchmarks=fillrandom,readrandom --num=1000000
      fills a new database, then reads a million random keys from it. WITHOUT --use_existing_db
      AN EXISTING DATABASE IN THE DIRECTORY IS DESTROYED FIRST.
  db_bench --db=/tmp/bench --use_existing_db --benchmarks=readrandom --threads=4 --duration=30 --histogram
      reads the existing database with 4 threads for 30 seconds, and prints the latency distribution.
  db_bench --db=/tmp/bench --benchmarks='fillseq[X3-W1]' --json=result.json
      runs fillseq three times after a warm-up; prints averages, and writes all results as JSON.

A result line:
  readrandom   :       0.766 micros/op 1302931 ops/sec 0.015 seconds 20000 operations;   90.9 MB/s (12616 of 20000 found)
  Process: 0.812 processor micros/op, 0.0021 context switches/op
micros/op is the mean of one thread; ops/sec and MB/s are totals of all threads. The second line is
about the whole process, background threads included, where the system tells; RocksDB prints none.
";

/// The groups of flags in the short help: those that define the workload and the measurement.
const SHORT_GROUPS: [Group; 4] = [Group::Run, Group::Keys, Group::Work, Group::Read];

/// Returns the help, with all flags or only those of the workload.
pub(crate) fn text(all: bool) -> String {
    let mut out = INTRODUCTION.to_owned();
    out.push_str("\nBenchmarks:\n");
    for benchmark in BENCHMARKS {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {:<30} {}", benchmark.name, benchmark.about);
    }
    out.push_str("\nBenchmarks of RocksDB's program that do not exist here:\n");
    for (name, why) in ABSENT {
        let _ = writeln!(out, "  {name:<30} {why}");
    }
    let defaults = Flags::default();
    for (group, title) in Group::ALL {
        if !all && !SHORT_GROUPS.contains(&group) {
            continue;
        }
        let _ = writeln!(out, "\n{title}:");
        let flags = TABLE.iter().filter(|info| info.group == group);
        for info in flags.filter(|info| all || !is_without_effect(info)) {
            write_flag(&mut out, info, &defaults.show(info.name));
        }
    }
    if !all {
        out.push_str("\n--helpfull lists all flags: caches, memtables, tables, the tree, files and threads too.\n");
    }
    out
}

/// Returns all benchmarks and flags as Markdown.
#[cfg(test)]
pub(super) fn reference() -> String {
    let mut out = String::from("## db_bench\n\n| benchmark | |\n|---|---|\n");
    for benchmark in BENCHMARKS {
        let _ = writeln!(out, "| `{}` | {} |", benchmark.name, benchmark.about);
    }
    out.push_str(
        "\nRocksDB's benchmarks that do not exist here:\n\n| benchmark | why |\n|---|---|\n",
    );
    for (name, why) in ABSENT {
        let _ = writeln!(out, "| `{name}` | {why} |");
    }
    let defaults = Flags::default();
    for (group, title) in Group::ALL {
        let _ = writeln!(
            out,
            "\n### {title}\n\n| flag | default | effect | |\n|---|---|---|---|"
        );
        for info in TABLE.iter().filter(|info| info.group == group) {
            let effect = match (info.without_effect(), info.effect) {
                (Some(_), Effect::Sets(_, option)) if option == info.name => {
                    "announced, without effect".to_owned()
                }
                (Some(why), _) => format!("announced, without effect: {why}"),
                (_, Effect::Sets(_, option)) => match info.effect_of_option() {
                    Some(koeldb::Effect::Refused) => {
                        format!("refused unless it is the default of the option `{option}`")
                    }
                    _ => format!("sets the option `{option}`"),
                },
                (_, Effect::Refused(why)) => format!("refused: {why}"),
                _ => "honoured".to_owned(),
            };
            let default = match (info.name, defaults.show(info.name)) {
                ("benchmarks", _) => "a selection".to_owned(),
                (_, empty) if empty.is_empty() => "empty".to_owned(),
                (_, default) => format!("`{default}`"),
            };
            let help = info.help.replace('|', "\\|").replace('<', "&lt;");
            let _ = writeln!(out, "| `--{}` | {default} | {effect} | {help} |", info.name);
        }
    }
    let unplanned: Vec<_> = unplanned().map(|name| format!("`{name}`")).collect();
    let _ = writeln!(
        out,
        "\nRefused as unknown, because what RocksDB controls by them is not built: {}.",
        unplanned.join(", ")
    );
    out
}

fn is_without_effect(info: &FlagInfo) -> bool {
    info.without_effect().is_some() || matches!(info.effect, Effect::Refused(_))
}

fn write_flag(out: &mut String, info: &FlagInfo, default: &str) {
    let default = match info.flag_type {
        FlagType::Text if info.name == "benchmarks" => "a selection".to_owned(),
        FlagType::Text => format!("\"{default}\""),
        _ => default.to_owned(),
    };
    let mut words = info.help.to_owned();
    // Writing to a string cannot fail.
    let _ = match (info.without_effect(), info.effect) {
        (Some(why), _) => write!(words, " Without effect: {why}."),
        (_, Effect::Refused(why)) => write!(words, " Not available: {why}."),
        _ => Ok(()),
    };
    let _ = writeln!(
        out,
        "  --{} ({}, default {default})",
        info.name,
        info.flag_type.name()
    );
    for line in wrap(&words, 92) {
        let _ = writeln!(out, "      {line}");
    }
}

/// Wraps `text` into lines of at most `width` bytes.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let is_full = lines
            .last()
            .is_some_and(|line| !line.is_empty() && line.len() + 1 + word.len() > width);
        if is_full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Returns a description of the build.
pub(crate) fn build_info() -> String {
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let codecs = [
        ("snappy", cfg!(feature = "snappy")),
        ("lz4", cfg!(feature = "lz4")),
        ("zlib", cfg!(feature = "zlib")),
        ("zstd", cfg!(feature = "zstd")),
        ("bzip2", cfg!(feature = "bzip2")),
    ];
    let codecs: Vec<_> = codecs
        .iter()
        .filter(|codec| codec.1)
        .map(|codec| codec.0)
        .collect();
    format!(
        " (KoelDB) {}\n koeldb_build_profile: {profile}\n koeldb_build_target: {}-{}\n koeldb_build_codecs: {}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS,
        codecs.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_help_has_every_flag_and_the_short_one_the_workload() {
        let (short, full) = (text(false), text(true));
        for info in TABLE {
            assert!(
                full.contains(&format!("--{} (", info.name)),
                "{}",
                info.name
            );
        }
        assert!(short.contains("--num (") && !short.contains("--bloom_locality ("));
        assert!(short.lines().count() < full.lines().count());
    }

    #[test]
    fn long_texts_are_wrapped_between_words() {
        assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrap("abcdefgh i", 4), ["abcdefgh", "i"]);
    }
}
