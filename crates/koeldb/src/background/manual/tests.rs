use std::cell::Cell;

use super::*;
use crate::{Db, Env, Options};

#[test]
fn a_pick_waits_for_an_ingestion_that_begins_meanwhile() {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_env(&Env::mem_env())
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let handle = db.default_cf();
    let family = handle.data();
    let manual = Manual {
        family,
        request: CompactionRequest::default(),
        is_exclusive: false,
        path_id: None,
    };
    let count = |change: i32| {
        family.update(|state| {
            state.ingestions = state.ingestions.saturating_add_signed(change);
        });
    };
    let picks = Cell::new(0);
    let background = &db.inner().background;
    let picked = std::thread::scope(|scope| {
        background.wait_for_pick(&manual, |version, options| {
            picks.set(picks.get() + 1);
            if picks.get() == 1 {
                count(1);
                scope.spawn(|| {
                    // Seen by the pick that is under way, and over before a later one.
                    background.context.clock.sleep(Duration::from_millis(100));
                    count(-1);
                });
            }
            let file = Arc::clone(&version.levels[0].files[0]);
            pick::manual::pick_files(version, &pick_settings(options), &[file.number], 6)
                .map_or(ManualPick::Busy(Refusal::Running), |plan| {
                    ManualPick::Part(plan, Vec::new())
                })
        })
    });
    let (plan, _) = picked.unwrap().expect("the table is to be compacted");
    background.run_manual(&manual, plan).unwrap();
    assert_eq!(db.live_files()[0].level, 6);
}
