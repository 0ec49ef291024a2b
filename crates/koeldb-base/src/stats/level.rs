//! The statistics that are kept.

/// The level of detail of statistics (RocksDB: `StatsLevel`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum StatsLevel {
    /// Nothing.
    DisableAll = 0,
    /// Tickers.
    ExceptHistogramOrTimers = 1,
    /// Tickers, and histograms of quantities other than times.
    ExceptTimers = 2,
    /// All of them. The engine has no times of locks or of single blocks, which later levels of
    /// RocksDB add.
    #[default]
    ExceptDetailedTimers = 3,
    /// The same as [`StatsLevel::ExceptDetailedTimers`].
    ExceptTimeForMutex = 4,
    /// The same as [`StatsLevel::ExceptDetailedTimers`].
    All = 5,
}

impl StatsLevel {
    /// Returns the level with RocksDB's number, 0 to 5.
    #[must_use]
    pub fn from_number(number: u8) -> Option<StatsLevel> {
        Some(match number {
            0 => StatsLevel::DisableAll,
            1 => StatsLevel::ExceptHistogramOrTimers,
            2 => StatsLevel::ExceptTimers,
            3 => StatsLevel::ExceptDetailedTimers,
            4 => StatsLevel::ExceptTimeForMutex,
            5 => StatsLevel::All,
            _ => return None,
        })
    }
}
