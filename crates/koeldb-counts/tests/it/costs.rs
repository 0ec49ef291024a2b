//! The costs of an operation, from the events of its threads.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use koeldb_counts::record::{Event, Record};

/// The names of the columns.
pub(crate) const COLUMNS: [&str; 9] = [
    "RMWs",
    "shared",
    "fences",
    "locks",
    "waited for",
    "parks",
    "wakes",
    "yields",
    "allocations",
];

/// Counts by column.
pub(crate) type Costs = [usize; COLUMNS.len()];

/// The addresses that at least two of `threads` change.
pub(crate) fn shared_addresses<'r>(
    threads: impl IntoIterator<Item = &'r [Record]>,
) -> BTreeSet<usize> {
    let mut threads_of = HashMap::new();
    for records in threads {
        let changed: BTreeSet<usize> = records.iter().filter_map(changed_by).collect();
        for address in changed {
            *threads_of.entry(address).or_insert(0) += 1;
        }
    }
    let shared = threads_of.into_iter().filter(|(_, threads)| *threads > 1);
    shared.map(|(address, _)| address).collect()
}

fn changed_by(record: &Record) -> Option<usize> {
    match record.event {
        Event::Rmw(address) => Some(address),
        _ => None,
    }
}

/// Counts events.
pub(crate) fn costs(records: &[Record], shared: &BTreeSet<usize>) -> Costs {
    let mut costs = Costs::default();
    for record in records {
        let column = match record.event {
            Event::Rmw(_) => 0,
            Event::Fence => 2,
            Event::Lock => 3,
            Event::LockWait => 4,
            Event::Park => 5,
            Event::Wake => 6,
            Event::Yield => 7,
            Event::Allocation => 8,
        };
        costs[column] += 1;
        costs[1] +=
            usize::from(changed_by(record).is_some_and(|address| shared.contains(&address)));
    }
    costs
}

/// Returns the lower quartile of each column.
///
/// A step of some rounds (a new block of an arena, a full page of an index) is not in it.
pub(crate) fn lower_quartile(rounds: &[Costs]) -> Costs {
    std::array::from_fn(|column| {
        let mut counts: Vec<usize> = rounds.iter().map(|costs| costs[column]).collect();
        counts.sort_unstable();
        counts[counts.len() / 4]
    })
}

/// Lists the origins of events, as an explanation of a count.
pub(crate) fn explain(records: &[Record], shared: &BTreeSet<usize>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for record in records {
        let event = match record.event {
            Event::Rmw(address) if shared.contains(&address) => "shared RMW".to_owned(),
            Event::Rmw(_) => "RMW".to_owned(),
            other => format!("{other:?}"),
        };
        *counts
            .entry(format!("{event:11} {}", record.site))
            .or_default() += 1;
    }
    let mut text = String::new();
    for (origin, count) in counts {
        writeln!(text, "  {count:3} {origin}").unwrap();
    }
    text
}
