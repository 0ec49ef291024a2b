//! A simulator of the tree: the real pickers, over tables that are metadata alone.
//!
//! Keys are positions in a fixed space. Updates are uniform, so a table is described by its range
//! and its density, the share of the positions that it has. A merge of densities `a` and `b` has
//! the density `1 - (1 - a)(1 - b)`, and the bytes of a table are `density * range`. Compactions
//! run as soon as they are due, and take no time: there are no stalls.

use std::collections::BTreeMap;
use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::key::{self, ValueType};
use koeldb_lsm::pick::{CompactionPlan, PickSettings};
use koeldb_lsm::{FileMeta, Version};

/// The number of positions of keys.
const POSITIONS: u64 = 1 << 40;

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// The bytes of all keys with one value each.
    pub(super) data_bytes: f64,
    pub(super) memtable_bytes: f64,
    /// The picker of the compaction style.
    pub(super) pick: fn(&Version, &PickSettings) -> Option<CompactionPlan>,
    pub(super) settings: PickSettings,
    /// The level that has every key at the beginning.
    pub(super) last_level: usize,
}

/// The amounts written.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    updated_bytes: f64,
    written_bytes: f64,
    /// The bytes of all tables, summed over the flushes.
    space_sum: f64,
    flushes: f64,
}

impl Figures {
    pub(super) fn write_amplification(&self) -> f64 {
        self.written_bytes / self.updated_bytes
    }

    /// The bytes of all tables, as a multiple of those of the data.
    pub(super) fn space_amplification(&self, load: &Load) -> f64 {
        self.space_sum / self.flushes / load.data_bytes
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    from: u64,
    to: u64,
    density: f64,
}

/// A tree that is written to.
pub(super) struct Simulator {
    load: Load,
    version: Version,
    densities: BTreeMap<u64, Span>,
    next: u64,
    pub(super) figures: Figures,
}

impl Simulator {
    /// A tree whose last level has every key.
    pub(super) fn new(load: Load) -> Self {
        let mut simulator = Simulator {
            load,
            version: Version::empty(KeyOrder::Bytewise, 7),
            densities: BTreeMap::new(),
            next: 1,
            figures: Figures::default(),
        };
        let all = Span {
            from: 0,
            to: POSITIONS,
            density: 1.0,
        };
        let target = simulator.load.settings.target_file_size_base as f64;
        let outputs = simulator.cut(&[all], target);
        let last_level = simulator.load.last_level;
        simulator.version.levels[last_level].files = outputs;
        simulator
    }

    fn bytes(&self, span: &Span) -> f64 {
        let share = (span.to - span.from) as f64 / POSITIONS as f64;
        share * span.density * self.load.data_bytes
    }

    /// A table of adjacent spans.
    fn table(&mut self, spans: &[Span]) -> Arc<FileMeta> {
        let (from, to) = (spans[0].from, spans[spans.len() - 1].to);
        let bytes: f64 = spans.iter().map(|span| self.bytes(span)).sum();
        let width = (to - from) as f64 / POSITIONS as f64 * self.load.data_bytes;
        let number = self.next;
        self.next += 1;
        let density = bytes / width;
        self.densities.insert(number, Span { from, to, density });
        let bound = |at: u64| key::encode(&at.to_be_bytes(), number, ValueType::Value);
        let mut file = FileMeta::new(number, bytes as u64, bound(from), bound(to - 1));
        (file.smallest_seqno, file.largest_seqno) = (number, number);
        file.epoch = number;
        Arc::new(file)
    }

    /// Cuts spans into tables of `target` bytes.
    fn cut(&mut self, spans: &[Span], target: f64) -> Vec<Arc<FileMeta>> {
        let (mut tables, mut open, mut bytes) = (Vec::new(), Vec::new(), 0.0);
        for span in spans {
            let mut rest = *span;
            while bytes + self.bytes(&rest) > target {
                let share = (target - bytes) / self.bytes(&rest);
                let width = ((rest.to - rest.from) as f64 * share) as u64;
                let at = (rest.from + width.max(1)).min(rest.to);
                open.push(Span { to: at, ..rest });
                tables.push(self.table(&open));
                (open, bytes) = (Vec::new(), 0.0);
                rest.from = at;
                if rest.from == rest.to {
                    break;
                }
            }
            if rest.from < rest.to {
                bytes += self.bytes(&rest);
                open.push(rest);
            }
        }
        if !open.is_empty() {
            tables.push(self.table(&open));
        }
        tables
    }

    /// Merges tables.
    fn merge(&self, inputs: &[Span]) -> Vec<Span> {
        let mut events: Vec<(u64, bool, f64)> = Vec::new();
        for span in inputs {
            events.push((span.from, true, span.density));
            events.push((span.to, false, span.density));
        }
        events.sort_by_key(|event| event.0);
        let mut open: Vec<f64> = Vec::new();
        let mut merged = Vec::new();
        let mut from = 0;
        for (at, begins, density) in events {
            if at > from && !open.is_empty() {
                let missing: f64 = open.iter().map(|density| 1.0 - density).product();
                let density = 1.0 - missing;
                merged.push(Span {
                    from,
                    to: at,
                    density,
                });
            }
            from = at;
            if begins {
                open.push(density);
            } else if let Some(place) = open.iter().position(|open| *open == density) {
                open.swap_remove(place);
            }
        }
        merged
    }

    fn flush(&mut self) {
        let density = -(-self.load.memtable_bytes / self.load.data_bytes).exp_m1();
        let all = Span {
            from: 0,
            to: POSITIONS,
            density,
        };
        let file = self.table(&[all]);
        self.figures.written_bytes += file.bytes as f64;
        self.version.levels[0].files.insert(0, file);
        self.figures.updated_bytes += self.load.memtable_bytes;
        self.figures.flushes += 1.0;
        self.figures.space_sum += self.version.bytes() as f64;
    }

    fn run(&mut self, plan: &CompactionPlan) {
        for input in &plan.inputs {
            let is_input = |file: &Arc<FileMeta>| {
                let mut inputs = input.files.iter();
                inputs.any(|input| input.number == file.number)
            };
            let files = &mut self.version.levels[input.level].files;
            files.retain(|file| !is_input(file));
        }
        let outputs = match plan.trivial_move {
            true => plan.files().map(|(_, file)| Arc::clone(file)).collect(),
            false => {
                let spans: Vec<Span> = plan
                    .files()
                    .filter_map(|(_, file)| self.densities.remove(&file.number))
                    .collect();
                let merged = self.merge(&spans);
                let outputs = self.cut(&merged, plan.target_file_bytes as f64);
                let bytes = outputs.iter().map(|file| file.bytes as f64);
                self.figures.written_bytes += bytes.sum::<f64>();
                outputs
            }
        };
        if let Some((level, key)) = &plan.next_cursor {
            self.version.compact_cursors.insert(*level, key.clone());
        }
        let epoch = plan.output_epoch();
        let files = &mut self.version.levels[plan.output_level].files;
        if plan.output_level == 0 {
            let at = files.partition_point(|file| file.epoch > epoch);
            files.splice(
                at..at,
                outputs.iter().map(|it| Arc::new(it.with_epoch(epoch))),
            );
        } else if let Some(first) = outputs.first() {
            let at = files.partition_point(|file| file.smallest < first.smallest);
            files.splice(at..at, outputs);
        }
    }

    /// Writes `bytes` of updates; compactions run as soon as they are due.
    pub(super) fn update(&mut self, bytes: f64) {
        let until = self.figures.updated_bytes + bytes;
        while self.figures.updated_bytes < until {
            self.flush();
            while let Some(plan) = (self.load.pick)(&self.version, &self.load.settings) {
                self.run(&plan);
            }
        }
    }
}
