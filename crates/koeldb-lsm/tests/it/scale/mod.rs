//! The figures of `docs/scale.md`: those of the simulator of the tree, and those of the model.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are rounded"
)]
#![expect(clippy::big_endian_bytes, reason = "keys in the order of positions")]

mod simulator;

use koeldb_lsm::pick::universal::RunLimit;
use koeldb_lsm::pick::{PickSettings, leveled, universal};

use simulator::{Load, Simulator};

const PAGE: &str = include_str!("../../../../../docs/scale.md");

/// The default of `max_bytes_for_level_base`.
const BASE_BYTES: f64 = 268_435_456.0;

/// The simulated write amplification at 400 times the base level, and its rise with each factor of
/// ten.
const AT_400: f64 = 18.4;
const PER_DECADE: f64 = 7.3;

/// A tree of `ratio` times the base level, with the default settings.
fn load(ratio: f64) -> Load {
    Load {
        data_bytes: BASE_BYTES * ratio,
        memtable_bytes: BASE_BYTES / 4.0,
        pick: leveled::pick,
        settings: PickSettings::default(),
        last_level: 6,
    }
}

/// Writes the data `rounds` times, and once more; returns the write and space amplification of the
/// last round.
fn simulate(load: &Load, rounds: u32) -> (f64, f64) {
    let mut simulator = Simulator::new(load.clone());
    for _ in 0..rounds {
        simulator.update(load.data_bytes);
        simulator.figures = simulator::Figures::default();
    }
    simulator.update(load.data_bytes);
    let figures = &simulator.figures;
    (
        figures.write_amplification(),
        figures.space_amplification(load),
    )
}

/// The numbers of the row of the page that begins with `name`.
fn row(name: &str) -> Vec<f64> {
    let start = format!("| {name} |");
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&start));
    let row = row.unwrap_or_else(|| panic!("the page has no row {name}"));
    let cells = row.split('|').map(str::trim);
    let cells = cells.filter(|cell| !cell.is_empty());
    cells
        .map(|cell| cell.parse().unwrap_or_else(|_| panic!("{name}: {cell}")))
        .collect()
}

/// Logarithms and exponentials differ between machines in their last digits.
fn assert_near(what: &str, found: f64, written: f64) {
    let difference = (found - written).abs() / written;
    assert!(
        difference < 0.04,
        "{what}: {found:.2}, the page has {written}"
    );
}

fn check_simulated(ratio: f64) {
    let (write, space) = simulate(&load(ratio), 1);
    let written = row(&format!("{ratio} times the base level"));
    assert_near("write amplification", write, written[0]);
    assert_near("space amplification", space, written[1]);
}

#[test]
fn the_page_has_the_figures_of_the_simulator() {
    check_simulated(4.0);
    check_simulated(40.0);
}

/// Universal compaction of `memtables` memtables of data, with `max_read_amp` -1 and 0.
fn check_universal(memtables: u32) {
    let mut load = Load {
        pick: universal::pick,
        ..load(f64::from(memtables) / 4.0)
    };
    let (write, space) = simulate(&load, 3);
    load.settings.universal.run_limit = RunLimit::BySizes {
        first_run_bytes: load.memtable_bytes as u64,
    };
    let (write_by_sizes, space_by_sizes) = simulate(&load, 3);
    let written = row(&format!("{memtables} memtables"));
    assert_near("write amplification", write, written[0]);
    assert_near("space amplification", space, written[1]);
    assert_near("write amplification by sizes", write_by_sizes, written[2]);
    assert_near("space amplification by sizes", space_by_sizes, written[3]);
}

#[test]
fn the_page_has_the_figures_of_universal_compaction() {
    check_universal(16);
    check_universal(160);
}

#[test]
#[ignore = "a minute in a debug build: cargo test --release -p koeldb-lsm --test it scale:: -- --ignored"]
fn the_model_begins_where_the_simulator_ends() {
    check_simulated(400.0);
    check_universal(1600);
    let (at_40, _) = simulate(&load(40.0), 1);
    let (at_400, _) = simulate(&load(400.0), 1);
    assert_near("the constant of the model", at_400, AT_400);
    assert_near("its slope", at_400 - at_40, PER_DECADE);
}

/// A real run of the page: `level_compaction_dynamic_level_bytes` is off, as in `db_bench`.
fn check_run(name: &str, data_bytes: f64, memtable_bytes: f64, base_bytes: u64) {
    let mut load = Load {
        data_bytes,
        memtable_bytes,
        last_level: 3,
        ..load(1.0)
    };
    load.settings.level_compaction_dynamic_level_bytes = false;
    load.settings.max_bytes_for_level_base = base_bytes;
    load.settings.target_file_size_base = base_bytes / 4;
    let (write, _) = simulate(&load, 0);
    assert_near("write amplification", write, row(name)[0]);
}

#[test]
fn the_page_compares_runs_with_their_simulations() {
    let megabyte = f64::from(1 << 20);
    // A memtable of 8 MiB becomes a table of 7.29 MB, one of 64 MiB a table of 63.7 MB.
    check_run("0.98 GiB", 983.0 * megabyte, 7.29e6, 32 << 20);
    check_run("7.6 GiB", 7_751.0 * megabyte, 63.7e6, 256 << 20);
}

/// A number with two digits that count.
fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => {
            let unit = 10_f64.powf(value.log10().floor() - 1.0);
            format!("{}", (value / unit).round() * unit)
        }
        value if value >= 10.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

type Formula = fn(f64) -> f64;

/// The rows of the model: a quantity by the bytes of the data.
const MODEL: [(&str, Formula); 13] = [
    ("write amplification", write_amplification),
    ("disk writes in MB/s, for 50 MB/s of updates", |data| {
        50.0 * write_amplification(data)
    }),
    ("threads of 150 MB/s that this takes", |data| {
        50.0 * write_amplification(data) / 150.0
    }),
    ("hours to write everything anew at 50 MB/s", |data| {
        data / 50e6 / 3_600.0
    }),
    ("hours to scrub at 200 MB/s", |data| data / 200e6 / 3_600.0),
    ("GB of filters, 10 bits a key", |data| {
        data / 1_024.0 * 10.0 / 8.0 / 1e9
    }),
    ("GB of filters without the last level", |data| {
        data / 1_024.0 * 10.0 / 8.0 / 1e9 / 10.0
    }),
    ("GB of index, 24 B for a block of 16 KiB", |data| {
        data / 16_384.0 * 24.0 / 1e9
    }),
    ("tables of 64 MiB", |data| data / 67_108_864.0),
    ("tables of 512 MiB", |data| data / 536_870_912.0),
    ("MB of MANIFEST, 180 B a table of 64 MiB", |data| {
        data / 67_108_864.0 * 180.0 / 1e6
    }),
    ("MB of metadata, 600 B a table of 64 MiB", |data| {
        data / 67_108_864.0 * 600.0 / 1e6
    }),
    ("ms of an edit, 80 ns a table of 64 MiB", |data| {
        data / 67_108_864.0 * 80e-6
    }),
];

fn write_amplification(data: f64) -> f64 {
    AT_400 + PER_DECADE * (data / (400.0 * BASE_BYTES)).log10()
}

#[test]
fn the_page_has_the_figures_of_the_model() {
    let mut missing = String::new();
    for (name, formula) in MODEL {
        let cells: Vec<String> = [1e12, 1e13, 1e14]
            .iter()
            .map(|data| short(formula(*data)))
            .collect();
        let row = format!("| {name} | {} |", cells.join(" | "));
        if !PAGE.lines().any(|line| line == row) {
            missing += &format!("{row}\n");
        }
    }
    assert!(missing.is_empty(), "docs/scale.md lacks:\n{missing}");
}
