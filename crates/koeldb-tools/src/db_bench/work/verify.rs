//! Benchmarks that compare what is read with what was written.

use koeldb::{ColumnFamily, DbCursor, ReadOptions, WriteBatch};

use super::scan::iterator_error;
use crate::db_bench::database::{self, Database, Databases};
use crate::db_bench::flags::Flags;
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

/// Runs `randomwithverify`: writes, deletes and reads three copies of each key, which must agree.
///
/// Of every hundred operations, first `readwritepercent` read, then others write, and at last
/// `deletepercent` delete.
pub(crate) fn random_with_verify(worker: &mut Worker<'_>) -> Outcome {
    let (plan, flags) = (worker.plan(), worker.flags());
    let distinct = u64::try_from(flags.numdistinct).unwrap_or(0).max(1);
    let total = plan.reads_and_writes;
    worker.announce(total);
    let mut key = plan.key_buffer_of(distinct);
    let mut values = plan.value_source();
    let mut weights = [0; 3];
    let mut done = [0_u64; 3];
    let mut found = 0_u64;
    for _ in 0..total {
        let database = worker.select();
        if weights == [0; 3] {
            let (reads, deletes) = (flags.readwritepercent, flags.deletepercent);
            weights = [reads, (100 - reads - deletes).max(0), deletes];
        }
        let key = key.key(worker.random.below(distinct));
        let kind = weights.iter().position(|&weight| weight > 0).unwrap_or(0);
        weights[kind] -= 1;
        done[kind] += 1;
        let mut batch = WriteBatch::new();
        match kind {
            0 => {
                found += u64::from(read_copies(database, key, &plan.read_options));
                worker.finished(1, OpKind::Read);
                continue;
            }
            1 => {
                let value = values.take();
                for copy in copies(key) {
                    batch.put(copy, value);
                }
            }
            _ => {
                for copy in copies(key) {
                    batch.delete(copy);
                }
            }
        }
        let written = database.db.write_opt(&batch, &plan.write_options);
        written.map_err(|error| Failure::of("write error", &error))?;
        worker.finished(1, [OpKind::Read, OpKind::Write, OpKind::Delete][kind]);
    }
    let [gets, puts, deletes] = done;
    worker.tally.add_message(&format!(
        "( get:{gets} put:{puts} del:{deletes} total:{total} found:{found})"
    ));
    worker.tally.facts.push(("found", found));
    Ok(())
}

/// Returns the keys of the three copies of `key`: with the suffix `0`, `1` or `2`.
fn copies(key: &[u8]) -> [Vec<u8>; 3] {
    [b'0', b'1', b'2'].map(|suffix| [key, &[suffix]].concat())
}

/// Reads and compares the copies of `key` at one snapshot; returns whether the last one exists.
///
/// The run continues after errors and differences, since more may follow and are of interest.
fn read_copies(database: &Database, key: &[u8], options: &ReadOptions) -> bool {
    let mut options = options.clone();
    options.set_snapshot(&database.db.snapshot());
    let values = copies(key).map(|copy| match database.db.get_opt(copy, &options) {
        Ok(value) => value.map(|value| value.to_vec()),
        Err(error) => {
            eprintln!("get error: {error}");
            None
        }
    });
    if values[0] != values[1] || values[1] != values[2] {
        let shown = values.each_ref().map(|value| {
            let bytes = value.as_deref().unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        });
        let key = String::from_utf8_lossy(key);
        eprintln!("inconsistent values for key {key}: {}", shown.join(", "));
    }
    values[2].is_some()
}

/// Runs `verify`: compares the first database with `--truth_db`, by gets and by full scans.
pub(crate) fn against_truth(flags: &Flags, databases: &Databases) -> Outcome {
    let truth = database::open_truth(flags)?;
    let family = databases.all()[0].default_family();
    let mut options = ReadOptions::new();
    options.set_total_order_seek(true);
    eprintln!("Verifying db >= truth_db with ::Get...");
    let mut expected = truth.cursor_opt(&options);
    let mut step = expected.seek_to_first();
    while step.map_err(|error| iterator_error(&error))? {
        if let Some((key, value)) = expected.entry() {
            let got = family.get_opt(key, &options);
            let got = got.map_err(|error| Failure::of("Get returned an error", &error))?;
            if got.as_deref() != Some(value) {
                return Err(differs("the value read", key));
            }
        }
        step = expected.next();
    }
    eprintln!("Verifying db == truth_db...");
    compare(family, &mut expected, &options)?;
    eprintln!("...Verified");
    Ok(())
}

/// Compares a full scan of `family` with the expected iterator, entry by entry.
fn compare(family: &ColumnFamily, expected: &mut DbCursor, options: &ReadOptions) -> Outcome {
    let mut cursor = family.cursor_opt(options);
    let mut step = (cursor.seek_to_first(), expected.seek_to_first());
    loop {
        let error = |error: koeldb::Error| iterator_error(&error);
        step.0.map_err(error)?;
        step.1.map_err(error)?;
        match (cursor.entry(), expected.entry()) {
            (None, None) => return Ok(()),
            (got, wanted) if got == wanted => {}
            (got, wanted) => {
                let (key, _) = got.or(wanted).unwrap_or_default();
                return Err(differs("the entry of a scan", key));
            }
        }
        step = (cursor.next(), expected.next());
    }
}

/// Creates the failure for a `key` at which the database differs from `--truth_db`.
fn differs(what: &str, key: &[u8]) -> Failure {
    let key = crate::text::hex(key);
    Failure::new(format!("verify: {what} differs from truth_db at key {key}"))
}
