//! A bar chart of ratios, as SVG that follows the light or dark scheme of its viewer.

use std::fmt::Write as _;

use super::compare::Row;
use crate::text::escape_xml;

/// Narrow enough that the text stays legible on a telephone.
const WIDTH: f64 = 480.0;
const LABELS: f64 = 176.0;
const FIGURES: f64 = 48.0;
const ROW: f64 = 28.0;
const TOP: f64 = 52.0;

const STYLE: &str = "text{font:13px sans-serif;fill:#222}.title{font-weight:bold}\
.grid{stroke:#ddd}.one{stroke:#222;stroke-dasharray:4 3}.better{fill:#1b7837}.worse{fill:#b2182b}\
.spread{stroke:#222;stroke-width:1.5}.page{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}.one,.spread{stroke:#ddd}\
.page{fill:#161616}.better{fill:#5aae61}.worse{fill:#d6604d}}";

/// Draws the median ratio of each benchmark as an SVG bar, with a line from minimum to maximum.
pub(super) fn ratios(title: &str, rows: &[Row]) -> String {
    let largest = rows.iter().map(|row| row.ratio.max).fold(1.0, f64::max);
    let ticks = largest.ceil();
    let spacing = (ticks / 6.0).ceil();
    let height = TOP + rows.len() as f64 * ROW + 30.0;
    let bottom = height - 26.0;
    let x = |ratio: f64| LABELS + (WIDTH - LABELS - FIGURES) * ratio / ticks;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" style=\"max-width:100%;height:auto\" role=\"img\">\n\
         <title>{0}</title><style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"12\" y=\"24\">{0}</text>\n",
        escape_xml(title)
    );
    let steps = (0..=6).map(|step| f64::from(step) * spacing);
    let steps = steps.filter(|&tick| tick <= ticks && tick != 1.0);
    for tick in std::iter::once(1.0).chain(steps) {
        let class = if tick == 1.0 { "one" } else { "grid" };
        let at = x(tick);
        // Writing into a string cannot fail.
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick:.0}x</text>",
            bottom + 18.0
        );
    }
    for (index, row) in rows.iter().enumerate() {
        let (y, ratio) = (TOP + index as f64 * ROW, row.ratio);
        let class = if ratio.median < 1.0 {
            "worse"
        } else {
            "better"
        };
        let middle = y + ROW / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{LABELS}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\
             <line class=\"spread\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{:.2}</text>",
            LABELS - 10.0,
            middle + 4.5,
            escape_xml(&row.name),
            y + 4.0,
            x(ratio.median) - LABELS,
            ROW - 8.0,
            x(ratio.min),
            x(ratio.max),
            x(ratio.max) + 8.0,
            middle + 4.5,
            ratio.median
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::compare::Spread;
    use super::*;

    /// The rows of the table below the heading `Summary` of `docs/benchmarks.md`.
    fn summary(text: &str) -> Vec<Row> {
        let section = text.split("\n## Summary\n").nth(1).expect("a summary");
        let section = section.split("\n## ").next().expect("a section");
        let cells = section.lines().filter_map(|line| {
            let line = line.strip_prefix('|')?.strip_suffix('|')?;
            let mut cells = line.split('|');
            let (name, ratio) = (cells.next()?, cells.next_back()?);
            let mut ratio = ratio.split(" / ").map(|ratio| ratio.trim().parse().ok());
            let (min, median, max) = (ratio.next()??, ratio.next()??, ratio.next()??);
            let ratio = Spread { min, median, max };
            Some(Row {
                name: name.trim().to_owned(),
                ours: ratio,
                other: ratio,
                ratio,
            })
        });
        cells.collect()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a picture of the documentation")]
    fn the_chart_of_the_readme_shows_the_summary_of_the_benchmarks() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let text = std::fs::read_to_string(docs.join("benchmarks.md")).expect("the benchmarks");
        let rows = summary(&text);
        assert!(rows.len() >= 10, "{rows:?}");
        let drawn = ratios("Time of RocksDB 11.9 divided by KoelDB's", &rows);
        let path = docs.join("ratios.svg");
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(&path, &drawn).expect("the chart can be written");
            return;
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == drawn,
            "{} is stale; REWRITE=1 cargo test -p koeldb-tools --lib chart:: writes it",
            path.display()
        );
    }
}
