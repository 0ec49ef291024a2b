//! Figures of a database in the text format of Prometheus (exposition format 0.0.4).
//!
//! `docs/metrics.md` lists the names. Gauges come from properties, counters and summaries from the
//! statistics of the options.

use std::fmt::Write as _;

use koeldb_base::Result;
use koeldb_base::stats::{HistogramKind, StatisticsSnapshot, Ticker};

use crate::api::db::Db;
use crate::engine::property::property_value;
use crate::state::column_family_data::ColumnFamilyData;

/// Properties of the database as a whole.
const OF_DATABASE: &[&str] = &[
    "actual-delayed-write-rate",
    "background-errors",
    "block-cache-capacity",
    "block-cache-pinned-usage",
    "block-cache-usage",
    "is-write-stopped",
    "min-log-number-to-keep",
    "num-running-compactions",
    "num-running-flushes",
    "num-snapshots",
    "num-unscheduled-compactions",
    "obsolete-sst-files-size",
    "oldest-snapshot-time",
];

/// Properties of each column family.
const OF_FAMILIES: &[&str] = &[
    "base-level",
    "compaction-pending",
    "cur-size-all-mem-tables",
    "estimate-live-data-size",
    "estimate-num-keys",
    "estimate-pending-compaction-bytes",
    "estimate-table-readers-mem",
    "live-sst-files-size",
    "mem-table-flush-pending",
    "num-entries-active-mem-table",
    "num-immutable-mem-table",
    "num-live-versions",
    "total-sst-files-size",
];

const QUANTILES: [f64; 4] = [0.5, 0.95, 0.99, 1.0];

/// Converts the RocksDB name of a ticker, histogram or property to a metric name, `koeldb_...`.
fn metric(name: &str) -> String {
    let name = name
        .strip_prefix("rocksdb.")
        .or(name.strip_prefix("koeldb."))
        .unwrap_or(name);
    format!("koeldb_{}", name.replace(['.', '-'], "_"))
}

/// Escapes backslashes, quotes and newlines in the value of a metric label.
fn label(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

impl Db {
    /// Returns the properties and statistics of the database in the text format of Prometheus.
    ///
    /// Gauges are properties of the database, and of each column family with its name as the label
    /// `cf`. If the options have statistics, each ticker is a counter with the suffix `_total` and
    /// each histogram a summary; all are of one snapshot. `docs/metrics.md` lists the names.
    ///
    /// # Errors
    /// If a table must be opened and that fails.
    pub fn prometheus_text(&self) -> Result<String> {
        let mut text = String::new();
        for name in OF_DATABASE {
            let value = self.property_int_value(&format!("rocksdb.{name}"))?;
            if let Some(value) = value {
                let metric = metric(name);
                let _ = writeln!(text, "# TYPE {metric} gauge\n{metric} {value}");
            }
        }
        let inner = self.inner();
        let families = inner.families.all();
        let number = |family: &ColumnFamilyData, name: &str| -> Result<Option<u64>> {
            let value = property_value(&inner.commit, &inner.reads, family, name)?;
            Ok(value.and_then(|text| text.parse().ok()))
        };
        for name in OF_FAMILIES {
            let metric = metric(name);
            let _ = writeln!(text, "# TYPE {metric} gauge");
            for family in &families {
                let value = number(family, &format!("rocksdb.{name}"))?;
                if let Some(value) = value {
                    let cf = label(&family.name);
                    let _ = writeln!(text, "{metric}{{cf=\"{cf}\"}} {value}");
                }
            }
        }
        let files = "koeldb_num_files_at_level";
        let _ = writeln!(text, "# TYPE {files} gauge");
        for family in &families {
            let cf = label(&family.name);
            for level in 0.. {
                let name = format!("rocksdb.num-files-at-level{level}");
                let Some(value) = number(family, &name)? else {
                    break;
                };
                let _ = writeln!(text, "{files}{{cf=\"{cf}\",level=\"{level}\"}} {value}");
            }
        }
        if let Some(statistics) = &self.inner().context.statistics {
            statistics_text(&mut text, &statistics.snapshot());
        }
        Ok(text)
    }
}

/// Appends all tickers as counters and all histograms as summaries.
fn statistics_text(text: &mut String, snapshot: &StatisticsSnapshot) {
    for ticker in Ticker::all() {
        let metric = metric(ticker.name());
        let value = snapshot.ticker(ticker);
        let _ = writeln!(
            text,
            "# TYPE {metric}_total counter\n{metric}_total {value}"
        );
    }
    for kind in HistogramKind::all() {
        let metric = metric(kind.name());
        let data = snapshot.histogram(kind);
        let _ = writeln!(text, "# TYPE {metric} summary");
        for quantile in QUANTILES {
            let value = data.percentile(quantile * 100.0);
            let _ = writeln!(text, "{metric}{{quantile=\"{quantile}\"}} {value}");
        }
        let _ = writeln!(
            text,
            "{metric}_sum {}\n{metric}_count {}",
            data.sum, data.count
        );
    }
}
