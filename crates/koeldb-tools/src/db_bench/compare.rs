//! Comparison with another build of this program, or with RocksDB's `db_bench`.
//!
//! Both programs run the same benchmarks with the same flags and seed, each in a database of its
//! own. Their runs alternate, and each round is compared by itself: what else the machine does in a
//! round slows both down, so a ratio of two neighbouring runs varies less than a time.

use std::path::Path;
use std::process::{Command, Stdio};

use indicatif::ProgressBar;

use super::chart;
use super::flags::CommandLine;
use super::plan::{Failure, Outcome};
use crate::json::Json;
use crate::progress;

/// Flags that only the comparing program obeys.
const OWN: [&str; 6] = [
    "compare",
    "compare_rounds",
    "compare_chart",
    "json",
    "report",
    "db",
];

/// The times per operation of one benchmark in both programs, by round, in microseconds.
#[derive(Debug, Default, PartialEq)]
struct Times {
    name: String,
    ours: Vec<f64>,
    others: Vec<f64>,
}

/// The minimum, median and maximum of several measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Computes minimum, median and maximum of `figures`; `None` if there are none.
    fn of(figures: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread {
            min,
            median: f64::midpoint(low, high),
            max,
        })
    }
}

/// The result of one benchmark in a comparison: both programs' times and their ratio.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) ours: Spread,
    pub(super) other: Spread,
    /// The other program's time divided by ours.
    pub(super) ratio: Spread,
}

impl Times {
    /// Summarizes the rounds as a result row; `None` without rounds.
    fn row(self) -> Option<Row> {
        let ratios = self.ours.iter().zip(&self.others);
        Some(Row {
            ratio: Spread::of(ratios.map(|(ours, other)| other / ours))?,
            ours: Spread::of(self.ours.into_iter())?,
            other: Spread::of(self.others.into_iter())?,
            name: self.name,
        })
    }
}

/// Compares KoelDB with another `db_bench`: runs both in turns, prints a table, writes the reports.
pub(super) fn run(line: &CommandLine, seed: u64) -> Outcome {
    let flags = &line.flags;
    let other = Path::new(&flags.compare);
    let this = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
    let rounds = usize::try_from(flags.compare_rounds).unwrap_or(0).max(1);
    let mut words = vec![format!("--seed={seed}")];
    for &name in line.given.iter().filter(|name| !OWN.contains(name)) {
        words.push(format!("--{name}={}", flags.show(name)));
    }
    let spinner = progress::spinner("compare");
    let mut times: Vec<Times> = Vec::new();
    for round in 0..rounds {
        // Each program goes first in every second round.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut results = [Vec::new(), Vec::new()];
        for which in order {
            let (program, name) = [(this.as_path(), "koeldb"), (other, "other")][which];
            let db = format!("--db={}/{name}", flags.db);
            spinner.set_message(format!("round {} of {rounds}: {name}", round + 1));
            results[which] = measure(program, &words, &db, &spinner)?;
        }
        let [ours, others] = results;
        add_round(&mut times, &ours, &others);
    }
    spinner.finish_and_clear();
    let rows: Vec<Row> = times.into_iter().filter_map(Times::row).collect();
    if rows.is_empty() {
        return Err(Failure::new(
            "no benchmark printed a time in both programs: is there nothing to compare?",
        ));
    }
    print!("{}", table(&rows, rounds));
    if !flags.compare_chart.is_empty() {
        let title = format!(
            "{} beside KoelDB: time of an operation divided by KoelDB's",
            other.file_name().unwrap_or_default().display()
        );
        write(&flags.compare_chart, &chart::ratios(&title, &rows))?;
    }
    if !flags.json.is_empty() {
        write(&flags.json, &(json(&rows, rounds, &words) + "\n"))?;
    }
    Ok(())
}

/// Writes a report file.
#[expect(
    clippy::disallowed_methods,
    reason = "a report, not a file of a database"
)]
fn write(path: &str, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|error| Failure::new(format!("{path}: {error}")))
}

/// Runs a benchmark program and returns the names and times per operation of its result lines.
fn measure(
    program: &Path,
    words: &[String],
    db: &str,
    spinner: &ProgressBar,
) -> Outcome<Vec<(String, f64)>> {
    let output = Command::new(program)
        .args(words)
        .arg(db)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| Failure::new(format!("{}: {error}", program.display())))?;
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if !output.status.success() {
        return Err(Failure::new(format!(
            "{}: {}\n{errors}",
            program.display(),
            output.status
        )));
    }
    for notice in errors.lines().filter(|line| line.starts_with("Note: ")) {
        spinner.println(notice);
    }
    Ok(text.lines().filter_map(result).collect())
}

/// Parses a result line such as `fillseq      :       0.602 micros/op` into name and time.
fn result(line: &str) -> Option<(String, f64)> {
    let (name, rest) = line.split_once(" : ")?;
    let (time, _) = rest.split_once(" micros/op")?;
    let time: f64 = time.trim().parse().ok()?;
    (time > 0.0).then(|| (name.trim().to_owned(), time))
}

/// Appends one round's times to `times`, matching both programs' benchmarks by their position.
fn add_round(times: &mut Vec<Times>, ours: &[(String, f64)], others: &[(String, f64)]) {
    for (index, ((name, ours), (other_name, other))) in ours.iter().zip(others).enumerate() {
        if name != other_name {
            break;
        }
        if times.len() <= index {
            times.push(Times {
                name: name.clone(),
                ..Times::default()
            });
        }
        times[index].ours.push(*ours);
        times[index].others.push(*other);
    }
}

/// Formats the median times and the ratios of a comparison as a text table.
fn table(rows: &[Row], rounds: usize) -> String {
    let mut text = format!(
        "{:<24} {:>12} {:>12}   ratio: minimum, median, maximum of {rounds}\n",
        "us per operation", "KoelDB", "other"
    );
    for row in rows {
        let Spread { min, median, max } = row.ratio;
        text += &format!(
            "{:<24} {:>12.3} {:>12.3}   {min:.2} {median:.2} {max:.2}\n",
            row.name, row.ours.median, row.other.median
        );
    }
    text
}

/// Formats the command line and the results of the comparison as JSON.
fn json(rows: &[Row], rounds: usize, words: &[String]) -> String {
    let spread = |spread: Spread| {
        let mut json = Json::object();
        json.set("min", spread.min)
            .set("median", spread.median)
            .set("max", spread.max);
        json
    };
    let (mut flags, mut results) = (Json::array(), Json::array());
    for word in words {
        flags.push(word);
    }
    for row in rows {
        let mut result = Json::object();
        result
            .set("name", &row.name)
            .set("koeldb_micros", spread(row.ours))
            .set("other_micros", spread(row.other))
            .set("ratio", spread(row.ratio));
        results.push(result);
    }
    let mut json = Json::object();
    json.set("rounds", u64::try_from(rounds).unwrap_or(u64::MAX))
        .set("flags", flags)
        .set("results", results);
    json.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_compared_one_by_one() {
        let line = |text| result(text).expect("a result");
        let ours = [line("fillseq      :       2.000 micros/op 500000 ops/sec")];
        let slow = [line("fillseq      :       4.000 micros/op 250000 ops/sec")];
        let other = [line("fillseq      :       6.000 micros/op 166666 ops/sec")];
        let mut times = Vec::new();
        add_round(&mut times, &ours, &other);
        add_round(&mut times, &slow, &other);
        let row = times.pop().and_then(Times::row).expect("a row");
        assert_eq!(
            (row.ratio.min, row.ratio.median, row.ratio.max),
            (1.5, 2.25, 3.0)
        );
        assert_eq!(row.ours.median, 3.0);
        assert!(result("Keys:       16 bytes each").is_none());
    }
}
