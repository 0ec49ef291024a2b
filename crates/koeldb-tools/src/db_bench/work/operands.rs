//! Merge operands: reads that return them unmerged, beside reads that merge them.

use koeldb::ColumnFamily;
use koeldb_fs::clock::{Clock, SystemClock};

use super::read::{add_bytes, note_found};
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

fn read_error(error: &koeldb::Error) -> Failure {
    Failure::of("GetMergeOperands returned an error", error)
}

/// Runs `readrandomoperands`: reads the unmerged operands of random keys (`GetMergeOperands`).
pub(crate) fn read_random(worker: &mut Worker<'_>) -> Outcome {
    let plan = worker.plan();
    let mut limit = worker.limit(plan.duration, plan.reads);
    let mut key = plan.key_buffer();
    let numbers = plan.read_numbers();
    let (mut read, mut found, mut bytes) = (0, 0, 0);
    while !limit.done(1) {
        let database = worker.select();
        let number = numbers.take(&mut worker.random);
        let key = key.key(number);
        let operands = database
            .family(number)
            .get_merge_operands_opt(key, &plan.read_options)
            .map_err(|error| read_error(&error))?;
        if !operands.is_empty() {
            found += 1;
            let value_bytes = operands.iter().map(|operand| operand.len()).sum();
            add_bytes(&mut bytes, key.len(), value_bytes);
        }
        read += 1;
        worker.pace_reads(read);
        worker.finished(1, OpKind::Read);
    }
    worker.tally.bytes += bytes;
    note_found(worker, found, read, "\n");
    Ok(())
}

/// The number of list elements; every hundredth ends an operand.
const ELEMENTS: u32 = 100_000;
const ELEMENTS_PER_OPERAND: u32 = 100;
const KEY: &str = "my_key";

/// Runs `getmergeoperands`: merges sorted lists into a key, then searches by `Get` and operands.
///
/// Needs an operator that joins lists with commas, such as `stringappend`.
pub(crate) fn search_lists(worker: &mut Worker<'_>) -> Outcome {
    let family = worker.select().default_family();
    let mut operand = String::new();
    for element in 1..ELEMENTS {
        if element % ELEMENTS_PER_OPERAND == 0 {
            let merged = family.merge(KEY, operand.trim_end_matches(','));
            merged.map_err(|error| Failure::of("merge error", &error))?;
            operand.clear();
        } else {
            operand.push_str(&format!("{element},"));
        }
    }
    for (title, what, search) in [
        (
            "Get API call",
            "Get",
            search_merged as fn(&ColumnFamily) -> _,
        ),
        (
            "GetMergeOperands API",
            "Get Merge operands",
            search_operands,
        ),
    ] {
        println!("--- {title} ---");
        let begun = SystemClock.now();
        let (found, sample): (bool, String) = search(family)?;
        let took = SystemClock.now().saturating_sub(begun).as_secs_f64();
        println!("Found key? {}\n{what}: {took:.9} seconds", u8::from(found));
        println!("Sample data: {sample}");
    }
    Ok(())
}

/// Searches the merged list that `Get` returns; returns whether 1 was found, and a sample.
fn search_merged(family: &ColumnFamily) -> Outcome<(bool, String)> {
    let value = family.get(KEY);
    let value = value.map_err(|error| Failure::of("Get returned an error", &error))?;
    let list = value.as_deref().unwrap_or_default();
    Ok((contains(list, 1), sample(list)))
}

/// Searches each list that `GetMergeOperands` returns; returns whether 1 was found, and a sample.
fn search_operands(family: &ColumnFamily) -> Outcome<(bool, String)> {
    let operands = family.get_merge_operands(KEY);
    let operands = operands.map_err(|error| read_error(&error))?;
    let first = operands.first().map(|list| sample(list));
    Ok((
        operands.iter().any(|list| contains(list, 1)),
        format!("{} of {} lists", first.unwrap_or_default(), operands.len()),
    ))
}

/// Returns the first 10 bytes of a list as text.
fn sample(list: &[u8]) -> String {
    String::from_utf8_lossy(&list[..list.len().min(10)]).into_owned()
}

/// Returns whether a sorted, comma-separated list of numbers contains `wanted` (binary search).
fn contains(list: &[u8], wanted: u32) -> bool {
    let numbers = list.split(|&byte| byte == b',');
    let parsed = numbers.filter_map(|number| std::str::from_utf8(number).ok()?.parse().ok());
    let numbers: Vec<u32> = parsed.collect();
    numbers.binary_search(&wanted).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_lists() {
        assert!(contains(b"1,2,30", 30) && !contains(b"1,2,30", 3) && !contains(b"", 1));
    }
}
