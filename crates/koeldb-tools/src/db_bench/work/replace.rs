//! Updates that delete one key and write another, like those of an index whose entries are keys.

use koeldb::ColumnFamily;

use crate::db_bench::plan::{Failure, Outcome, Plan};
use crate::db_bench::random::Normal;
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

/// The keys that each entry takes in turn.
const KEYS_PER_ENTRY: u64 = 50;

fn failed(error: &koeldb::Error) -> Failure {
    Failure::of("Operation failed", error)
}

/// Runs `randomreplacekeys`: deletes a key and writes its successor, with normally chosen entries.
pub(crate) fn random_keys(worker: &mut Worker<'_>) -> Outcome {
    let (plan, flags) = (worker.plan(), worker.flags());
    let database = worker.select();
    let family = database.default_family();
    let entries = u64::try_from(flags.numdistinct).unwrap_or(0).max(1);
    let mut key = plan.key_buffer();
    let mut values = plan.value_source();
    for entry in 0..entries {
        let put = family.put_opt(
            key.key(entry * KEYS_PER_ENTRY),
            values.take(),
            &plan.write_options,
        );
        put.map_err(|error| failed(&error))?;
    }
    // It keeps all versions alive, so that deletions stay too.
    let _snapshot = database.db.snapshot();
    let delete = match flags.use_single_deletes {
        true => single_delete,
        false => delete,
    };
    let mut turns = vec![0; koeldb_base::coding::to_usize(entries)];
    let mut normal = Normal::new(mean(entries), flags.stddev);
    let mut limit = worker.limit(plan.duration, plan.key_count);
    while !limit.done(1) {
        let entry = normal.below(entries);
        let turn = &mut turns[koeldb_base::coding::to_usize(entry)];
        let old = key.key(entry * KEYS_PER_ENTRY + *turn);
        delete(family, old, plan).map_err(|error| failed(&error))?;
        *turn = (*turn + 1) % KEYS_PER_ENTRY;
        let new = key.key(entry * KEYS_PER_ENTRY + *turn);
        let put = family.put_opt(new, b"", &plan.write_options);
        put.map_err(|error| failed(&error))?;
        worker.finished(1, OpKind::Other);
    }
    worker.tally.add_message(&format!(
        "use single deletes: {}, standard deviation: {:.6}\n",
        u8::from(flags.use_single_deletes),
        flags.stddev
    ));
    Ok(())
}

fn delete(family: &ColumnFamily, key: &[u8], plan: &Plan) -> koeldb::Result<()> {
    family.delete_opt(key, &plan.write_options)
}

fn single_delete(family: &ColumnFamily, key: &[u8], plan: &Plan) -> koeldb::Result<()> {
    family.single_delete_opt(key, &plan.write_options)
}

#[expect(clippy::cast_precision_loss, reason = "a mean is an approximation")]
fn mean(entries: u64) -> f64 {
    entries as f64 / 2.0
}
