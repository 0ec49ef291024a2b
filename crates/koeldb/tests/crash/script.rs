//! Scripts: the operations on a database, as data.

use koeldb::fs::{Failure, Operation, SurvivalPolicy};
use koeldb::{ColumnFamilyOptions, ConfigOptions, Options, RecoveryMode};
use koeldb_testkit::random::mix;
use koeldb_testkit::variety::{Drawer, Drawn, Suite};
use koeldb_testkit::{Legality, Random};

/// The operations in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Puts of keys that were never used, ascending.
    Unique,
    /// Puts over few keys.
    Puts,
    /// Puts, deletions, single deletions, range deletions.
    Deletions,
    /// Those, and merges.
    Everything,
}

/// Batches to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) batches: usize,
    pub(crate) changes: usize,
    pub(crate) value_bytes: u64,
    pub(crate) mix: Mix,
    /// One of this many batches is synced; 0 for none.
    pub(crate) sync_every: usize,
    /// One of this many batches is written without the log; 0 for none.
    pub(crate) unlogged_every: usize,
}

impl Load {
    /// Unsynced batches of three puts.
    pub(crate) const fn of(batches: usize) -> Self {
        Load {
            batches,
            changes: 3,
            value_bytes: 60,
            mix: Mix::Puts,
            sync_every: 0,
            unlogged_every: 0,
        }
    }

    pub(crate) const fn mix(mut self, mix: Mix) -> Self {
        self.mix = mix;
        self
    }

    pub(crate) const fn changes(mut self, changes: usize) -> Self {
        self.changes = changes;
        self
    }

    /// Values long enough for memtables to fill up.
    pub(crate) const fn long(mut self, value_bytes: u64) -> Self {
        self.value_bytes = value_bytes;
        self
    }

    pub(crate) const fn synced(mut self, every: usize) -> Self {
        self.sync_every = every;
        self
    }

    pub(crate) const fn unlogged(mut self, every: usize) -> Self {
        self.unlogged_every = every;
        self
    }
}

/// An operation of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Batches over all column families.
    Write(Load),
    Flush,
    FlushFamily(&'static str),
    FlushWal {
        sync: bool,
    },
    Compact,
    Wait,
    Create(&'static str),
    Drop(&'static str),
    SetOption(&'static str, &'static str),
    SetDbOption(&'static str, &'static str),
    /// Closes and opens.
    Reopen,
    /// Kills the process and opens the database in another one.
    Kill,
    /// Closes, loses the MANIFEST, repairs, opens.
    Repair,
    /// Opens a read-only handle concurrently with the writer, reads, and closes it.
    ReadOnly,
    /// These operations fail from now on; requests in the meantime may fail.
    Break(Failure, &'static [Operation]),
    /// Ends all failures and resumes writes.
    Resume,
}

/// A script and the options it runs under.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) options: fn(&mut Options),
    /// Draws more options with this number, besides the seed of the suite. Some families of those
    /// with odd numbers have timestamps.
    pub(crate) drawn: Option<u64>,
    pub(crate) steps: &'static [Step],
    /// Whether the oldest data may be missing, so that the contents need not be a prefix.
    pub(crate) drops_oldest: bool,
}

/// The column families of scripts with drawn options, each with a style of its own.
const FAMILIES: [&str; 3] = ["default", "a", "b"];

impl Script {
    fn draw(&self) -> Option<Drawn> {
        let number = self.drawn?;
        let mut random = Random::new(mix(crate::seed() ^ number << 32));
        let mut drawer = Drawer::of_families(Suite::Crash, &mut random, FAMILIES.len());
        if number % 2 == 1 {
            drawer = drawer.with_timestamps(Random::new(mix(crate::seed() ^ number << 40)));
        }
        Some(drawer.draw(&mut random))
    }

    /// Applies the drawn options of the database and of the default column family.
    pub(crate) fn apply_drawn(&self, options: &mut Options) {
        let Some(drawn) = self.draw() else {
            return;
        };
        options
            .apply_str(&drawn.database, &ConfigOptions::new())
            .unwrap_or_else(|error| panic!("{}: {error}", drawn.database));
        *options.cf_options_mut() = self.family_options(options, "default");
    }

    /// The options of a column family: the drawn ones, over those of the default one.
    pub(crate) fn family_options(&self, options: &Options, name: &str) -> ColumnFamilyOptions {
        let mut family = options.cf_options().clone();
        let is_quiet = family.get_disable_auto_compactions();
        if let Some(drawn) = self.draw() {
            let index = FAMILIES.iter().position(|known| *known == name);
            let text = &drawn.families[index.unwrap_or(0)];
            let mut fresh = Options::new();
            crate::scripts::base(&mut fresh);
            family = fresh.cf_options().clone();
            family
                .apply_str(text, &ConfigOptions::new())
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            if is_quiet {
                family.set_disable_auto_compactions(true);
            }
        }
        family
    }

    /// The legal contents of a database after a crash in a recovery mode.
    pub(crate) fn legality(&self, mode: RecoveryMode, policy: SurvivalPolicy) -> Legality {
        let is_process_crash = policy == SurvivalPolicy::Generous;
        match mode {
            _ if self.drops_oldest => Legality::OldestDropped,
            RecoveryMode::TolerateCorruptedTailRecords if !is_process_crash => {
                Legality::WholeBatches
            }
            RecoveryMode::SkipAnyCorruptedRecords if !is_process_crash => Legality::WholeBatches,
            _ => Legality::Prefix,
        }
    }
}

/// Whether an open in a recovery mode may fail after a crash.
pub(crate) fn may_refuse(mode: RecoveryMode, policy: SurvivalPolicy) -> bool {
    let is_process_crash = policy == SurvivalPolicy::Generous;
    match mode {
        RecoveryMode::TolerateCorruptedTailRecords => !is_process_crash,
        // A record longer than the log's buffer reaches the system in pieces.
        RecoveryMode::AbsoluteConsistency => true,
        _ => false,
    }
}
