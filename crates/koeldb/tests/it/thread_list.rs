//! The list of running background jobs.

use std::sync::{Arc, Mutex};

use koeldb::fs::{MemoryFileSystem, SystemClock};
use koeldb::listener::{Event, EventListener};
use koeldb::{Db, Env, Options, ThreadOperation, ThreadStatus};

/// Notes the entry of each job when it begins.
struct Watcher {
    env: Env,
    seen: Arc<Mutex<Vec<ThreadStatus>>>,
}

impl EventListener for Watcher {
    fn on_event(&self, event: &Event<'_>) {
        if matches!(event, Event::FlushBegin(_) | Event::CompactionBegin(_)) {
            // Other threads may still end a job whose result is visible.
            let own = std::thread::current().id();
            let list = self.env.thread_list().into_iter();
            let own = list.filter(|status| status.thread == own);
            self.seen.lock().unwrap().extend(own);
        }
    }
}

#[test]
fn running_jobs_are_listed_if_threads_are_tracked() {
    for tracks in [false, true] {
        let env = Env::new(Arc::new(MemoryFileSystem::new()), Arc::new(SystemClock));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_enable_thread_tracking(tracks)
            .add_event_listener(Watcher {
                env: env.clone(),
                seen: Arc::clone(&seen),
            })
            .set_env(&env);
        let db = Db::open(&options, "/db").unwrap();
        for _ in 0..2 {
            db.put("key", "value").unwrap();
            db.flush().unwrap();
        }
        db.compact_range(..).unwrap();
        db.close().unwrap();
        assert!(env.thread_list().is_empty());
        let seen = seen.lock().unwrap();
        let operations: Vec<_> = seen.iter().map(|status| status.operation).collect();
        let (flush, compaction) = (ThreadOperation::Flush, ThreadOperation::Compaction);
        let expected = [flush, flush, compaction];
        assert_eq!(operations, if tracks { &expected[..] } else { &[] });
        for status in seen.iter() {
            assert_eq!(status.column_family, "default");
            assert_eq!(status.database.to_str(), Some("/db"));
        }
    }
}
