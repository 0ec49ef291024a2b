//! Options of compactions.

use std::time::Duration;

use super::values::OptionText;
use super::{BottommostLevelCompaction, UniversalCompactionStopStyle};
use crate::error::timestamp;

/// Members of an option, with their texts.
pub(crate) type Members = Vec<(&'static str, String)>;

/// Declares setters of members.
macro_rules! members {
    ($Type:ident { $($(#[doc = $doc:literal])+ $setter:ident($type:ty) = $name:literal;)* }) => {
        impl $Type {$(
            $(#[doc = $doc])+
            pub fn $setter(&mut self, value: $type) {
                self.members.push(($name, OptionText::text(&value)));
            }
        )*}
    };
}
pub(crate) use members;

/// Options of FIFO compaction.
#[derive(Default)]
pub struct FifoCompactOptions {
    pub(crate) members: Members,
}

members! { FifoCompactOptions {
    /// The total bytes of SST files beyond which the oldest are dropped.
    set_max_table_files_size(u64) = "max_table_files_size";
}}

/// Options of universal compaction.
#[derive(Default)]
pub struct UniversalCompactOptions {
    pub(crate) members: Members,
}

members! { UniversalCompactOptions {
    /// The percentage by which the next sorted run may be larger (`size_ratio`).
    set_size_ratio(i32) = "size_ratio";
    /// The minimum number of sorted runs in a compaction (`min_merge_width`).
    set_min_merge_width(i32) = "min_merge_width";
    /// The maximum number of sorted runs in a compaction (`max_merge_width`).
    set_max_merge_width(i32) = "max_merge_width";
    /// The maximum space amplification, in percent of the data.
    set_max_size_amplification_percent(i32) = "max_size_amplification_percent";
    /// The percentage of data that is compressed; negative: all. No effect.
    set_compression_size_percent(i32) = "compression_size_percent";
    /// The condition that ends the choice of sorted runs (`stop_style`).
    set_stop_style(UniversalCompactionStopStyle) = "stop_style";
}}

/// Options of a manual compaction (`CompactRangeOptions`).
#[derive(Default)]
pub struct CompactOptions {
    pub(crate) inner: koeldb::CompactRangeOptions,
}

impl CompactOptions {
    same! {
        /// Whether automatic compactions wait meanwhile.
        set_exclusive_manual_compaction(bool);
        /// Whether the result moves to the target level.
        set_change_level(bool);
    }

    /// Sets whether the bottommost level is rewritten (`bottommost_level_compaction`).
    pub fn set_bottommost_level_compaction(&mut self, lvl: BottommostLevelCompaction) {
        self.inner.set_bottommost_level_compaction(lvl.engine());
    }

    /// Sets the level to which the output is moved; negative is the uppermost that can hold it.
    pub fn set_target_level(&mut self, lvl: i32) {
        self.inner.set_target_level(u32::try_from(lvl).ok());
    }

    /// Sets the timestamp below which the compaction may collapse history.
    ///
    /// COMPAT: one that has not 8 bytes has no effect, since the method cannot fail.
    pub fn set_full_history_ts_low<S: Into<Vec<u8>>>(&mut self, ts: S) {
        self.inner
            .set_full_history_ts_low(timestamp(ts.into()).ok());
    }
}

/// Options of [`DBCommon::wait_for_compact`](crate::DBCommon::wait_for_compact).
#[derive(Default)]
pub struct WaitForCompactOptions {
    pub(crate) flush: bool,
    pub(crate) timeout: Option<Duration>,
}

impl WaitForCompactOptions {
    /// Has no effect (`abort_on_pause`): background work cannot be paused.
    pub fn set_abort_on_pause(&mut self, v: bool) {
        let _ = v;
    }

    /// Sets whether all column families are flushed first (`flush`).
    pub fn set_flush(&mut self, v: bool) {
        self.flush = v;
    }

    /// Sets the microseconds after which the wait fails with `TimedOut`; 0 is no limit.
    pub fn set_timeout(&mut self, microseconds: u64) {
        self.timeout = (microseconds > 0).then(|| Duration::from_micros(microseconds));
    }
}
