//! Filters of the write-ahead log, which the engine does not have: an open with one fails.

use std::ffi::c_void;

use crate::functions::callbacks;
use crate::handle::{self, Handle};
use crate::settings::options::Options;

use super::callbacks::{Destructor, Name, State};

/// A filter of the log (`rocksdb_walfilter_t`).
pub(crate) struct WalFilter {
    /// Dropped with the filter, which calls the destructor.
    _state: State,
}

/// Creates a filter.
pub(crate) fn create(
    state: *mut c_void,
    destructor: Destructor,
    _: callbacks::rocksdb_walfilter_column_family_log_number_map_cb,
    _: callbacks::rocksdb_walfilter_log_record_found_cb,
    _: Name,
) -> *mut Handle<WalFilter> {
    handle::give(WalFilter {
        _state: State::new(state, destructor),
    })
}

/// Fails the open of these options, unless the filter is null.
pub(crate) fn set(options: &mut Options, filter: Option<&WalFilter>) {
    let error = filter.map(|_| "Not implemented: filters of the write-ahead log".to_owned());
    options.refusals.note("wal_filter", "", error);
}

/// Opens without a filter again.
pub(crate) fn clear(options: &mut Options) {
    options.refusals.note("wal_filter", "", None);
}
