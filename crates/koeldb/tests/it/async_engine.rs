//! How an open database carries out many reads at once is chosen when it is opened, and told.

use koeldb::{ConfigOptions, Db, Options, ReadEngine};

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
