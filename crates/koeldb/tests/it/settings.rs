//! The registry's effects agree with the code: honoured options are read, accepted ones are not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use koeldb::{Effect, Options};

/// Sources of the engine that read options, without tests.
struct Sources(Vec<(PathBuf, String)>);

/// Files of `koeldb::options` that pass options on to other parts.
const CONVERSIONS: &[&str] = &[
    "conversion.rs",
    "memtable.rs",
    "cache.rs",
    "compaction_filter.rs",
    "file_options.rs",
];

/// Accepted options whose names are also those of other fields.
const HOMONYMS: &[&str] = &["low_pri_pool_ratio"];

impl Sources {
    fn load() -> Self {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut sources = Vec::new();
        for name in ["koeldb", "koeldb-lsm", "koeldb-table", "koeldb-log"] {
            collect(&crates.join(name).join("src"), &mut sources);
        }
        sources.retain(|(path, _)| is_reader(path));
        Sources(sources)
    }

    /// Returns the files that access a field or call a method of this name.
    fn readers(&self, field: &str) -> Vec<&Path> {
        let is_read = |text: &str| {
            text.match_indices(field).any(|(at, _)| {
                let before = text[..at].trim_end();
                let after = &text[at + field.len()..];
                let is_longer = after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
                let is_assigned = [" = ", " |= "].iter().any(|sign| after.starts_with(sign));
                // The names of properties and statistics are texts like `rocksdb.name`.
                let is_text = before.ends_with("rocksdb.");
                before.ends_with('.') && !is_longer && !is_assigned && !is_text
            })
        };
        let files = self.0.iter().filter(|(_, text)| is_read(text));
        files.map(|(path, _)| path.as_path()).collect()
    }
}

fn collect(directory: &Path, sources: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            sources.push((path, code.collect::<Vec<_>>().join("\n")));
        }
    }
}

fn is_reader(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let name = path.file_name().unwrap().to_string_lossy();
    let is_test = text.contains("/tests") || matches!(&*name, "tests.rs" | "models.rs");
    let is_option = text.contains("/koeldb/src/options/") && !CONVERSIONS.contains(&&*name);
    !is_test && !is_option
}

#[test]
fn honoured_options_are_read_and_accepted_ones_are_not() {
    let sources = Sources::load();
    let mut wrong = Vec::new();
    for info in Options::registry() {
        let readers = sources.readers(info.name);
        match info.effect {
            Effect::Honoured if readers.is_empty() => {
                wrong.push(format!("{} {} is read nowhere", info.section, info.name));
            }
            Effect::Accepted if !readers.is_empty() && !HOMONYMS.contains(&info.name) => {
                wrong.push(format!(
                    "{} {} is read in {readers:?}",
                    info.section, info.name
                ));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The structs of the options of calls, and the files that declare them.
const CALL_STRUCTS: &[(&str, &str)] = &[
    ("ReadOptions", "read/options.rs"),
    ("WriteOptions", "options/read_write.rs"),
    ("FlushOptions", "options/read_write.rs"),
    ("CompactRangeOptions", "options/manual_compaction.rs"),
    ("CompactionOptions", "options/manual_compaction.rs"),
    ("IngestExternalFileOptions", "copies/ingest/options.rs"),
    ("TransactionDbOptions", "options/transaction.rs"),
    ("TransactionOptions", "options/transaction.rs"),
    ("BackupEngineOptions", "copies/backup/options.rs"),
    ("CreateBackupOptions", "copies/backup/options.rs"),
    ("RestoreOptions", "copies/backup/options.rs"),
];

/// The fields of a struct that its module shows, which are the options.
fn fields(declaration: &str, name: &str) -> BTreeSet<String> {
    let start = declaration.find(&format!("pub struct {name} {{")).unwrap();
    let end = start + declaration[start..].find("\n}").unwrap();
    let lines = declaration[start..end].lines().skip(1);
    lines
        .filter_map(|line| Some(line.trim().rsplit_once(") ")?.1))
        .map(|field| field.split_once(':').unwrap().0.to_owned())
        .collect()
}

/// Whether the documentation of the setter of an option says what holds without a call.
fn names_its_default(methods: &str, option: &str) -> bool {
    // The setter, or the row of a table that generates it.
    let names = [
        format!(" {option}: "),
        format!(" {option},"),
        format!("self.{option} = "),
        format!("self.{option}.push("),
    ];
    let lines: Vec<_> = methods.lines().collect();
    let is_setter = |line: &str| {
        let line = format!(" {}", line.trim());
        !line.contains("///") && names.iter().any(|name| line.contains(name))
    };
    (0..lines.len())
        .filter(|at| is_setter(lines[*at]))
        .any(|at| {
            let above = lines[..at].iter().rev();
            // The head of a method is between its documentation and its first line.
            let above = above.skip_while(|line| !line.contains("///") && !line.trim().is_empty());
            let documentation = above.take_while(|line| line.contains("///"));
            documentation.copied().any(|line| line.contains("efault"))
        })
}

#[test]
fn options_of_calls_are_described_as_they_are_read() {
    let sources = Sources::load();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for (section, file) in CALL_STRUCTS {
        let declaration = fs::read_to_string(root.join(file)).unwrap();
        let rows = || {
            let all = Options::call_registry().iter();
            all.filter(|info| info.section == *section)
        };
        let settable = rows().filter(|info| info.effect != Effect::Refused);
        let named: BTreeSet<String> = settable.map(|info| info.name.to_owned()).collect();
        assert_eq!(fields(&declaration, section), named, "{section}");
        let methods = &declaration[declaration.find(&format!("impl {section} {{")).unwrap()..];
        // Behind `new`, which names the fields, too.
        let methods = methods.split_once("\n    }\n").unwrap().1;
        for info in rows() {
            if info.effect != Effect::Refused && !names_its_default(methods, info.name) {
                wrong.push((info.name, "has a setter that does not say its default"));
            }
            let is_read = !sources.readers(info.name).is_empty();
            match info.effect {
                Effect::Honoured if !is_read => wrong.push((info.name, "is read nowhere")),
                Effect::Accepted if is_read => wrong.push((info.name, "is read")),
                Effect::Refused if named.contains(info.name) => {
                    wrong.push((info.name, "has a setter"));
                }
                _ => {}
            }
        }
    }
    let sections: BTreeSet<_> = CALL_STRUCTS.iter().map(|(section, _)| *section).collect();
    for info in Options::call_registry() {
        assert!(sections.contains(info.section), "{info:?}");
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A method of an `impl` block: the type, the head on one line, and the documentation.
struct Method {
    of: String,
    head: String,
    documentation: String,
}

/// Returns the public methods of all types of the crate, and the setters that `accessors!` makes.
fn methods() -> Vec<Method> {
    let mut files = Vec::new();
    list_sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    let mut out = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let mut lines = text.lines();
        let (mut of, mut documentation) = (String::new(), String::new());
        while let Some(line) = lines.next() {
            if let Some(rest) = line.strip_prefix("impl ") {
                let name = rest.split_once(" {").map_or("", |(name, _)| name);
                of = name.to_owned();
            } else if line == "of_default_family! {" {
                "Db".clone_into(&mut of);
            } else if line == "}" {
                of.clear();
            }
            let line = line.trim();
            if let Some(text) = line.strip_prefix("///") {
                documentation.push_str(text);
                documentation.push('\n');
            } else if ["pub fn ", "pub const fn ", "fn "]
                .iter()
                .any(|start| line.starts_with(start))
            {
                let mut head = line.to_owned();
                while !head.contains(['{', ';']) {
                    head.push(' ');
                    head.push_str(lines.next().unwrap().trim());
                }
                let documentation = std::mem::take(&mut documentation);
                // A macro makes a public method of a head without body.
                if head.starts_with("pub ") || head.ends_with(';') {
                    out.push(Method {
                        of: of.clone(),
                        head,
                        documentation,
                    });
                }
            } else if is_row_of_accessors(line) {
                out.push(Method {
                    of: of.clone(),
                    head: line.to_owned(),
                    documentation: std::mem::take(&mut documentation),
                });
            } else if line.starts_with("#[") {
                let mut end = line;
                while !end.ends_with(']') {
                    end = lines.next().unwrap();
                }
            } else {
                documentation.clear();
            }
        }
    }
    out
}

/// Whether a line is `name: Type, setter, getter;`.
fn is_row_of_accessors(line: &str) -> bool {
    line.ends_with(';') && line.contains(": ") && line.contains(", get_")
}

fn list_sources(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "tests" {
            list_sources(&path, out);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            out.push(path);
        }
    }
}

/// Every setter of a struct of options, in whatever module, says what holds without it.
#[test]
fn setters_of_all_structs_of_options_name_the_default() {
    let mut wrong = Vec::new();
    let (mut count, mut structs) = (0, BTreeSet::new());
    for method in methods() {
        let is_setter = ["pub fn set_", "pub fn add_"]
            .iter()
            .any(|start| method.head.starts_with(start))
            || is_row_of_accessors(&method.head);
        if !method.of.ends_with("Options") || !is_setter {
            continue;
        }
        count += 1;
        structs.insert(method.of.clone());
        if !method.documentation.contains("efault") {
            wrong.push(format!("{}: {}", method.of, method.head));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for name in [
        "BackupEngineOptions",
        "ReadOptions",
        "SecondaryOptions",
        "TransactionDbOptions",
        "TransactionOptions",
        "WriteOptions",
    ] {
        assert!(structs.contains(name), "{name} in {structs:?}");
    }
    assert!(count > 100, "{count} setters of {structs:?}");
}

/// Clippy's `missing_errors_doc` does not know the results in an iterator, a future or a vector.
#[test]
fn every_call_of_a_database_that_can_fail_says_when() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for method in methods() {
        let Some((_, result)) = method.head.split_once(" -> ") else {
            continue;
        };
        let can_fail = result.contains("Result<") || result.contains("PinnedSlices");
        if !matches!(&*method.of, "Db" | "ColumnFamily") || !can_fail {
            continue;
        }
        count += 1;
        if !method.documentation.contains(" # Errors\n") {
            wrong.push(format!("{}: {}", method.of, method.head));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 150, "{count} calls");
}
