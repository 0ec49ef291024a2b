//! The option reference, generated from the registry.
//!
//! `REWRITE=1 cargo test -p koeldb --test it reference::` writes it; without it a difference fails
//! the test.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use koeldb::{Effect, OptionInfo, Options};

/// Features that options without effect belong to: a feature and its options on each line.
const REASONS: &str = include_str!("reference/reasons.txt");

/// The feature of options that no line of [`REASONS`] names.
const OTHER: &str = "other settings";

/// Setters whose names do not follow from those of their options.
const SETTERS: &[(&str, &str)] = &[
    ("table_factory", "set_block_based_table_factory"),
    ("compression_opts", "set_compression_options"),
    ("bottommost_compression", "set_bottommost_compression_type"),
    (
        "bottommost_compression_opts",
        "set_bottommost_compression_options",
    ),
    (
        "compaction_options_universal",
        "set_universal_compaction_options",
    ),
    ("compaction_options_fifo", "set_fifo_compaction_options"),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file with its expected contents, or writes them.
fn compare(path: &Path, expected: &str) {
    if std::env::var_os("REWRITE").is_some() {
        fs::write(path, expected).unwrap();
        return;
    }
    let actual = fs::read_to_string(path).unwrap_or_default();
    let different = actual
        .lines()
        .zip(expected.lines())
        .find(|(actual, expected)| actual != expected);
    assert!(
        actual == expected,
        "{} is stale; REWRITE=1 cargo test -p koeldb --test it reference:: writes it. First difference: {different:#?}",
        path.display()
    );
}

fn reason(info: &OptionInfo) -> &'static str {
    let lines = REASONS.lines().filter_map(|line| line.split_once(": "));
    let mut named = lines.filter(|(_, names)| names.split(' ').any(|name| name == info.name));
    named.next().map_or(OTHER, |(reason, _)| reason)
}

/// Returns the setters written by hand: name and file of each `pub fn set_…`.
fn setters() -> BTreeSet<String> {
    let directory = repository().join("crates/koeldb/src/options");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        names.extend(text.split("pub fn set_").skip(1).filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            Some(format!("set_{}", &rest[..end]))
        }));
    }
    names
}

/// Escapes a text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .replace("  ", " ")
}

fn code(text: &str) -> String {
    match text {
        "" => "empty".to_owned(),
        // The sizes of nested structs; their members have rows of their own.
        text if text.len() > 60 => "see its members".to_owned(),
        text => format!("`{}`", text.replace('|', "\\|")),
    }
}

/// Returns the setter of an option; `setters` are those written by hand.
fn setter_of(info: &OptionInfo, setters: &BTreeSet<String>) -> Option<String> {
    let other = SETTERS.iter().find(|(option, _)| *option == info.name);
    let by_name = other.map_or_else(
        || format!("set_{}", info.name),
        |(_, setter)| (*setter).to_owned(),
    );
    let known = info.setter.map(str::to_owned);
    known.or_else(|| setters.contains(&by_name).then_some(by_name))
}

fn row(info: &OptionInfo, setters: &BTreeSet<String>) -> String {
    let setter = match setter_of(info, setters) {
        Some(name) => format!("`{name}`"),
        None => "by text".to_owned(),
    };
    let effect = match info.effect {
        Effect::Honoured => "honoured".to_owned(),
        Effect::Accepted => format!("accepted, without effect: {}", reason(info)),
        Effect::Refused => format!("refused unless it is the default: {}", reason(info)),
        effect => panic!("{effect:?} of {}", info.name),
    };
    let mut sentence = match (info.documentation.as_str(), info.range) {
        (text, "") => text.to_owned(),
        (text, range) => format!("{text} {range}"),
    };
    if !info.rules.is_empty() {
        let _ = write!(sentence, " Checked: {}.", info.rules.join("; "));
    }
    format!(
        "| `{}` | {setter} | {} | {} | {} | {} |\n",
        info.name,
        code(&info.default),
        if info.mutable { "yes" } else { "no" },
        cell(&effect),
        cell(&sentence),
    )
}

fn counts(out: &mut String, infos: &[OptionInfo]) {
    let count = |effect| infos.iter().filter(|info| info.effect == effect).count();
    let _ = writeln!(
        out,
        "Of {} options of {} structs, {} are honoured, {} accepted and {} refused; {} more names are of older releases.\n",
        infos.len() - count(Effect::Removed),
        infos
            .iter()
            .map(|info| info.section)
            .collect::<BTreeSet<_>>()
            .len(),
        count(Effect::Honoured),
        count(Effect::Accepted),
        count(Effect::Refused),
        count(Effect::Removed),
    );
}

/// Appends a table of options of single calls for each kind of call.
fn calls(out: &mut String, infos: &[OptionInfo]) {
    out.push_str(CALLS);
    for of_section in infos.chunk_by(|one, next| one.section == next.section) {
        let _ = writeln!(
            out,
            "### {}\n\n| option | default | effect | description |\n|---|---|---|---|",
            of_section[0].section
        );
        for info in of_section {
            let effect = match info.effect {
                Effect::Honoured => "honoured",
                Effect::Accepted => "accepted, without effect",
                Effect::Refused => "no setter: each call has the default",
                effect => panic!("{effect:?} of {}", info.name),
            };
            let _ = writeln!(
                out,
                "| `{}` | {} | {effect} | {} |",
                info.name,
                code(&info.default),
                cell(&info.documentation),
            );
        }
        out.push('\n');
    }
}

fn reference(infos: &[OptionInfo]) -> String {
    let setters = setters();
    let mut out = String::from(INTRODUCTION);
    counts(&mut out, infos);
    out.push_str("## Options without effect, and refused ones\n\n");
    out.push_str(&missing(infos));
    out.push('\n');
    let mut sections: Vec<&str> = infos.iter().map(|info| info.section).collect();
    sections.dedup();
    for section in sections {
        let _ = writeln!(
            out,
            "## {section}\n\n| option | setter | default | at run time | effect | description |\n|---|---|---|---|---|---|"
        );
        let of_section = || infos.iter().filter(|info| info.section == section);
        for info in of_section().filter(|info| info.effect != Effect::Removed) {
            out.push_str(&row(info, &setters));
        }
        let removed = of_section().filter(|info| info.effect == Effect::Removed);
        let removed: Vec<_> = removed.map(|info| format!("`{}`", info.name)).collect();
        if !removed.is_empty() {
            let _ = write!(
                out,
                "\nOlder releases had these names; any value is accepted and dropped: {}.\n",
                removed.join(", ")
            );
        }
        out.push('\n');
    }
    calls(&mut out, Options::call_registry());
    out.push_str(OTHERS);
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

const INTRODUCTION: &str = "\
# Options

<!-- Generated: REWRITE=1 cargo test -p koeldb --test it reference:: -->

Every option of RocksDB 11.9 under its name, and those that only KoelDB has. Options are set by a
setter, by name in an option string (`Options::apply_str`) or by an OPTIONS file
(`Options::load_latest`). Options whose column *at run time* is *yes* can be changed while the
database is open (`Db::set_options`, `Db::set_db_options`). Options of
[single calls](#options-of-single-calls), as reads and writes, come last.

An option is *honoured*: the code reads it, which a test checks. Or it is *accepted*: it is kept, written back
and announced by each open that sets it, but has no effect; it could only change speed, space or
figures. Or it is *refused*: a value other than the default is an error that names the option,
because it would change answers or durability.

The last sentence of a description, *Checked*, has the legal values and combinations that an open
checks. It collects the settings that break such a rule into one error.

";

const CALLS: &str = "\
## Options of single calls

Reads, writes, flushes and other calls take these structs of options. They have setters but no texts,
so they are in no option string and no OPTIONS file. `set_` and the name of an option is its setter,
unless the struct's documentation has another one.

";

const OTHERS: &str = "\
## Named otherwise, or absent

What RocksDB's headers declare as an option and no table above has:

| option of RocksDB | here |
|---|---|
| `compaction_service`, `sst_file_manager`, `write_buffer_manager` | setters of `Options` with these names; they are objects, and have no texts |
| `table_properties_collector_factories` | `table_properties_collectors`, of those that are built in |
| `disableWAL` | `WriteOptions::disable_wal` |
| `backup_dir`, `backup_env` | the argument of `BackupEngine::open`; `BackupEngineOptions::set_env` |
| `cmp` | the comparator of the column family |
| `occ_lock_buckets`, `shared_lock_buckets`, `validate_policy` | absent; `validation_tier` of a transaction says where its commit looks for conflicts |
| `timeout` | the argument of `Db::wait_for_compact` |
| `flush`, `abort_on_pause`, `close_db`, `wait_for_purge` | absent: call `Db::flush` before, and `Db::close` after `Db::wait_for_compact` |
| `include_files`, `include_memtables`, `include_blob_files`, `files_size_error_margin` | absent: `Db::approximate_sizes` counts tables |
| `range`, `property_bag` | the ranges of a multi-scan; each has no more options |
| `wal_size_for_flush`, `include_checksum_info` | `CheckpointOptions::set_log_size_for_flush`; `LiveFile` has the checksums |
| `allow_resumption` | absent: a remote compaction begins anew |
| `max_trace_file_size`, `filter`, `sampling_frequency`, `preserve_write_order` | absent: there are no traces |
| `row_cache`, `persistent_cache` | absent: the block cache is the only cache of entries |
| `cache_usage_options`, `options`, `options_overrides`, `charged` | absent |
| `compaction_thread_limiter` | absent: `max_background_jobs` limits all column families together |
| `checksum_handoff_file_types`, `calculate_sst_write_lifetime_hint_set` | absent |
| `blob_direct_write_partition_strategy` | absent, as `enable_blob_direct_write` is refused |
";

/// The names of options in the headers of RocksDB 11.9: a struct and its members on each line.
const ROCKSDB_OPTIONS: &str = include_str!("reference/rocksdb_options.txt");

#[test]
fn every_option_of_the_headers_of_rocksdb_is_named() {
    let text = reference(Options::registry());
    let structs = ROCKSDB_OPTIONS
        .lines()
        .filter_map(|line| line.split_once(": "));
    let all = structs.flat_map(|(of, names)| names.split(' ').map(move |name| (of, name)));
    let unnamed: Vec<_> = all
        .filter(|(_, name)| !text.contains(&format!("`{name}`")))
        .collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

/// The table of options without effect and refused ones, by feature.
fn missing(infos: &[OptionInfo]) -> String {
    let mut features: BTreeMap<(&str, bool), Vec<&str>> = BTreeMap::new();
    for info in infos {
        let is_refused = info.effect == Effect::Refused;
        if is_refused || info.effect == Effect::Accepted {
            let names = features.entry((reason(info), is_refused)).or_default();
            if !names.contains(&info.name) {
                names.push(info.name);
            }
        }
    }
    let mut out =
        String::from("| options of | without effect | refused unless default |\n|---|---|---|\n");
    let reasons: BTreeSet<_> = features.keys().map(|(reason, _)| *reason).collect();
    for reason in reasons {
        let names = |is_refused| {
            let names = features
                .get(&(reason, is_refused))
                .map_or(&[][..], Vec::as_slice);
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let _ = writeln!(out, "| {reason} | {} | {} |", names(false), names(true));
    }
    out
}

#[test]
fn the_option_reference_is_that_of_the_registry() {
    compare(
        &repository().join("docs/options.md"),
        &reference(Options::registry()),
    );
}

/// The documentation of each `pub fn set_…` in the sources of options, by name.
fn setter_documentation() -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(repository().join("crates/koeldb/src/options")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let mut documentation = String::new();
        for line in fs::read_to_string(path).unwrap().lines().map(str::trim) {
            if let Some(text) = line.strip_prefix("///") {
                documentation.push_str(text);
            } else if let Some(rest) = line.strip_prefix("pub fn set_") {
                let name = rest.split_once(['(', '<']).map_or(rest, |(name, _)| name);
                let text = std::mem::take(&mut documentation);
                // Setters of options take `&mut self`; others change a cache that is in use.
                if !rest.contains("(&self") {
                    out.insert(format!("set_{name}"), text);
                }
            } else if !line.starts_with('#') {
                documentation.clear();
            }
        }
    }
    out
}

/// Setters in the tables get their sentence from the macro; this checks those written by hand.
#[test]
fn setters_written_by_hand_name_the_default() {
    let documentation = setter_documentation();
    let mut count = 0;
    for info in Options::registry() {
        let is_struct = info.default.starts_with('{') || info.default.len() > 60;
        if info.effect != Effect::Honoured || info.setter.is_some() || is_struct {
            continue;
        }
        let Some(text) = documentation.get(&format!("set_{}", info.name)) else {
            continue;
        };
        count += 1;
        assert!(
            text.to_lowercase().contains("default"),
            "set_{} names no default, which is {:?}",
            info.name,
            info.default
        );
        if let Some((_, rest)) = text.split_once("Default: `") {
            let named = rest.split_once('`').unwrap().0;
            assert_eq!(named, info.default, "the default of {}", info.name);
        }
    }
    assert!(count > 15, "{count} setters were found");
}

/// The documentation of `Options` lists the setters of options with effect by subject, each once.
#[test]
fn setters_of_options_have_one_subject() {
    let subjects = include_str!("../../src/options/subjects.md");
    let by_hand = setters();
    let mut count = 0;
    for info in Options::registry() {
        if info.effect != Effect::Honoured || !matches!(info.section, "DBOptions" | "CFOptions") {
            continue;
        }
        let Some(setter) = setter_of(info, &by_hand) else {
            continue;
        };
        count += 1;
        let link = format!("[`{setter}`](Self::{setter})");
        let times = subjects.matches(&link).count();
        assert_eq!(times, 1, "{setter} in src/options/subjects.md");
    }
    assert!(count > 130, "{count} setters");
}

#[test]
fn reasons_name_existing_options_once() {
    let known: BTreeSet<_> = Options::registry().iter().map(|info| info.name).collect();
    let mut seen = BTreeSet::new();
    for (_, names) in REASONS.lines().filter_map(|line| line.split_once(": ")) {
        for name in names.split(' ') {
            assert!(known.contains(name), "{name} is no option");
            assert!(seen.insert(name), "{name} has two reasons");
        }
    }
}
