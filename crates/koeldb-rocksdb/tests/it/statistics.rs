//! The names of counters and distributions that the engine does not count.

use std::collections::BTreeSet;

use koeldb::statistics::{HistogramKind, Ticker as Counted};
use rocksdb::statistics::{Histogram, Ticker};

#[test]
fn the_names_that_nothing_counts_are_documented() {
    let tickers = Ticker::iter().map(|ticker| ticker.name());
    let histograms = Histogram::iter().map(|histogram| histogram.name());
    let uncounted: BTreeSet<&str> = tickers
        .chain(histograms)
        .filter(|name| Counted::from_name(name).is_none())
        .filter(|name| HistogramKind::from_name(name).is_none())
        .collect();
    let page = include_str!("../../../../docs/metrics.md");
    let (_, list) = page
        .split_once("## Names of RocksDB that nothing counts")
        .expect("the list");
    let documented: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
    // The page also has names of later releases than that of the crate.
    let missing: Vec<_> = uncounted.difference(&documented).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for name in documented {
        let is_counted = Counted::from_name(name).is_some();
        assert!(
            !is_counted && HistogramKind::from_name(name).is_none(),
            "{name}"
        );
    }
}
