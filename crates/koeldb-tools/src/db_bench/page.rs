//! The report of a run as one HTML page, without scripts and without files beside it.

use std::fmt::Write as _;
use std::time::Duration;

use super::header::Environment;
use super::report::Outcome as Report;
use crate::text::escape_xml;

/// The operations of an interval, by the time of its end.
pub(super) type Sample = (Duration, u64);

/// The report of one run of a benchmark, with its operation counts over time.
pub(super) struct Run {
    pub(super) report: Report,
    pub(super) samples: Vec<Sample>,
}

/// The contents of the HTML report: environment, command line, runs and engine statistics.
pub(super) struct Page<'a> {
    pub(super) environment: &'a Environment,
    pub(super) command: String,
    pub(super) runs: &'a [Run],
    /// Headings and texts of the engine at the end of the run.
    pub(super) engine: Vec<(&'static str, String)>,
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#222;--soft:#666;--line:#ddd;--page:#fff;--a:#2166ac;--b:#b35806}\
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--soft:#999;--line:#3a3a3a;--page:#161616;--a:#67a9cf;--b:#f1a340}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:66rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
td,th{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}\
td:first-child,th:first-child{text-align:left}\
pre{overflow-x:auto;background:color-mix(in srgb,var(--ink) 6%,transparent);padding:.7rem;border-radius:4px;font-size:13px}\
svg{width:100%;height:auto;display:block}text{font:13px system-ui,sans-serif;fill:var(--soft)}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,29rem),1fr));gap:0 1.5rem}\
.command{white-space:normal}.command span{display:inline-block;max-width:100%;overflow-wrap:anywhere}\
.axis{stroke:var(--line)}.ops{stroke:var(--a);fill:none;stroke-width:1.8}.us{stroke:var(--b);fill:none;stroke-width:1.8}\
.ops-ink{fill:var(--a)}.us-ink{fill:var(--b)}p{color:var(--soft)}";

impl Page<'_> {
    /// Renders the report as an HTML document.
    pub(super) fn html(&self) -> String {
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <link rel=\"icon\" href=\"data:,\"><title>db_bench</title><style>{STYLE}</style></head><body>\n\
             <h1>db_bench</h1>\n<p>KoelDB {}, {}, {} &times; {}</p>\n<pre class=\"command\">{}</pre>\n",
            env!("CARGO_PKG_VERSION"),
            escape_xml(&self.environment.date),
            self.environment.cpu_count,
            escape_xml(&self.environment.cpu),
            command(&self.command)
        );
        out.push_str(&self.table());
        out.push_str("<div class=\"charts\">\n");
        for run in self.runs.iter().filter(|run| has_course(run)) {
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "<section><h2>{}</h2>\n{}</section>",
                escape_xml(&run.report.name),
                chart(run)
            );
        }
        out.push_str("</div>\n");
        for (title, text) in &self.engine {
            let _ = writeln!(
                out,
                "<h2>{title}</h2>\n<pre>{}</pre>",
                escape_xml(text.trim_end())
            );
        }
        out + "</body></html>\n"
    }

    /// Renders the HTML table of the runs.
    fn table(&self) -> String {
        let mut out = String::from(
            "<h2>Results</h2>\n<div class=\"wide\"><table><tr><th>benchmark<th>threads<th>operations<th>ops/s\
             <th>MiB/s<th>mean, us<th>latency of<th>p50, us<th>p99, us<th>p99.9, us<th>max, us</tr>\n",
        );
        for run in self.runs {
            let report = &run.report;
            let rate = report
                .mib_per_second()
                .map_or(String::new(), |rate| format!("{rate:.1}"));
            let head = format!(
                "<td>{}<td>{}<td>{}<td>{:.0}<td>{rate}<td>{:.3}",
                escape_xml(&report.name),
                report.threads(),
                report.operations(),
                report.ops_per_second(),
                report.micros_per_op()
            );
            let mut rows = report.percentiles();
            if rows.is_empty() {
                rows.push(("", [f64::NAN; 4]));
            }
            for (index, (kind, micros)) in rows.into_iter().enumerate() {
                let head = if index == 0 {
                    &head
                } else {
                    "<td><td><td><td><td><td>"
                };
                let cells: String = micros
                    .map(|micros| match micros.is_nan() {
                        true => "<td>".to_owned(),
                        false => format!("<td>{micros:.2}"),
                    })
                    .concat();
                let _ = writeln!(out, "<tr>{head}<td>{kind}{cells}</tr>");
            }
        }
        out + "</table></div>\n"
    }
}

/// Renders a command line as HTML; a word is broken only if it does not fit on a line.
fn command(line: &str) -> String {
    let words = line.split(' ').map(escape_xml);
    let words: Vec<_> = words.map(|word| format!("<span>{word}</span>")).collect();
    words.join(" ")
}

/// Returns whether a run has several samples, and operations in any, to draw a chart of.
fn has_course(run: &Run) -> bool {
    run.samples.len() > 1 && run.samples.iter().any(|(_, ops)| *ops > 0)
}

/// A chart is drawn in about this many pixels, on a telephone in somewhat fewer.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 52.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 30.0;

/// Draws an SVG chart of a run: operations per second and mean latency over time.
#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn chart(run: &Run) -> String {
    let mut points = Vec::new();
    let mut before = 0.0;
    for (elapsed, ops) in &run.samples {
        let seconds = elapsed.as_secs_f64();
        let step = (seconds - before).max(1e-9);
        let (ops, threads) = (*ops as f64, run.report.threads() as f64);
        let micros = if ops > 0.0 {
            step * 1e6 * threads / ops
        } else {
            0.0
        };
        points.push((seconds, ops / step, micros));
        before = seconds;
    }
    let end = before.max(1e-9);
    let largest = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(of).fold(1e-9, f64::max);
    let (ops_max, us_max) = (largest(|point| point.1), largest(|point| point.2));
    let x = |seconds: f64| LEFT + (WIDTH - LEFT - RIGHT) * seconds / end;
    let y = |share: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share;
    let line = |class: &str, of: &dyn Fn(&(f64, f64, f64)) -> f64| {
        let places = points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(of(point))));
        let places: Vec<_> = places.collect();
        format!(
            "<polyline class=\"{class}\" points=\"{}\"/>",
            places.join(" ")
        )
    };
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Throughput and latency over time\">"
    );
    for step in 0..=4 {
        let share = f64::from(step) / 4.0;
        let at = y(share);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"ops-ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <text class=\"us-ink\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0,
            short(ops_max * share),
            WIDTH - RIGHT + 8.0,
            at + 4.0,
            short(us_max * share)
        );
    }
    let _ = write!(
        svg,
        "<text class=\"ops-ink\" x=\"{LEFT}\" y=\"14\">operations per second</text>\
         <text class=\"us-ink\" x=\"{:.1}\" y=\"14\" text-anchor=\"end\">mean latency, us</text>\
         <text x=\"{LEFT}\" y=\"{:.1}\">0 s</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{end:.1} s</text>",
        WIDTH - RIGHT,
        HEIGHT - 10.0,
        WIDTH - RIGHT,
        HEIGHT - 10.0
    );
    svg.push_str(&line("ops", &|point| point.1 / ops_max));
    svg.push_str(&line("us", &|point| point.2 / us_max));
    svg + "</svg>"
}

/// Formats a number with three significant digits and the unit prefix `k` or `M`.
fn short(number: f64) -> String {
    let (scaled, unit) = match number {
        number if number >= 1e6 => (number / 1e6, "M"),
        number if number >= 1e3 => (number / 1e3, "k"),
        number => (number, ""),
    };
    match scaled {
        0.0 => "0".to_owned(),
        scaled if scaled < 10.0 => format!("{scaled:.2}{unit}"),
        scaled if scaled < 100.0 => format!("{scaled:.1}{unit}"),
        scaled => format!("{scaled:.0}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let numbers = [0.0, 1.234, 56.78, 999.4, 12_345.0, 2_000_000.0];
        assert_eq!(
            numbers.map(short),
            ["0", "1.23", "56.8", "999", "12.3k", "2.00M"]
        );
    }
}
