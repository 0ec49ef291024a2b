//! Scripts for point reads through a version: a tree with entries, keys, and answers.
//!
//! ```text
//! tree                            the tables of the following commands
//! L1
//!   12: a#9,SET=one c#8,DEL d-f#7,RANGEDEL
//!
//! get KEY [at=100] [above=N] [until=N] [suspend=(12,11)]
//! batch [at=100] [above=N] [suspend=(12)]     keys in the input
//! remove NUMBER                   removes the file of a table
//! ```
//!
//! The answer has the tables of which a data block was read. `above` is the number of runs above
//! the version's; no run from `until` on is searched. Blocks of the tables in `suspend` are missing
//! when they are needed first.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use datadriven::TestCase;
use koeldb_base::merge_operator::{Merger, StringAppend};
use koeldb_base::{Fault, KeyOrder, Lookup, Result, SeqNo};
use koeldb_fs::MemoryFileSystem;
use koeldb_lsm::version::BatchVisitor;
use koeldb_lsm::{Level, TableOpener, Version};
use koeldb_table::block_based::format::BlockHandle;
use koeldb_table::source::{BlockKind, BlockSource, BlockingSource, CachedBlock, TableFile};

use crate::{entries, tables};

struct Tree {
    fs: Arc<MemoryFileSystem>,
    opener: TableOpener,
    version: Version,
}

impl Tree {
    fn parse(text: &str) -> Self {
        let fs = tables::file_system();
        let mut levels = vec![Level::default(); 4];
        let mut level = 0;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(deeper) = line.strip_prefix('L') {
                level = usize::try_from(entries::number(deeper)).unwrap();
                continue;
            }
            let (number, content) = line.split_once(": ").expect("NUMBER: ENTRIES");
            let content = content.replace(' ', "\n").replace('=', " = ");
            let (entries, tombstones) = entries::entries(&content, &KeyOrder::Bytewise);
            let file = tables::write(&fs, entries::number(number), &entries, &tombstones);
            levels[level].files.push(Arc::new(file));
        }
        Tree {
            opener: tables::opener(&fs),
            version: Version::new(KeyOrder::Bytewise, levels),
            fs,
        }
    }
}

/// A source that records the tables it reads, and suspends once for each block of some tables.
struct Traced {
    inner: BlockingSource,
    suspends: BTreeSet<u64>,
    seen: BTreeSet<(u64, u64)>,
    reads: Vec<u64>,
}

impl Traced {
    fn new(case: &mut TestCase) -> Self {
        let suspends = case.try_take_args("suspend").unwrap().unwrap_or_default();
        Traced {
            inner: BlockingSource::default(),
            suspends: suspends.into_iter().collect(),
            seen: BTreeSet::new(),
            reads: Vec::new(),
        }
    }

    fn list(&mut self) -> String {
        let reads = std::mem::take(&mut self.reads);
        let reads: Vec<String> = reads.iter().map(u64::to_string).collect();
        match reads.is_empty() {
            true => "no read".to_owned(),
            false => format!("read {}", reads.join(" ")),
        }
    }
}

impl BlockSource for Traced {
    type Suspend = u64;

    fn block(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<u64>> {
        let is_new = self.seen.insert((file.number, handle.offset));
        if is_new && self.suspends.contains(&file.number) {
            return Err(Fault::Suspend(file.number));
        }
        self.reads.push(file.number);
        self.inner
            .block(file, handle, kind)
            .map_err(|fault| match fault {
                Fault::Error(error) => Fault::Error(error),
                Fault::Suspend(never) => match never {},
            })
    }
}

fn answer(lookup: &mut Lookup) -> String {
    let end = match lookup.is_settled() {
        true => "",
        false => ", undecided",
    };
    match lookup.take_answer(Merger::new(Some(&StringAppend::default()), "default")) {
        Ok(Some(value)) => format!("{}{end}", value.escape_ascii()),
        Ok(None) => format!("none{end}"),
        Err(error) => format!("error: {error}"),
    }
}

fn number(case: &mut TestCase, name: &str, default: u64) -> u64 {
    case.try_take_arg(name).unwrap().unwrap_or(default)
}

fn index(case: &mut TestCase, name: &str, default: usize) -> usize {
    case.try_take_arg(name).unwrap().unwrap_or(default)
}

fn get(case: &mut TestCase, tree: &Tree) -> String {
    let at: SeqNo = number(case, "at", 100);
    let runs = index(case, "above", 0)..index(case, "until", usize::MAX);
    let mut source = Traced::new(case);
    let key = case.args.drain().map(|(name, _)| name).next();
    let mut lookup = Lookup::new(key.expect("a key").as_bytes(), at);
    let mut text = String::new();
    loop {
        let version = &tree.version;
        match version.search(&tree.opener, &mut lookup, &mut source, runs.clone(), |_| {}) {
            Ok(()) => break,
            Err(Fault::Error(error)) => return format!("error: {error}\n"),
            Err(Fault::Suspend(table)) => {
                let searched = lookup.runs_searched();
                let list = source.list();
                writeln!(text, "waits for {table} after {searched} runs, {list}").unwrap();
                lookup.rewind();
            }
        }
    }
    let answer = answer(&mut lookup);
    writeln!(text, "{answer}, {}", source.list()).unwrap();
    text
}

/// Collects the faults of a batch.
struct Faults<'t> {
    keys: Vec<&'t str>,
    text: String,
    suspended: Vec<usize>,
}

impl BatchVisitor<Traced> for Faults<'_> {
    fn fault(&mut self, index: usize, fault: Fault<u64>) {
        let key = self.keys[index];
        match fault {
            Fault::Error(error) => writeln!(self.text, "{key}: error: {error}").unwrap(),
            Fault::Suspend(table) => {
                writeln!(self.text, "{key} waits for {table}").unwrap();
                self.suspended.push(index);
            }
        }
    }

    fn run_searched(
        &mut self,
        run: usize,
        _lookups: &mut [Lookup],
        _done: &mut [bool],
        source: &mut Traced,
    ) {
        let list = source.list();
        if list != "no read" {
            writeln!(self.text, "run {run}: {list}").unwrap();
        }
    }
}

fn batch(case: &mut TestCase, tree: &Tree) -> String {
    let at: SeqNo = number(case, "at", 100);
    let above = index(case, "above", 0);
    let mut source = Traced::new(case);
    let keys: Vec<&str> = case.input.split_whitespace().collect();
    let key_lookups = keys.iter().map(|key| Lookup::new(key.as_bytes(), at));
    let mut lookups: Vec<Lookup> = key_lookups.collect();
    let mut faults = Faults {
        keys: keys.clone(),
        text: String::new(),
        suspended: Vec::new(),
    };
    let version = &tree.version;
    version.search_batch(&tree.opener, &mut lookups, &mut source, above, &mut faults);
    let Faults {
        mut text,
        suspended,
        ..
    } = faults;
    for index in suspended {
        let lookup = &mut lookups[index];
        lookup.rewind();
        while version
            .search(&tree.opener, lookup, &mut source, above..usize::MAX, |_| {})
            .is_err()
        {
            lookup.rewind();
        }
        let list = source.list();
        writeln!(text, "{} resumes: {list}", keys[index]).unwrap();
    }
    for (key, lookup) in keys.iter().zip(&mut lookups) {
        writeln!(text, "{key} = {}", answer(lookup)).unwrap();
    }
    text
}

#[test]
fn reads_find_what_the_scripts_say() {
    datadriven::walk("tests/data/search", |file| {
        let mut tree = Tree::parse("");
        file.run(|case| match case.directive.as_str() {
            "tree" => {
                tree = Tree::parse(&case.input);
                String::new()
            }
            "remove" => {
                let number = case.args.drain().map(|(name, _)| name).next();
                let number = entries::number(&number.expect("a table"));
                let name = koeldb_base::file_name::table(tables::DIRECTORY.as_ref(), number);
                koeldb_fs::FileSystem::remove_file(&*tree.fs, &name).unwrap();
                String::new()
            }
            "get" => get(case, &tree),
            "batch" => batch(case, &tree),
            other => panic!("no command {other:?}"),
        });
    });
}
