//! Properties of tables, and the filters of reads that choose by them.

#![expect(unsafe_code, reason = "calls functions of the caller")]

use std::collections::BTreeMap;
use std::ffi::c_void;

use koeldb::SstFileProperties;

use crate::boundary::needed;
use crate::functions::callbacks;
use crate::handle::{self, Handle};
use crate::settings::read::ReadOptions;
use crate::text::Text;

use super::callbacks::{Destructor, State};

/// Defines the properties of a table, and the methods that return them.
macro_rules! table_properties {
    (
        numbers { $($number:ident;)* }
        flags { $($flag:ident;)* }
        texts { $($text:ident = |$of:ident| $value:expr;)* }
    ) => {
        /// The properties of a table (`rocksdb_table_properties_t`).
        #[derive(Clone)]
        pub(crate) struct TableProperties {
            $($number: u64,)*
            $($flag: bool,)*
            $($text: Text,)*
            smallest_seqno: Option<u64>,
            largest_seqno: Option<u64>,
            user: Pairs,
            readable: Pairs,
        }

        impl From<&SstFileProperties> for TableProperties {
            fn from(of: &SstFileProperties) -> Self {
                TableProperties {
                    $($number: of.$number,)*
                    $($flag: of.$flag,)*
                    $($text: { let $of = of; Text::new($value) },)*
                    smallest_seqno: of.smallest_seqno,
                    largest_seqno: of.largest_seqno,
                    user: pairs(&of.user_collected),
                    readable: pairs(&of.readable()),
                }
            }
        }

        impl TableProperties {
            $(pub(crate) fn $number(&self) -> u64 {
                self.$number
            })*

            $(pub(crate) fn $flag(&self) -> u64 {
                u64::from(self.$flag)
            })*

            $(pub(crate) fn $text(&self) -> &[u8] {
                self.$text.bytes()
            })*
        }
    };
}

table_properties! {
    numbers {
        num_entries;
        num_deletions;
        original_file_number;
        data_bytes;
        uncompressed_data_bytes;
        index_bytes;
        index_partitions;
        top_level_index_bytes;
        filter_bytes;
        raw_key_bytes;
        raw_value_bytes;
        num_data_blocks;
        num_data_blocks_compression_rejected;
        num_data_blocks_compression_bypassed;
        num_uniform_blocks;
        num_filter_entries;
        num_merge_operands;
        num_range_deletions;
        format_version;
        fixed_key_len;
        column_family_id;
        creation_time;
        oldest_key_time;
        newest_key_time;
        file_creation_time;
        slow_compression_estimated_data_bytes;
        fast_compression_estimated_data_bytes;
        global_seqno_offset;
        tail_start_offset;
        data_block_restart_interval;
        index_block_restart_interval;
    }
    flags {
        index_key_is_user_key;
        index_value_is_delta_encoded;
        udi_is_primary_index;
        user_defined_timestamps_persisted;
        separate_key_value_in_data_block;
    }
    texts {
        column_family_name = |of| &of.column_family_name;
        comparator_name = |of| &of.comparator;
        db_id = |of| &of.db_id;
        db_session_id = |of| &of.db_session_id;
        db_host_id = |of| &of.db_host_id;
        filter_policy_name = |of| &of.filter_policy_name;
        merge_operator_name = |of| &of.merge_operator_name;
        prefix_extractor_name = |of| &of.prefix_extractor_name;
        property_collectors_names = |of| &of.property_collectors_names;
        compression_name = |of| &of.compression_name;
        compression_options = |of| &of.compression_options;
        seqno_to_time_mapping = |of| &of.seqno_to_time_mapping;
    }
}

/// Properties by name.
type Pairs = Vec<(Text, Text)>;

fn pairs<B: AsRef<[u8]>>(of: &BTreeMap<B, B>) -> Pairs {
    let pairs = of.iter();
    pairs
        .map(|(name, value)| (Text::new(name), Text::new(value)))
        .collect()
}

/// The sequence number that stands for an unknown one.
const UNKNOWN: u64 = u64::MAX;

impl TableProperties {
    pub(crate) fn has_smallest_seqno(&self) -> bool {
        self.smallest_seqno.is_some()
    }

    pub(crate) fn has_largest_seqno(&self) -> bool {
        self.largest_seqno.is_some()
    }

    pub(crate) fn smallest_seqno(&self) -> u64 {
        self.smallest_seqno.unwrap_or(UNKNOWN)
    }

    pub(crate) fn largest_seqno(&self) -> u64 {
        self.largest_seqno.unwrap_or(UNKNOWN)
    }

    pub(crate) fn user_count(&self) -> usize {
        self.user.len()
    }

    pub(crate) fn user_key_at(&self, at: usize) -> Option<&[u8]> {
        self.user.get(at).map(|pair| pair.0.bytes())
    }

    pub(crate) fn user_value_at(&self, at: usize) -> Option<&[u8]> {
        self.user.get(at).map(|pair| pair.1.bytes())
    }

    pub(crate) fn readable_count(&self) -> usize {
        self.readable.len()
    }

    pub(crate) fn readable_key_at(&self, at: usize) -> Option<&[u8]> {
        self.readable.get(at).map(|pair| pair.0.bytes())
    }

    pub(crate) fn readable_value_at(&self, at: usize) -> Option<&[u8]> {
        self.readable.get(at).map(|pair| pair.1.bytes())
    }
}

/// Makes reads skip the tables for which the function returns zero; null removes the filter.
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
    options.inner.set_table_filter(move |properties| {
        let properties = Handle::new(TableProperties::from(properties));
        // SAFETY: the function takes this state and borrows the properties, as the caller promises.
        unsafe { filter(state.get(), &raw const properties) != 0 }
    });
}

/// Removes the filter of tables.
pub(crate) fn clear_table_filter(options: &mut ReadOptions) {
    options.inner.clear_table_filter();
}

/// Returns whether reads have a filter of tables.
pub(crate) fn has_table_filter(options: &ReadOptions) -> bool {
    options.inner.has_table_filter()
}
