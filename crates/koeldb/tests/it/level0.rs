//! Level 0 while it waits for the level below.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::{Db, Decision, Event, IteratorMode, Options};

use crate::scratch::ScratchDir;

const LIMIT: Duration = Duration::from_secs(60);

fn content(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let entries = db.iterator(IteratorMode::Start);
    entries
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn level_0_is_merged_within_itself_while_a_compaction_into_the_base_level_stands_still() {
    let dir = ScratchDir::new();
    let (open, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let within = Arc::new(AtomicU64::new(0));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_max_background_jobs(4)
        .set_level_zero_file_num_compaction_trigger(4)
        .set_compaction_filter("stand still below level 0", move |level, _, _| {
            if level > 0 {
                let _ = opened.lock().unwrap().recv_timeout(LIMIT);
            }
            Decision::Keep
        })
        .add_event_listener({
            let within = Arc::clone(&within);
            move |event: &Event<'_>| {
                if let Event::CompactionCompleted(info) = event
                    && info.output_level == 0
                {
                    assert!(info.inputs.iter().all(|&(level, _)| level == 0));
                    within.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    let db = Db::open(&options, dir.path()).unwrap();
    let mut expected = BTreeMap::new();
    let mut rounds = 0_u32;
    while within.load(Ordering::SeqCst) == 0 {
        assert!(rounds < 200, "level 0 is never merged within itself");
        // Each file hides values and deletions of those before it, and leaves others to be seen.
        for number in 0..40_u32 {
            let key = format!("key {number:02}").into_bytes();
            if (number + rounds) % 7 == 0 {
                db.delete(&key).unwrap();
                expected.remove(&key);
            } else if (number + rounds) % 3 == 0 {
                let value = format!("{rounds}").into_bytes();
                db.put(&key, &value).unwrap();
                expected.insert(key, value);
            }
        }
        db.flush().unwrap();
        assert_eq!(content(&db), expected);
        rounds += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(content(&db), expected);
    drop(open);
    db.wait_for_compact(None).unwrap();
    assert_eq!(content(&db), expected);
    db.close().unwrap();
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert_eq!(content(&db), expected);
    db.verify_checksums().unwrap();
}
