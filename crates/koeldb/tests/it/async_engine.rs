//! The engine for concurrent reads is chosen and reported when a database is opened.

use std::fs::File;
use std::process::Command;

use koeldb::{BlockBasedOptions, ConfigOptions, Db, Options, ReadEngine, ReadOptions};

use crate::scratch::ScratchDir;

const PROPERTY: &str = "koeldb.async-io-engine";

fn open(dir: &ScratchDir, engine: ReadEngine) -> Db {
    let mut options = Options::new();
    options.create_if_missing(true).set_async_io_engine(engine);
    Db::open(&options, dir.path()).unwrap()
}

#[test]
fn the_engine_of_reads_is_in_a_property_and_in_the_log() {
    for (engine, known) in [
        (ReadEngine::Off, Some("off (as configured)")),
        (ReadEngine::Pool, Some("pool (as configured)")),
        (ReadEngine::Uring, None),
        (ReadEngine::Auto, None),
    ] {
        let dir = ScratchDir::new();
        let db = open(&dir, engine);
        let told = db.property_value(PROPERTY).unwrap().unwrap();
        match known {
            Some(known) => assert_eq!(told, known),
            None => assert!(
                told.starts_with("uring (") || told.starts_with("pool ("),
                "{told}"
            ),
        }
        drop(db);
        let log = std::fs::read_to_string(dir.path().join("LOG")).unwrap();
        assert!(log.contains(&format!("async_io_engine: {told}")), "{told}");
    }
}

#[test]
fn the_choice_is_kept_in_the_options_file_and_the_default_is_left_out() {
    for (engine, line) in [
        (ReadEngine::Pool, Some("\n  async_io_engine=pool\n")),
        (ReadEngine::Auto, None),
    ] {
        let dir = ScratchDir::new();
        drop(open(&dir, engine));
        let file = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().contains("OPTIONS-"))
            .max()
            .unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        match line {
            Some(line) => assert!(text.contains(line), "{text}"),
            None => assert!(!text.contains("async_io_engine"), "{text}"),
        }
        let loaded = Options::load_latest(dir.path(), &ConfigOptions::new()).unwrap();
        assert_eq!(loaded.options.get_async_io_engine(), engine);
    }
}

const CHILD: &str = "KOELDB_ENGINE_CHILD";

/// Uses up all file descriptors, so that a thread gets no ring, and reads on that thread.
#[test]
#[ignore = "run by another test in a process of its own"]
fn child_without_descriptors() {
    let Ok(path) = std::env::var(CHILD) else {
        return;
    };
    let mut table = BlockBasedOptions::new();
    table.set_block_size(256).set_no_block_cache(true);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_block_based_table_factory(&table);
    let db = Db::open(&options, path).unwrap();
    let keys: Vec<_> = (0..1000_u64).map(u64::to_be_bytes).collect();
    for key in &keys {
        db.put(key, [b'v'; 50]).unwrap();
    }
    db.flush().unwrap();
    let check = || {
        let mut read = ReadOptions::new();
        read.set_async_io(true);
        let found = db.multi_get_opt(&keys, &read);
        assert!(found.iter().all(|value| value.unwrap().is_some()));
    };
    check();
    println!("[{}]", db.property_value(PROPERTY).unwrap().unwrap());
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    for _ in 0..3 {
        std::thread::scope(|scope| {
            scope.spawn(check);
        });
    }
    drop(files);
    println!("[{}]", db.property_value(PROPERTY).unwrap().unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn f7_rings_that_are_refused_later_are_told_in_the_log_and_in_the_property() {
    let dir = ScratchDir::new();
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 128 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "async_engine::child_without_descriptors"])
        .args(["--ignored", "--nocapture"])
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{errors}");
    if !told.contains("[uring (") {
        println!("not tested: {told}");
        return;
    }
    assert!(told.contains(" rings refused, "), "{told}");
    let log = std::fs::read_to_string(dir.path().join("LOG")).unwrap();
    let warnings = log.matches(" rings refused, ").count();
    assert_eq!(warnings, 1, "once a minute: {log}");
}
