//! Statistics of databases.

#![expect(unsafe_code, reason = "a function of C that returns a text or null")]

use std::ffi::c_char;

use koeldb::statistics::{HistogramData, HistogramKind, Statistics, StatsLevel, Ticker};

use crate::handle::{self, Handle};
use crate::memory;
use crate::settings::options::Options;
use crate::settings::statistic_names::{HISTOGRAMS, TICKERS};

/// The figures of a histogram (`rocksdb_statistics_histogram_data_t`).
#[derive(Default)]
pub(crate) struct Histogram(Option<HistogramData>);

macro_rules! figures {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        impl Histogram {$(
            pub(crate) fn $name(&mut self) -> $type {
                self.0.as_ref().map_or_else(Default::default, $value)
            }
        )*}
    };
}

figures! {
    median: f64 = HistogramData::median;
    p95: f64 = |data| data.percentile(95.0);
    p99: f64 = |data| data.percentile(99.0);
    average: f64 = HistogramData::average;
    standard_deviation: f64 = HistogramData::standard_deviation;
    max: f64 = |data| data.max as f64;
    count: u64 = |data| data.count;
    sum: u64 = |data| data.sum;
    min: f64 = |data| data.min as f64;
}

/// Counts from now on.
pub(crate) fn enable(options: &mut Options) {
    options.inner.set_statistics(Statistics::new());
}

/// Sets what is counted; without statistics, nothing.
pub(crate) fn set_level(options: &mut Options, level: i32) {
    let number = u8::try_from(level.clamp(0, 5)).unwrap_or_default();
    let level = StatsLevel::from_number(number);
    if let Some((statistics, level)) = options.inner.get_statistics().zip(level) {
        statistics.set_level(level);
    }
}

/// Returns what is counted.
pub(crate) fn level(options: &mut Options) -> i32 {
    let statistics = options.inner.get_statistics();
    statistics.map_or(0, |statistics| i32::from(statistics.level() as u8))
}

/// Returns all figures as a text; null without statistics.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn text(options: *mut Handle<Options>) -> *mut c_char {
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "options") }.ok();
    let statistics = options.and_then(|options| options.inner.get_statistics());
    memory::give_optional_text(statistics.map(ToString::to_string))
}

/// Returns a counter by its number; zero if the engine does not count it.
pub(crate) fn ticker(options: &mut Options, number: u32) -> u64 {
    let ticker = name(TICKERS, number).and_then(Ticker::from_name);
    let statistics = options.inner.get_statistics();
    let found = statistics.zip(ticker);
    found.map_or(0, |(statistics, ticker)| statistics.ticker(ticker))
}

/// Copies the figures of a histogram by its number.
pub(crate) fn histogram(options: &mut Options, number: u32, data: &mut Histogram) {
    let kind = name(HISTOGRAMS, number).and_then(HistogramKind::from_name);
    let found = options.inner.get_statistics().zip(kind);
    data.0 = found.map(|(statistics, kind)| statistics.histogram(kind));
}

fn name(names: &'static [&'static str], number: u32) -> Option<&'static str> {
    let at = usize::try_from(number).ok()?;
    names.get(at).copied()
}
