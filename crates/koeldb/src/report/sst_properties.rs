//! The properties of a table file.

use std::collections::BTreeMap;
use std::fmt::Write;

use koeldb_base::{Result, SeqNo};
use koeldb_table::properties::{TableProperties, names};

/// Properties of a table file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstFileProperties {
    /// The number of entries, including range tombstones.
    pub num_entries: u64,
    /// The number of deletions, including range tombstones.
    pub num_deletions: u64,
    /// The name of the column family for which the table was written; empty if it is not recorded.
    pub column_family_name: String,
    /// The name of the comparator; empty if it is not recorded.
    pub comparator: String,
    /// The id of the database that wrote the table; empty if it is not recorded.
    pub db_id: String,
    /// The session id of the database that wrote the table; empty if it is not recorded.
    pub db_session_id: String,
    /// The version of external files; `None` for a table that a database wrote.
    pub external_version: Option<u32>,
    /// The number of the file when it was written; 0 if it is not recorded.
    pub original_file_number: u64,
    /// The size of the data blocks, in bytes.
    pub data_bytes: u64,
    /// The size of the data blocks before compression, in bytes. Known in the event of a block-based
    /// table that was just written; 0 otherwise, as files do not record it.
    pub uncompressed_data_bytes: u64,
    /// The size of the index, in bytes.
    pub index_bytes: u64,
    /// The number of partitions of a two-level index; 0 for other indexes.
    pub index_partitions: u64,
    /// The size of the top level of a two-level index, in bytes; 0 for other indexes.
    pub top_level_index_bytes: u64,
    /// Whether the keys of the index lack sequence numbers.
    pub index_key_is_user_key: bool,
    /// Whether the values of the index are delta-encoded.
    pub index_value_is_delta_encoded: bool,
    /// Whether entries are found only through the index of a plug-in. Such tables cannot be opened.
    pub udi_is_primary_index: bool,
    /// The size of the filter, in bytes.
    pub filter_bytes: u64,
    /// The size of all keys before compression, in bytes, with sequence numbers and types.
    pub raw_key_bytes: u64,
    /// The size of all values before compression, in bytes.
    pub raw_value_bytes: u64,
    /// The number of data blocks.
    pub num_data_blocks: u64,
    /// The number of data blocks that are uncompressed because compression did not save enough.
    pub num_data_blocks_compression_rejected: u64,
    /// The number of data blocks that were not given to a codec.
    pub num_data_blocks_compression_bypassed: u64,
    /// The number of index blocks with uniformly distributed keys.
    pub num_uniform_blocks: u64,
    /// The number of keys and prefixes in the filter.
    pub num_filter_entries: u64,
    /// The number of merge operands.
    pub num_merge_operands: u64,
    /// The number of range tombstones.
    pub num_range_deletions: u64,
    /// The version of the table format.
    pub format_version: u64,
    /// The length of all keys of a plain table, in bytes; 0 if it varies.
    pub fixed_key_len: u64,
    /// The id of the column family for which the table was written; 2147483647 if it is not known.
    pub column_family_id: u64,
    /// The time of the oldest data in the table, in seconds since 1970; 0 if it is not known.
    pub creation_time: u64,
    /// The time of the oldest write in the table, in seconds since 1970; 0 if it is not known.
    pub oldest_key_time: u64,
    /// The time of the newest write in the table, in seconds since 1970; 0 if it is not known.
    pub newest_key_time: u64,
    /// The time when the file was written, in seconds since 1970; 0 if it is not known.
    pub file_creation_time: u64,
    /// The estimated size of the data with a slow codec, in bytes (`sample_for_compression`); 0 if it
    /// is not known.
    pub slow_compression_estimated_data_bytes: u64,
    /// The estimated size of the data with a fast codec, in bytes (`sample_for_compression`); 0 if it
    /// is not known.
    pub fast_compression_estimated_data_bytes: u64,
    /// The place of the global sequence number in the file of an ingested block-based table; 0 without
    /// one.
    pub global_seqno_offset: u64,
    /// The place in the file where index, filter and metadata begin; 0 if it is not recorded.
    pub tail_start_offset: u64,
    /// Whether keys are stored with their timestamps, if they have any.
    pub user_defined_timestamps_persisted: bool,
    /// The number of keys from one restart point of data blocks to the next; 0 if it is not recorded.
    pub data_block_restart_interval: u64,
    /// The number of keys from one restart point of index blocks to the next; 0 if it is not recorded.
    pub index_block_restart_interval: u64,
    /// Whether data blocks may store keys and values in separate sections.
    pub separate_key_value_in_data_block: bool,
    /// The host of the database that wrote the table; empty if it is not recorded.
    pub db_host_id: String,
    /// The name of the filter policy; empty without a filter.
    pub filter_policy_name: String,
    /// The name of the merge operator; `nullptr` without one, empty if it is not recorded.
    pub merge_operator_name: String,
    /// The name of the prefix extractor; `nullptr` without one, empty if it is not recorded.
    pub prefix_extractor_name: String,
    /// The names of the collectors of properties, such as `[a,b]`.
    pub property_collectors_names: String,
    /// The codec, or from format version 7 on the numbers of the codecs that were used.
    pub compression_name: String,
    /// The compression options, as text.
    pub compression_options: String,
    /// The times of sequence numbers, in RocksDB's encoding; empty if they are not recorded.
    pub seqno_to_time_mapping: Vec<u8>,
    /// The smallest sequence number in the table; `None` if it is not recorded.
    pub smallest_seqno: Option<SeqNo>,
    /// The largest sequence number in the table; `None` if it is not recorded.
    pub largest_seqno: Option<SeqNo>,
    /// The other properties by name, such as the index type of a block-based table and the smallest
    /// and largest timestamp. Values are bytes.
    pub user_collected: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl SstFileProperties {
    /// Parses table properties; returns an error if one is malformed.
    pub(crate) fn of(properties: &TableProperties) -> Result<Self> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(SstFileProperties {
            num_entries: properties.entry_count,
            num_deletions: properties.deletion_count,
            column_family_name: text(&properties.column_family_name),
            comparator: text(&properties.comparator_name),
            db_id: text(&properties.db_id),
            db_session_id: text(&properties.session_id),
            external_version: properties.external_version()?,
            original_file_number: properties.original_file_number,
            data_bytes: properties.data_bytes,
            uncompressed_data_bytes: properties.uncompressed_data_bytes,
            index_bytes: properties.index_bytes,
            index_partitions: properties.index_partitions,
            top_level_index_bytes: properties.top_level_index_bytes,
            index_key_is_user_key: properties.index_key_is_user_key != 0,
            index_value_is_delta_encoded: properties.index_value_is_delta_encoded != 0,
            udi_is_primary_index: properties.udi_is_primary_index != 0,
            filter_bytes: properties.filter_bytes,
            raw_key_bytes: properties.raw_key_bytes,
            raw_value_bytes: properties.raw_value_bytes,
            num_data_blocks: properties.data_block_count,
            num_data_blocks_compression_rejected: properties.compression_rejected_count,
            num_data_blocks_compression_bypassed: properties.compression_bypassed_count,
            num_uniform_blocks: properties.uniform_block_count,
            num_filter_entries: properties.filter_entry_count,
            num_merge_operands: properties.merge_operand_count,
            num_range_deletions: properties.range_deletion_count,
            format_version: properties.format_version,
            fixed_key_len: properties.fixed_key_bytes,
            column_family_id: properties.column_family_id,
            creation_time: properties.creation_time,
            oldest_key_time: properties.oldest_key_time,
            newest_key_time: properties.newest_key_time,
            file_creation_time: properties.file_creation_time,
            slow_compression_estimated_data_bytes: properties.slow_compression_data_bytes,
            fast_compression_estimated_data_bytes: properties.fast_compression_data_bytes,
            global_seqno_offset: properties.global_seqno_offset,
            tail_start_offset: properties.tail_start_offset,
            user_defined_timestamps_persisted: properties.user_timestamps_persisted != 0,
            data_block_restart_interval: properties.data_block_restart_interval,
            index_block_restart_interval: properties.index_block_restart_interval,
            separate_key_value_in_data_block: properties.separate_key_value_in_data_block != 0,
            db_host_id: text(&properties.host_id),
            filter_policy_name: text(&properties.filter_policy_name),
            merge_operator_name: text(&properties.merge_operator_name),
            prefix_extractor_name: text(&properties.prefix_extractor_name),
            property_collectors_names: text(&properties.property_collector_names),
            compression_name: text(&properties.compression_name),
            compression_options: text(&properties.compression_options),
            seqno_to_time_mapping: properties.seqno_to_time_mapping.clone(),
            smallest_seqno: properties.smallest_seqno,
            largest_seqno: properties.largest_seqno,
            user_collected: properties.user_collected.clone(),
        })
    }

    /// Returns the user-collected properties that have a form for people, with their names.
    ///
    /// These are the version of an external file, and timestamps in hexadecimal digits.
    #[must_use]
    pub fn readable(&self) -> BTreeMap<String, String> {
        let mut readable = BTreeMap::new();
        if let Some(version) = self.external_version {
            readable.insert(names::EXTERNAL_VERSION.to_owned(), version.to_string());
        }
        for name in [names::TIMESTAMP_MIN, names::TIMESTAMP_MAX] {
            if let Some(timestamp) = self.user_collected.get(name.as_bytes()) {
                let digits = timestamp.iter().fold(String::new(), |mut digits, byte| {
                    let _ = write!(digits, "{byte:02X}");
                    digits
                });
                readable.insert(name.to_owned(), digits);
            }
        }
        readable
    }
}
