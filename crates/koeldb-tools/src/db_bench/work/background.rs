//! Work of the background thread, which runs beside the measured threads.

use super::scan::iterator_error;
use super::write::Tombstones;
use crate::db_bench::database::Database;
use crate::db_bench::keys::KeyBuffer;
use crate::db_bench::limit::Pacer;
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

/// Runs the background thread of the `*whilewriting` benchmarks: writes until the others end.
pub(crate) fn writer(worker: &mut Worker<'_>) -> Outcome {
    write_or_merge(worker, false)
}

/// Runs the background thread of the `*whilemerging` benchmarks: merges until the others end.
pub(crate) fn merger(worker: &mut Worker<'_>) -> Outcome {
    write_or_merge(worker, true)
}

/// Puts or merges random keys until the other threads are done; the result excludes this thread.
///
/// With `--finish_after_writes`, it ends after `writes` entries instead.
fn write_or_merge(worker: &mut Worker<'_>, merge: bool) -> Outcome {
    worker.tally.excluded = true;
    let (plan, flags) = (worker.plan(), worker.flags());
    let mut values = plan.value_source();
    let pacer = Pacer::new(flags.benchmark_write_rate_limit);
    let key_space = match u64::try_from(flags.bgwriter_num) {
        Ok(count) if count > 0 => count,
        _ => plan.key_count,
    };
    let layout_count = match plan.existing_keys {
        Some(_) => plan.key_count,
        None => key_space,
    };
    let mut key = plan.key_buffer_of(layout_count);
    let mut end_key = plan.key_buffer();
    let mut tombstones = Tombstones::new(worker);
    let mut written = 0;
    let mut told = false;
    loop {
        let database = worker.select();
        if flags.finish_after_writes && written == plan.writes {
            eprintln!("Exiting the writer after {written} writes...");
            break;
        }
        if worker.others_are_done() {
            if !flags.finish_after_writes {
                break;
            }
            if !std::mem::replace(&mut told, true) {
                let left = plan.writes.saturating_sub(written);
                eprintln!("Reads are finished. Have {left} more writes to do");
            }
        }
        let bytes = key.key(worker.random.below(key_space));
        let value = values.take();
        let family = database.default_family();
        let result = if merge {
            family.merge_opt(bytes, value, &plan.write_options)
        } else {
            family.put_opt(bytes, value, &plan.write_options)
        };
        result.map_err(|error| Failure::of("put or merge error", &error))?;
        written += 1;
        let entry_bytes = u64::try_from(bytes.len() + value.len()).unwrap_or(0);
        worker.finished(1, OpKind::Write);
        if let Some(pacer) = &pacer {
            pacer.request(entry_bytes);
        }
        if tombstones.is_due(written) {
            tombstones.count += 1;
            let begin = worker.random.below(plan.key_count);
            delete_range(worker, database, &tombstones, begin, &mut key, &mut end_key)?;
            worker.finished(1, OpKind::Write);
        }
    }
    tombstones.print_count();
    Ok(())
}

/// Deletes a range of keys from number `begin`, by a range deletion or one by one.
fn delete_range(
    worker: &Worker<'_>,
    database: &Database,
    tombstones: &Tombstones,
    begin: u64,
    key: &mut KeyBuffer,
    end_key: &mut KeyBuffer,
) -> Outcome {
    let options = &worker.plan().write_options;
    let family = database.default_family();
    let end = begin + tombstones.width;
    if !tombstones.expand {
        let result = family.delete_range_opt(key.key(begin), end_key.key(end), options);
        return result.map_err(|error| Failure::of("deleterange error", &error));
    }
    for number in begin..end {
        let result = family.delete_opt(key.key(number), options);
        result.map_err(|error| Failure::of("delete error", &error))?;
    }
    Ok(())
}

/// Runs the background thread of `readwhilescanning`: scans all keys repeatedly up to its limit.
pub(crate) fn scanner(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    if worker.databases().are_several() {
        return Err(Failure::new("Not supporting multiple DBs."));
    }
    eprintln!("num reads to do {}", plan.reads);
    let database = &worker.databases().all()[0];
    let mut options = plan.read_options.clone();
    if worker.flags().explicit_snapshot {
        options.set_snapshot(&database.db.snapshot());
    }
    let mut cursor = database.default_family().cursor_opt(&options);
    let mut limit = worker.limit(plan.duration, plan.reads);
    let mut valid = false;
    while !limit.done(1) {
        let step = if valid {
            cursor.next()
        } else {
            cursor.seek_to_first()
        };
        valid = step.map_err(|error| iterator_error(&error))?;
        worker.finished(1, OpKind::Seek);
    }
    Ok(())
}
