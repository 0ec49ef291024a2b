//! The parser of a command line in gflags' syntax.
//!
//! Syntax: `-f=v`, `--f=v`, `-f v`, `--f v`; `--f` and `--nof` for booleans; `--` ends the flags;
//! the last occurrence of a flag wins; words that are not flags are ignored. A pasted em or en dash
//! counts as two hyphens.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use koeldb_base::nearest;

use super::{Effect, FlagInfo, FlagType, Flags, TABLE, UNPLANNED};

/// Flags of older versions of RocksDB: name, reason for having no effect, and type.
///
/// They are accepted with a notice.
pub(super) const REMOVED: &[(&str, &str, FlagType)] = &[
    (
        "compaction_measure_io_stats",
        "see report_bg_io_stats",
        FlagType::I32,
    ),
    (
        "disable_data_sync",
        "table files are always synced",
        FlagType::Bool,
    ),
    ("logtostderr", "see use_stderr_info_logger", FlagType::Bool),
    (
        "max_grandparent_overlap_factor",
        "it became max_compaction_bytes",
        FlagType::I32,
    ),
];

/// The action that a command line requests: run benchmarks, print help or print the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Run the benchmarks.
    Run,
    /// Print the help: all flags, or only those that most runs need.
    Help { all: bool },
    /// Print the version.
    Version,
}

/// A parsed `db_bench` command line: flag values, requested action and notices.
#[derive(Debug)]
pub(crate) struct CommandLine {
    pub(crate) flags: Flags,
    pub(crate) command: Command,
    /// Lines for standard error: flags without effect, and dashes that are not hyphens.
    pub(crate) notices: Vec<String>,
    /// The names of the flags that were given.
    pub(crate) given: BTreeSet<&'static str>,
}

/// Parses the words of a `db_bench` command line, without the name of the program.
///
/// `read_file` reads the files that `--flagfile` names.
///
/// # Errors
///
/// All problems found, one line each, without a line end.
pub(crate) fn parse(
    words: &[String],
    read_file: &dyn Fn(&str) -> std::io::Result<String>,
) -> Result<CommandLine, Vec<String>> {
    let mut parser = Parser {
        line: CommandLine {
            flags: Flags::default(),
            command: Command::Run,
            notices: Vec::new(),
            given: BTreeSet::new(),
        },
        errors: Vec::new(),
        unknown: Vec::new(),
        tolerated: BTreeSet::new(),
        read_file,
    };
    parser.words(words);
    parser.finish()
}

/// The state of parsing a command line: the result so far, errors, and unknown flags.
struct Parser<'a> {
    line: CommandLine,
    errors: Vec<String>,
    unknown: Vec<String>,
    tolerated: BTreeSet<String>,
    read_file: &'a dyn Fn(&str) -> std::io::Result<String>,
}

impl Parser<'_> {
    /// Parses all words up to `--` as flags; skips words that are not flags.
    fn words(&mut self, words: &[String]) {
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if word == "--" {
                break;
            }
            let Some(flag) = self.strip_dashes(word) else {
                continue;
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (flag, None),
            };
            self.flag(&name.replace('-', "_"), value, &mut rest);
        }
    }

    /// Removes the leading dashes of a flag; `None` if the word is not a flag.
    fn strip_dashes<'w>(&mut self, word: &'w str) -> Option<&'w str> {
        if let Some(flag) = word.strip_prefix(['\u{2014}', '\u{2013}']) {
            let flag = flag.trim_start_matches(['-', '\u{2014}', '\u{2013}']);
            self.line
                .notices
                .push(format!("Note: '{word}' is taken as '--{flag}'"));
            return Some(flag);
        }
        let flag = word.strip_prefix('-')?;
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        (!flag.is_empty()).then_some(flag)
    }

    /// Parses and applies one flag; without `=value`, the value may be the next word of `rest`.
    fn flag<'w>(
        &mut self,
        name: &str,
        value: Option<&'w str>,
        rest: &mut impl Iterator<Item = &'w String>,
    ) {
        match name {
            "help" | "helpshort" => return self.line.command = Command::Help { all: false },
            "helpfull" => return self.line.command = Command::Help { all: true },
            "version" => return self.line.command = Command::Version,
            "undefok" | "flagfile" => {
                let Some(value) = value.or_else(|| rest.next().map(String::as_str)) else {
                    return self.errors.push(missing_argument(name, ""));
                };
                return self.special(name, value);
            }
            _ => {}
        }
        if let Some(&(name, why, flag_type)) = REMOVED.iter().find(|row| row.0 == name) {
            if value.is_none() && flag_type != FlagType::Bool {
                rest.next();
            }
            let notice = format!("Note: --{name} was removed from RocksDB and does nothing: {why}");
            return self.line.notices.push(notice);
        }
        let known = TABLE.iter().find(|info| info.name == name);
        let negated = || {
            let name = name.strip_prefix("no")?;
            TABLE.iter().find(|info| info.name == name)
        };
        let (info, value) = match (known, value) {
            (Some(info), Some(value)) => (info, value),
            (Some(info), None) if info.flag_type == FlagType::Bool => (info, "true"),
            (Some(info), None) => match rest.next() {
                Some(value) => (info, value.as_str()),
                None => return self.errors.push(missing_argument(name, info.help)),
            },
            (None, _) => match negated() {
                Some(info) if info.flag_type == FlagType::Bool => (info, "false"),
                Some(info) => {
                    let kind = info.flag_type.name();
                    return self.errors.push(format!(
                        "ERROR: boolean value ({name}) specified for {kind} command line flag"
                    ));
                }
                None => return self.unknown.push(name.to_owned()),
            },
        };
        self.set(info, value);
    }

    /// Applies `--undefok` (tolerated flag names) or `--flagfile` (files of flags).
    fn special(&mut self, name: &str, value: &str) {
        if name == "undefok" {
            return self
                .tolerated
                .extend(value.split(',').map(|name| name.trim().to_owned()));
        }
        for path in value.split(',') {
            match (self.read_file)(path) {
                Ok(text) => {
                    let lines = text.lines().map(str::trim);
                    let flags = lines.filter(|line| line.starts_with('-'));
                    let words: Vec<String> = flags.map(str::to_owned).collect();
                    self.words(&words);
                }
                Err(error) => self.errors.push(format!("ERROR: {path}: {error}")),
            }
        }
    }

    /// Parses the text of a flag's value, checks its range and stores it.
    fn set(&mut self, info: &'static FlagInfo, value: &str) {
        let FlagInfo {
            name, flag_type, ..
        } = *info;
        let slot = self.line.flags.slot(name);
        if slot.and_then(|slot| slot.parse(value)).is_none() {
            let kind = flag_type.name();
            return self.errors.push(format!(
                "ERROR: illegal value '{value}' specified for {kind} flag '{name}'"
            ));
        }
        if let Some(range) = self.line.flags.out_of_range(name) {
            return self.errors.push(format!(
                "Invalid value for --{name}: {value}, must be {range}\n\
                 ERROR: failed validation of new value '{value}' for flag '{name}'"
            ));
        }
        self.line.given.insert(name);
    }

    /// Reports unknown, ignored and refused flags; returns the command line or all errors.
    fn finish(mut self) -> Result<CommandLine, Vec<String>> {
        for name in std::mem::take(&mut self.unknown) {
            if !self.tolerated.contains(&name) {
                self.errors.push(unknown_flag(&name));
            }
        }
        let defaults = Flags::default();
        for &name in &self.line.given {
            let Some(info) = TABLE.iter().find(|info| info.name == name) else {
                continue;
            };
            if let Some(why) = info.without_effect() {
                let notice = format!("Note: --{name} does nothing: {why}");
                self.line.notices.push(notice);
            }
            let (value, default) = (self.line.flags.show(name), defaults.show(name));
            if let Effect::Refused(why) = info.effect
                && value != default
            {
                self.errors.push(format!(
                    "ERROR: flag '{name}' has no other value than '{default}' here: {why}"
                ));
            }
        }
        if self.errors.is_empty() || self.line.command != Command::Run {
            Ok(self.line)
        } else {
            Err(self.errors)
        }
    }
}

/// Returns the error message for a flag without its value.
fn missing_argument(name: &str, help: &str) -> String {
    let mut text = format!("ERROR: flag '--{name}' is missing its argument");
    if !help.is_empty() {
        let _ = write!(text, "; flag description: {help}");
    }
    text
}

/// Returns the error message for an unknown flag, with the nearest known name.
fn unknown_flag(name: &str) -> String {
    let mut text = format!("ERROR: unknown command line flag '{name}'");
    if UNPLANNED.lines().any(|line| line == name) {
        text.push_str(" (RocksDB has it; what it controls is not built here)");
    } else if let Some(near) = nearest(name, TABLE.iter().map(|info| (info.name, info.name))) {
        let _ = write!(text, " (did you mean '{near}'?)");
    }
    text
}
