//! Properties of tables, and the filters of reads that choose by them.

#![expect(unsafe_code, reason = "calls functions of the caller")]

use std::ffi::c_void;

use koeldb::SstFileProperties;

use crate::functions::callbacks;
use crate::handle::{self, Handle};
use crate::settings::read::ReadOptions;

use super::callbacks::{Destructor, State, needed};
use super::text::Text;

/// The properties of a table (`rocksdb_table_properties_t`).
#[derive(Clone)]
pub(crate) struct TableProperties {
    num_entries: u64,
    num_deletions: u64,
    column_family_name: Text,
    comparator_name: Text,
    db_id: Text,
    db_session_id: Text,
    /// The smallest and largest sequence number; `None` if they are not known.
    seqnos: Option<(u64, u64)>,
}

/// The sequence number that stands for an unknown one.
const UNKNOWN: u64 = u64::MAX;

impl From<&SstFileProperties> for TableProperties {
    fn from(of: &SstFileProperties) -> Self {
        TableProperties {
            num_entries: of.num_entries,
            num_deletions: of.num_deletions,
            column_family_name: Text::new(&of.column_family_name),
            comparator_name: Text::new(&of.comparator),
            db_id: Text::new(&of.db_id),
            db_session_id: Text::new(&of.db_session_id),
            seqnos: None,
        }
    }
}

impl TableProperties {
    /// Adds the smallest and largest sequence number.
    pub(super) fn with_seqnos(mut self, smallest: u64, largest: u64) -> Self {
        self.seqnos = Some((smallest, largest));
        self
    }

    pub(crate) fn has_seqnos(&self) -> bool {
        self.seqnos.is_some()
    }

    pub(crate) fn smallest_seqno(&self) -> u64 {
        self.seqnos.map_or(UNKNOWN, |seqnos| seqnos.0)
    }

    pub(crate) fn largest_seqno(&self) -> u64 {
        self.seqnos.map_or(UNKNOWN, |seqnos| seqnos.1)
    }

    pub(crate) fn num_entries(&self) -> u64 {
        self.num_entries
    }

    pub(crate) fn num_deletions(&self) -> u64 {
        self.num_deletions
    }

    pub(crate) fn column_family_name(&self) -> &[u8] {
        self.column_family_name.bytes()
    }

    pub(crate) fn comparator_name(&self) -> &[u8] {
        self.comparator_name.bytes()
    }

    pub(crate) fn db_id(&self) -> &[u8] {
        self.db_id.bytes()
    }

    pub(crate) fn db_session_id(&self) -> &[u8] {
        self.db_session_id.bytes()
    }
}

/// Makes reads pass over tables for which the function returns zero; null ends that.
///
/// # Safety
/// The pointer is that of read options; the state is given away.
pub(crate) unsafe fn set_table_filter(
    options: *mut Handle<ReadOptions>,
    state: *mut c_void,
    destructor: Destructor,
    filter: callbacks::rocksdb_readoptions_table_filter_cb,
) {
    let state = State::new(state, destructor);
    // SAFETY: promised by the caller.
    let options = needed(unsafe { handle::exclusive(options, "readoptions") });
    let Some(filter) = filter else {
        return clear_table_filter(options);
    };
    options.has_table_filter = true;
    options.inner.set_table_filter(move |properties| {
        let properties = Handle::new(TableProperties::from(properties));
        // SAFETY: the function takes this state and borrows the properties, as the caller promises.
        unsafe { filter(state.get(), &raw const properties) != 0 }
    });
}

/// Makes reads look into all tables.
pub(crate) fn clear_table_filter(options: &mut ReadOptions) {
    options.has_table_filter = false;
    options.inner.set_table_filter(|_| true);
}

/// Whether there is such a function.
pub(crate) fn has_table_filter(options: &ReadOptions) -> bool {
    options.has_table_filter
}
