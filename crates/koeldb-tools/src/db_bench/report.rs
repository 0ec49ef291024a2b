//! The result of a benchmark: the merged counts of its threads, as text and as JSON.
//!
//! The text consists of the lines of RocksDB's program, including those for repeated runs.

use std::fmt::Write as _;
use std::time::Duration;

use koeldb_fs::ProcessUsage;

use super::tally::{Latencies, OpKind, Tally};
use crate::json::Json;

/// The result of one run of a benchmark: the merged counts and latencies of its threads.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    threads: usize,
    start: Duration,
    finish: Duration,
    /// The sum over the counted threads.
    thread_time: Duration,
    done: u64,
    bytes: u64,
    message: String,
    facts: Vec<(&'static str, u64)>,
    latencies: [Option<Box<Latencies>>; OpKind::ALL.len()],
    /// The resources that the process used meanwhile; `None` where the system does not tell.
    usage: Option<ProcessUsage>,
}

impl Outcome {
    /// Merges the counts of all threads, without excluded background threads.
    ///
    /// `merged_at` is a time after the end of the last thread, including excluded ones: the end of
    /// the elapsed time, as in RocksDB's program.
    pub(crate) fn new(name: &str, tallies: &[Tally], merged_at: Duration) -> Self {
        let mut outcome = Outcome {
            name: name.to_owned(),
            threads: 0,
            start: merged_at,
            finish: merged_at,
            thread_time: Duration::ZERO,
            done: 0,
            bytes: 0,
            message: String::new(),
            facts: Vec::new(),
            latencies: Default::default(),
            usage: None,
        };
        for tally in tallies.iter().filter(|tally| !tally.excluded) {
            outcome.add(tally);
        }
        // A benchmark without counts has one operation.
        outcome.done = outcome.done.max(1);
        outcome
    }

    /// Returns the result with the process's resource use (processor time, context switches) added.
    #[must_use]
    pub(crate) fn with_usage(mut self, usage: Option<ProcessUsage>) -> Self {
        self.usage = usage;
        self
    }

    /// Adds the counts and latencies of one thread.
    fn add(&mut self, tally: &Tally) {
        self.threads += 1;
        self.start = self.start.min(tally.start);
        self.finish = self.finish.max(tally.finish);
        self.thread_time += tally.finish.saturating_sub(tally.start);
        self.done += tally.done;
        self.bytes += tally.bytes;
        if self.message.is_empty() {
            self.message.clone_from(&tally.message);
        }
        for &(name, count) in &tally.facts {
            match self.facts.iter_mut().find(|fact| fact.0 == name) {
                Some(fact) => fact.1 += count,
                None => self.facts.push((name, count)),
            }
        }
        for (sum, latencies) in self.latencies.iter_mut().zip(&tally.latencies) {
            match (sum, latencies) {
                (Some(sum), Some(latencies)) => sum.merge(latencies),
                (sum @ None, Some(latencies)) => *sum = Some(latencies.clone()),
                (_, None) => {}
            }
        }
    }

    /// Returns the seconds from the first start to the last finish of a thread, at least 1 µs.
    fn elapsed(&self) -> f64 {
        // Whole microseconds, like RocksDB's clock, and at least one.
        let elapsed = self.finish.saturating_sub(self.start);
        elapsed.max(Duration::from_micros(1)).as_secs_f64()
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate is an approximation")]
    pub(crate) fn ops_per_second(&self) -> f64 {
        self.done as f64 / self.elapsed()
    }

    /// Returns the throughput in MiB per second; `None` if the benchmark counts no bytes.
    #[expect(clippy::cast_precision_loss, reason = "a rate is an approximation")]
    pub(crate) fn mib_per_second(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.bytes as f64 / 1_048_576.0 / self.elapsed())
    }

    /// Returns the mean time per operation in one thread, in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "a mean is an approximation")]
    pub(crate) fn micros_per_op(&self) -> f64 {
        self.thread_time.as_secs_f64() * 1e6 / self.done as f64
    }

    /// Returns processor time in microseconds and context switches per operation, if measured.
    #[expect(clippy::cast_precision_loss, reason = "a mean is an approximation")]
    fn usage_per_op(&self) -> Option<(f64, f64)> {
        let usage = self.usage?;
        let operations = self.done as f64;
        Some((
            usage.processor.as_secs_f64() * 1e6 / operations,
            usage.switches as f64 / operations,
        ))
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    pub(crate) fn operations(&self) -> u64 {
        self.done
    }

    /// Returns p50, p99, p99.9 and maximum latency in microseconds for each kind of operation.
    ///
    /// Empty unless nanoseconds were recorded.
    #[expect(clippy::cast_precision_loss, reason = "latencies are approximations")]
    pub(crate) fn percentiles(&self) -> Vec<(&'static str, [f64; 4])> {
        let kinds = OpKind::ALL.iter().zip(&self.latencies);
        let recorded = kinds.filter_map(|(kind, of_kind)| {
            let nanos = of_kind.as_ref()?.nanos.as_ref()?;
            let at = |percent| nanos.value_at_percentile(percent);
            let figures = [at(50.0), at(99.0), at(99.9), nanos.max()];
            Some((kind.name(), figures.map(|nanos| nanos as f64 / 1000.0)))
        });
        recorded.collect()
    }

    /// Formats result line and histograms in RocksDB's format, with the resource use between them.
    pub(crate) fn text(&self) -> String {
        let mut extra = String::new();
        if let Some(rate) = self.mib_per_second() {
            let _ = write!(extra, " {rate:6.1} MB/s");
        }
        if !self.message.is_empty() {
            extra.push(' ');
            extra.push_str(&self.message);
        }
        let mut text = format!(
            "{:<12} : {:11.3} micros/op {} ops/sec {:.3} seconds {} operations;{extra}\n",
            self.name,
            self.micros_per_op(),
            whole(self.ops_per_second()),
            self.elapsed(),
            self.done,
        );
        if let Some((micros, switches)) = self.usage_per_op() {
            let _ = writeln!(
                text,
                "Process: {micros:.3} processor micros/op, {switches:.4} context switches/op"
            );
        }
        for (kind, latencies) in OpKind::ALL.iter().zip(&self.latencies) {
            if let Some(latencies) = latencies {
                let micros = &latencies.micros;
                let _ = writeln!(text, "Microseconds per {}:\n{micros}", kind.name());
            }
        }
        text
    }

    /// Returns the result as an object of the JSON report.
    pub(crate) fn json(&self, run: u32) -> Json {
        let mut json = Json::object();
        json.set("name", &self.name)
            .set("run", run)
            .set("threads", count(self.threads))
            .set("operations", self.done)
            .set("seconds", self.elapsed())
            .set("micros_per_op", self.micros_per_op())
            .set("ops_per_sec", self.ops_per_second());
        if let Some(rate) = self.mib_per_second() {
            json.set("bytes", self.bytes).set("mb_per_sec", rate);
        }
        if let Some((micros, switches)) = self.usage_per_op() {
            json.set("processor_micros_per_op", micros)
                .set("context_switches_per_op", switches);
        }
        if !self.message.is_empty() {
            json.set("message", self.message.trim_end());
        }
        for &(name, fact) in &self.facts {
            json.set(name, fact);
        }
        let mut latencies = Json::object();
        for (kind, of_kind) in OpKind::ALL.iter().zip(&self.latencies) {
            if let Some(nanos) = of_kind.as_ref().and_then(|of_kind| of_kind.nanos.as_ref()) {
                latencies.set(kind.name(), latency_json(nanos));
            }
        }
        if self.latencies.iter().any(Option::is_some) {
            json.set("latency_nanos", latencies);
        }
        json
    }
}

/// Returns the latency statistics and percentiles, in nanoseconds, as JSON.
fn latency_json(nanos: &hdrhistogram::Histogram<u64>) -> Json {
    let mut json = Json::object();
    json.set("count", nanos.len())
        .set("min", nanos.min())
        .set("mean", nanos.mean())
        .set("stdev", nanos.stdev());
    let percentiles = [
        ("p50", 50.0),
        ("p75", 75.0),
        ("p90", 90.0),
        ("p95", 95.0),
        ("p99", 99.0),
        ("p99.9", 99.9),
        ("p99.99", 99.99),
        ("p99.999", 99.999),
    ];
    for (name, percent) in percentiles {
        json.set(name, nanos.value_at_percentile(percent));
    }
    json.set("max", nanos.max());
    json
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Truncates a floating-point number to an integer.
#[expect(
    clippy::cast_possible_truncation,
    reason = "RocksDB cuts rates to integers"
)]
fn whole(number: f64) -> i64 {
    number as i64
}

/// The throughputs of repeated runs of one benchmark.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    ops: Vec<f64>,
    mib: Vec<f64>,
}

impl Repeats {
    /// Adds the throughput of one run.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.ops.push(outcome.ops_per_second());
        self.mib.extend(outcome.mib_per_second());
    }

    /// Returns whether every run counted bytes.
    fn has_bytes(&self) -> bool {
        self.mib.len() == self.ops.len()
    }

    /// Formats the mean throughput so far as the line after each run; empty for the first run.
    ///
    /// It shows an average, or with `interval` a confidence interval.
    pub(crate) fn line(&self, name: &str, interval: bool) -> String {
        let runs = self.ops.len();
        if runs < 2 {
            return String::new();
        }
        let (average, error) = (whole(mean(&self.ops)), whole(confidence(&self.ops)));
        let (mib, mib_error) = (mean(&self.mib), confidence(&self.mib));
        let mut line = if interval {
            let (low, high) = (average - error, average + error);
            format!("{name} [CI95 {runs} runs] : ({low}, {high}) ops/sec")
        } else {
            format!("{name} [AVG {runs} runs] : {average} (\u{b1} {error}) ops/sec")
        };
        if self.has_bytes() {
            // Writing to a string cannot fail.
            let _ = if interval {
                let (low, high) = (mib - mib_error, mib + mib_error);
                write!(line, "; ({low:.1}, {high:.1}) MB/sec")
            } else {
                write!(line, "; {mib:6.1} (\u{b1} {mib_error:.1}) MB/sec")
            };
        }
        line.push('\n');
        line
    }

    /// Formats mean and median throughput as the lines after the last run; empty for one run.
    pub(crate) fn last_lines(&self, name: &str) -> String {
        let runs = self.ops.len();
        if runs < 2 {
            return String::new();
        }
        let average = mean(&self.ops);
        let millis = if average > 0.0 { 1000.0 / average } else { 0.0 };
        let mut first = format!(
            "\n{name} [AVG    {runs} runs] : {} (\u{b1} {}) ops/sec; {millis:.3} ms/op",
            whole(average),
            whole(confidence(&self.ops))
        );
        let mut second = format!(
            "{name} [MEDIAN {runs} runs] : {} ops/sec",
            whole(median(&self.ops))
        );
        if self.has_bytes() {
            // Writing to a string cannot fail.
            let _ = write!(
                first,
                "; {:6.1} (\u{b1} {:.1}) MB/sec",
                mean(&self.mib),
                confidence(&self.mib)
            );
            let _ = write!(second, "; {:6.1} MB/sec", median(&self.mib));
        }
        format!("{first}\n{second}\n")
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of runs")]
fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// Returns half the width of the 95 % confidence interval of the mean of normal samples.
#[expect(clippy::cast_precision_loss, reason = "a count of runs")]
fn confidence(samples: &[f64]) -> f64 {
    let (count, mean) = (samples.len() as f64, mean(samples));
    let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
    1.959_964 * (squares / (count - 1.0)).sqrt() / count.sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::tally::Watch;
    use super::*;

    fn tally(start: u64, finish: u64, done: u64, bytes: u64, message: &str) -> Tally {
        let mut tally = Tally::new(0, &Watch::default());
        tally.start = Duration::from_micros(start);
        tally.finish = Duration::from_micros(finish);
        tally.done = done;
        tally.bytes = bytes;
        tally.add_message(message);
        tally
    }

    #[test]
    fn the_line_is_rocksdbs() {
        let tallies = [tally(0, 45_120, 20_000, 2_320_000, "")];
        let outcome = Outcome::new("fillrandom", &tallies, Duration::from_micros(45_120));
        assert_eq!(
            outcome.text(),
            "fillrandom   :       2.256 micros/op 443262 ops/sec 0.045 seconds 20000 operations;   49.0 MB/s\n"
        );
        let tallies = [tally(0, 8_175, 0, 0, "")];
        let outcome = Outcome::new("compact", &tallies, Duration::from_micros(8_175));
        assert_eq!(
            outcome.text(),
            "compact      :    8175.000 micros/op 122 ops/sec 0.008 seconds 1 operations;\n"
        );
        let tallies = [tally(0, 1000, 10, 0, "(5 of 10 found)\n")];
        let outcome = Outcome::new("readrandom", &tallies, Duration::from_micros(1000));
        assert!(
            outcome
                .text()
                .ends_with(" 10 operations; (5 of 10 found)\n\n")
        );
    }

    #[test]
    fn times_add_up_while_elapsed_time_spans_all_threads() {
        let mut writer = tally(0, 9_000, 77, 0, "left out");
        writer.excluded = true;
        let tallies = [
            writer,
            tally(1_000, 5_000, 10, 0, "first"),
            tally(2_000, 6_000, 10, 0, "second"),
        ];
        let outcome = Outcome::new("x", &tallies, Duration::from_micros(9_000));
        assert_eq!(outcome.done, 20);
        assert_eq!(outcome.micros_per_op(), 400.0);
        assert_eq!(outcome.ops_per_second(), 2_500.0);
        assert_eq!(outcome.message, "first");
    }

    #[test]
    fn usage_of_the_process_is_told_by_operation_where_it_is_known() {
        let tallies = [tally(0, 1000, 10, 0, "(5 of 10 found)\n")];
        let outcome = Outcome::new("readrandom", &tallies, Duration::from_micros(1000));
        let unknown = outcome.clone().with_usage(None);
        assert_eq!(unknown.text().matches('\n').count(), 2);
        assert!(!unknown.json(1).finish().contains("processor"));
        let known = outcome.with_usage(Some(ProcessUsage {
            processor: Duration::from_micros(25),
            switches: 3,
        }));
        let line = "\nProcess: 2.500 processor micros/op, 0.3000 context switches/op\n";
        assert!(known.text().ends_with(line), "{}", known.text());
        let json = known.json(1).finish();
        assert!(json.contains("\"processor_micros_per_op\":2.5"), "{json}");
        assert!(json.contains("\"context_switches_per_op\":0.3"), "{json}");
    }

    #[test]
    fn repeated_runs_have_lines_of_their_own() {
        let mut repeats = Repeats::default();
        for micros in [1_000, 2_000] {
            let tallies = [tally(0, micros, 10, 1_048_576, "")];
            repeats.add(&Outcome::new(
                "fillseq",
                &tallies,
                Duration::from_micros(micros),
            ));
            assert_eq!(repeats.line("fillseq", false).is_empty(), micros == 1_000);
        }
        assert_eq!(
            repeats.line("fillseq", false),
            "fillseq [AVG 2 runs] : 7500 (\u{b1} 4899) ops/sec;  750.0 (\u{b1} 490.0) MB/sec\n"
        );
        assert_eq!(
            repeats.line("fillseq", true),
            "fillseq [CI95 2 runs] : (2601, 12399) ops/sec; (260.0, 1240.0) MB/sec\n"
        );
        assert_eq!(
            repeats.last_lines("fillseq"),
            "\nfillseq [AVG    2 runs] : 7500 (\u{b1} 4899) ops/sec; 0.133 ms/op;  750.0 (\u{b1} 490.0) MB/sec\n\
             fillseq [MEDIAN 2 runs] : 7500 ops/sec;  750.0 MB/sec\n"
        );
    }
}
