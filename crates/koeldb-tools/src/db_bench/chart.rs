//! A bar chart of ratios, as SVG that follows the light or dark scheme of its viewer.

use std::fmt::Write as _;

use super::compare::Row;
use crate::text::escape_xml;

const WIDTH: f64 = 720.0;
const LABELS: f64 = 190.0;
const FIGURES: f64 = 60.0;
const ROW: f64 = 28.0;
const TOP: f64 = 52.0;

const STYLE: &str = "text{font:13px sans-serif;fill:#222}.title{font-weight:bold}\
.grid{stroke:#ddd}.one{stroke:#222;stroke-dasharray:4 3}.better{fill:#1b7837}.worse{fill:#b2182b}\
.spread{stroke:#222;stroke-width:1.5}.page{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}.one,.spread{stroke:#ddd}\
.page{fill:#161616}.better{fill:#5aae61}.worse{fill:#d6604d}}";

/// Draws the median ratio of each row as a bar, with a line from its minimum to its maximum.
pub(super) fn ratios(title: &str, rows: &[Row]) -> String {
    let largest = rows.iter().map(|row| row.ratio.max).fold(1.0, f64::max);
    let ticks = largest.ceil();
    let height = TOP + rows.len() as f64 * ROW + 30.0;
    let bottom = height - 26.0;
    let x = |ratio: f64| LABELS + (WIDTH - LABELS - FIGURES) * ratio / ticks;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{0}</title><style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"12\" y=\"24\">{0}</text>\n",
        escape_xml(title)
    );
    let mut tick = 0.0;
    while tick <= ticks {
        let class = if tick == 1.0 { "one" } else { "grid" };
        let at = x(tick);
        // Writing into a string cannot fail.
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick:.0}x</text>",
            bottom + 18.0
        );
        tick += 1.0;
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
