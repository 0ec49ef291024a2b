//! `lsm`: a picture of the levels of a column family by key range, as SVG.
//!
//! The horizontal axis is the key space: every first and last key of a table is at the same distance
//! from the next, so that dense ranges are as wide as sparse ones. The picture is as wide as its
//! viewer. A table is a rectangle from its first to its last key, and its colour is its share of
//! deletions. Tables of level 0 overlap: each has a row.

use std::fmt::Write as _;
use std::path::Path;

use koeldb_base::KeyOrder;
use koeldb_lsm::version::FileMeta;

use super::Outcome;
use super::args::Global;
use super::database::directory;
use super::output::Output;
use super::tree::Tree;
use crate::text::escape_xml;

/// The margins, and the width between them, in percent.
const LEFT: f64 = 2.0;
const WIDTH: f64 = 96.0;
const TOP: f64 = 84.0;
const LABEL: f64 = 20.0;
const ROW: f64 = 22.0;
const GAP: f64 = 8.0;
/// The width of a table with a single key, in percent.
const NARROWEST: f64 = 0.2;

const STYLE: &str = "text{font:13px sans-serif;fill:#222}.title{font-weight:bold;font-size:15px}\
.page{fill:#fff}.row{fill:#f1f1f1}.d0{fill:#2166ac}.d1{fill:#92a94f}.d2{fill:#e08214}.d3{fill:#b2182b}\
.table{stroke:#fff;stroke-width:1}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.page{fill:#161616}.row{fill:#262626}\
.table{stroke:#161616}.d0{fill:#4393c3}}";

/// Colours by the share of deletions: the class, the upper limit, and the legend.
const COLOURS: [(&str, f64, &str); 4] = [
    ("d0", 0.1, "up to 10 % deletions"),
    ("d1", 0.3, "to 30 %"),
    ("d2", 0.5, "to 50 %"),
    ("d3", f64::INFINITY, "above"),
];

/// Runs `lsm`: draws the levels and tables of a column family as SVG, to a file or standard output.
pub(super) fn draw(global: &Global, path: Option<&Path>, out: &mut Output) -> Outcome {
    let tree = Tree::of(&directory(global)?, &global.column_family, None)?;
    let svg = picture(&tree);
    let Some(path) = path else {
        return out.line(svg.trim_end());
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "the picture is no file of the database"
    )]
    std::fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    out.line(&format!("{} was written", path.display()))
}

/// The horizontal axis of the picture: the smallest and largest keys of all tables, in order.
struct Axis<'t> {
    order: &'t KeyOrder,
    keys: Vec<&'t [u8]>,
}

impl<'t> Axis<'t> {
    fn new(tree: &'t Tree) -> Self {
        let order = &tree.order;
        let files = || tree.version.files().map(|(_, file)| file);
        let mut keys: Vec<&[u8]> = files()
            .flat_map(|file| [file.smallest_user_key(), file.largest_user_key()])
            .collect();
        keys.sort_by(|a, b| order.compare(a, b));
        keys.dedup();
        Axis { order, keys }
    }

    /// Returns the horizontal position of a key in the picture, in percent of its width.
    fn x(&self, key: &[u8]) -> f64 {
        let before = self
            .keys
            .partition_point(|other| self.order.compare(other, key).is_lt());
        let last = self.keys.len().saturating_sub(1).max(1);
        LEFT + (WIDTH - NARROWEST) * before as f64 / last as f64
    }
}

/// Draws the LSM tree as an SVG picture.
fn picture(tree: &Tree) -> String {
    let axis = Axis::new(tree);
    let mut rows = String::new();
    let mut y = TOP;
    for (number, level) in tree.version.levels.iter().enumerate() {
        if level.files.is_empty() && number > tree.version.deepest_level() {
            break;
        }
        let height = match number {
            0 => ROW * level.files.len().max(1) as f64,
            _ => ROW,
        };
        let (tables, bytes) = (count(level.files.len()), megabytes(level.bytes()));
        // Writing to a string cannot fail.
        let _ = writeln!(
            rows,
            "<text x=\"{LEFT}%\" y=\"{:.1}\">L{number}: {tables}, {bytes}</text>\
             <rect class=\"row\" x=\"{LEFT}%\" y=\"{:.1}\" width=\"{WIDTH}%\" height=\"{height:.1}\"/>",
            y + LABEL - 6.0,
            y + LABEL
        );
        y += LABEL;
        for (index, file) in level.files.iter().enumerate() {
            let top = if number == 0 {
                y + ROW * index as f64
            } else {
                y
            };
            rows.push_str(&table(tree, &axis, number, file, top));
        }
        y += height + GAP;
    }
    let title = format!(
        "Column family \"{}\": {}, {}",
        tree.name,
        count(tree.version.files().count()),
        megabytes(tree.version.bytes())
    );
    let height = y + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%\" height=\"{height:.0}\" role=\"img\">\n\
         <title>{0}</title><style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"{LEFT}%\" y=\"24\">{0}</text>\n",
        escape_xml(&title)
    );
    for (index, (class, _, legend)) in COLOURS.into_iter().enumerate() {
        let x = [LEFT, 50.0][index % 2];
        let y = 38 + 20 * (index / 2);
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{x}%\" y=\"{y}\" width=\"12\" height=\"12\"/>\
             <text x=\"{x}%\" dx=\"18\" y=\"{}\">{legend}</text>",
            y + 11
        );
    }
    svg + &rows + "</svg>\n"
}

/// Draws a table as an SVG rectangle at height `y`.
fn table(tree: &Tree, axis: &Axis<'_>, level: usize, file: &FileMeta, y: f64) -> String {
    let (from, to) = (
        axis.x(file.smallest_user_key()),
        axis.x(file.largest_user_key()),
    );
    let counts = tree.tables.reader(file, level).ok().map(|table| {
        let properties = table.properties();
        (properties.entry_count, properties.deletion_count)
    });
    let share = match counts {
        Some((entries, deletions)) if entries > 0 => deletions as f64 / entries as f64,
        _ => 0.0,
    };
    let (class, ..) = COLOURS
        .into_iter()
        .find(|(_, limit, _)| share <= *limit)
        .unwrap_or(COLOURS[3]);
    let contents = match counts {
        Some((entries, deletions)) => format!("{entries} entries, {deletions} deletions"),
        None => "it cannot be opened".to_owned(),
    };
    let key = |key: &[u8]| escape_xml(&key.escape_ascii().to_string());
    format!(
        "<rect class=\"table {class}\" x=\"{from:.2}%\" y=\"{:.1}\" width=\"{:.2}%\" height=\"{:.1}\">\
         <title>{:06}.sst, level {level}, {}: {contents}\n{} to {}</title></rect>\n",
        y + 1.0,
        (to - from).max(NARROWEST),
        ROW - 2.0,
        file.number,
        megabytes(file.bytes),
        key(file.smallest_user_key()),
        key(file.largest_user_key())
    )
}

/// Formats a number of tables, as `1 table` or `N tables`.
fn count(tables: usize) -> String {
    match tables {
        1 => "1 table".to_owned(),
        _ => format!("{tables} tables"),
    }
}

/// Formats a size in MiB.
fn megabytes(bytes: u64) -> String {
    match bytes as f64 / f64::from(1 << 20) {
        small if small < 10.0 => format!("{small:.2} MiB"),
        large => format!("{large:.0} MiB"),
    }
}
