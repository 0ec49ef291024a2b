//! Table properties: counts, sizes, names, and parameters for reading.
//!
//! Stored as a block of entries with strictly ascending names; numbers are varints, texts raw
//! bytes. Unknown properties are kept among the user's (`table/meta_blocks.cc`, RocksDB 11.9;
//! `docs/formats/block-based-table.md`).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::collections::BTreeMap;

use koeldb_base::checksum::xxh3_128;
use koeldb_base::coding;
use koeldb_base::key::MAX_SEQNO;
use koeldb_base::{Error, Result, SeqNo, Timestamp};

use crate::format::IndexType;

/// The column family id of tables whose family is unknown.
pub const UNKNOWN_COLUMN_FAMILY_ID: u64 = (1 << 31) - 1;

/// Names of properties that RocksDB stores among the user-collected ones.
pub mod names {
    /// The index type: fixed32.
    pub const INDEX_TYPE: &str = "rocksdb.block.based.table.index.type";
    /// Whether filters contain whole keys: `1` or `0`.
    pub const WHOLE_KEY_FILTERING: &str = "rocksdb.block.based.table.whole.key.filtering";
    /// Whether filters contain prefixes: `1` or `0`.
    pub const PREFIX_FILTERING: &str = "rocksdb.block.based.table.prefix.filtering";
    /// Whether filter partitions are cut independently of index partitions: `1` or `0`.
    pub const DECOUPLED_PARTITIONED_FILTERS: &str =
        "rocksdb.block.based.table.decoupled.partitioned.filters";
    /// The version of a file written outside a database: fixed32.
    pub const EXTERNAL_VERSION: &str = "rocksdb.external_sst_file.version";
    /// The sequence number of all entries of a file written outside a database: fixed64.
    pub const GLOBAL_SEQNO: &str = "rocksdb.external_sst_file.global_seqno";
    /// Present if values of the table are in the table's own blob records.
    pub const EMBEDDED_BLOBS: &str = "rocksdb.embedded.blob.stats";
    /// The smallest user-defined timestamp of a table with timestamps.
    pub const TIMESTAMP_MIN: &str = "rocksdb.timestamp_min";
    /// The largest user-defined timestamp of a table with timestamps.
    pub const TIMESTAMP_MAX: &str = "rocksdb.timestamp_max";
    /// KoelDB: `1` if another rewrite of the table would remove no old version or deletion.
    pub const SETTLED: &str = "koeldb.settled";
    /// KoelDB: the sequence number up to which all entries of the column family were in tables when
    /// the table was written: fixed64.
    pub const FLUSHED_SEQNO: &str = "koeldb.flushed.seqno";
    /// KoelDB: the references to each blob file ([`crate::blob::references`]).
    pub const BLOB_REFERENCES: &str = "koeldb.blob.refs";
}

/// The condition under which a numeric property is written to the properties block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Always,
    NotZero,
    /// Only if the index is partitioned.
    Partitioned,
    /// Only if zero, which is not the default for a missing property.
    Zero,
}

/// A numeric property (varint64): its name, and its field in [`TableProperties`].
struct NumberProperty {
    name: &'static str,
    written: Written,
    get: fn(&TableProperties) -> u64,
    get_mut: fn(&mut TableProperties) -> &mut u64,
}

/// A byte string property: its name, and its field in [`TableProperties`].
struct TextProperty {
    name: &'static str,
    get: fn(&TableProperties) -> &Vec<u8>,
    get_mut: fn(&mut TableProperties) -> &mut Vec<u8>,
}

macro_rules! table_properties {
    (
        numbers { $($(#[$number_doc:meta])* $number:ident = $number_name:literal, $written:ident;)* }
        texts { $($(#[$text_doc:meta])* $text:ident = $text_name:literal;)* }
    ) => {
        /// The properties of one table.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct TableProperties {
            $($(#[$number_doc])* pub $number: u64,)*
            $($(#[$text_doc])* pub $text: Vec<u8>,)*
            /// The smallest sequence number in the table, if it is recorded.
            pub smallest_seqno: Option<SeqNo>,
            /// The largest sequence number in the table, if it is recorded.
            pub largest_seqno: Option<SeqNo>,
            /// The size of all data blocks before compression, without trailers. Not stored: 0 for a
            /// table that was opened, and in formats without blocks.
            pub uncompressed_data_bytes: u64,
            /// The place of the global sequence number in the file of a block-based table, if it has
            /// that property; 0 otherwise, and while the table is being built. Not stored.
            pub global_seqno_offset: u64,
            /// Other properties, by name; some of them ([`names`]) are RocksDB's own.
            pub user_collected: BTreeMap<Vec<u8>, Vec<u8>>,
        }

        impl TableProperties {
            /// Returns properties in which all numbers are 0 and all strings empty.
            const fn empty() -> Self {
                TableProperties {
                    $($number: 0,)*
                    $($text: Vec::new(),)*
                    smallest_seqno: None,
                    largest_seqno: None,
                    uncompressed_data_bytes: 0,
                    global_seqno_offset: 0,
                    user_collected: BTreeMap::new(),
                }
            }
        }

        const NUMBERS: &[NumberProperty] = &[
            $(NumberProperty {
                name: $number_name,
                written: Written::$written,
                get: |properties| properties.$number,
                get_mut: |properties| &mut properties.$number,
            },)*
        ];

        const TEXTS: &[TextProperty] = &[
            $(TextProperty {
                name: $text_name,
                get: |properties| &properties.$text,
                get_mut: |properties| &mut properties.$text,
            },)*
        ];
    };
}

table_properties! {
    numbers {
        /// The number in the file's original name.
        original_file_number = "rocksdb.original.file.number", Always;
        /// The total size of internal keys, uncompressed.
        raw_key_bytes = "rocksdb.raw.key.size", Always;
        /// The total size of values, uncompressed.
        raw_value_bytes = "rocksdb.raw.value.size", Always;
        /// The size of all data blocks, including trailers.
        data_bytes = "rocksdb.data.size", Always;
        /// The size of the index, including trailers.
        index_bytes = "rocksdb.index.size", Always;
        /// The number of partitions of a two-level index.
        index_partitions = "rocksdb.index.partitions", Partitioned;
        /// The size of a two-level index's top level.
        top_level_index_bytes = "rocksdb.top-level.index.size", Partitioned;
        /// 1 if index keys are user keys.
        index_key_is_user_key = "rocksdb.index.key.is.user.key", Always;
        /// 1 if index values are delta-encoded.
        index_value_is_delta_encoded = "rocksdb.index.value.is.delta.encoded", Always;
        /// 1 if entries can be found only through a plug-in's index.
        udi_is_primary_index = "rocksdb.udi.is.primary.index", NotZero;
        /// The number of entries, including deletions, merge operands and range tombstones.
        entry_count = "rocksdb.num.entries", Always;
        /// The number of keys and prefixes added to the filter.
        filter_entry_count = "rocksdb.num.filter_entries", Always;
        /// The number of deletions, including single and range deletions.
        deletion_count = "rocksdb.deleted.keys", Always;
        /// The number of merge operands.
        merge_operand_count = "rocksdb.merge.operands", Always;
        /// The number of range tombstones.
        range_deletion_count = "rocksdb.num.range-deletions", Always;
        /// The number of data blocks.
        data_block_count = "rocksdb.num.data.blocks", Always;
        /// The number of data blocks stored raw because compression did not pay.
        compression_rejected_count = "rocksdb.num.data.blocks.compression.rejected", NotZero;
        /// The number of data blocks that bypassed the compressor.
        compression_bypassed_count = "rocksdb.num.data.blocks.compression.bypassed", NotZero;
        /// The number of index blocks with uniformly distributed keys.
        uniform_block_count = "rocksdb.num.uniform.blocks", Always;
        /// The size of the filter, including trailers.
        filter_bytes = "rocksdb.filter.size", Always;
        /// The format version, as in the footer.
        format_version = "rocksdb.format.version", Always;
        /// The length of all keys of a plain table; 0 if it varies.
        fixed_key_bytes = "rocksdb.fixed.key.length", Always;
        /// The column family's id.
        column_family_id = "rocksdb.column.family.id", Always;
        /// The creation time of the oldest input, in seconds since 1970; 0 unknown.
        creation_time = "rocksdb.creation.time", Always;
        /// The write time of the oldest entry, in seconds since 1970; 0 unknown.
        oldest_key_time = "rocksdb.oldest.key.time", Always;
        /// The write time of the newest entry, in seconds since 1970; 0 unknown.
        newest_key_time = "rocksdb.newest.key.time", Always;
        /// The creation time of this file, in seconds since 1970; 0 unknown.
        file_creation_time = "rocksdb.file.creation.time", NotZero;
        /// The estimated size if a slow codec had compressed the sampled blocks.
        slow_compression_data_bytes = "rocksdb.sample_for_compression.slow.data.size", NotZero;
        /// The estimated size if a fast codec had compressed the sampled blocks.
        fast_compression_data_bytes = "rocksdb.sample_for_compression.fast.data.size", NotZero;
        /// The offset of the sections after the data blocks.
        tail_start_offset = "rocksdb.tail.start.offset", Always;
        /// 0 if user-defined timestamps were stripped from the keys; 1 otherwise.
        user_timestamps_persisted = "rocksdb.user.defined.timestamps.persisted", Zero;
        /// The restart interval of data blocks; 0 unknown.
        data_block_restart_interval = "rocksdb.data.block.restart.interval", NotZero;
        /// The restart interval of index blocks; 0 unknown.
        index_block_restart_interval = "rocksdb.index.block.restart.interval", NotZero;
        /// 1 if data blocks may store keys and values in separate sections.
        separate_key_value_in_data_block = "rocksdb.separate.key.value.in.data.block", NotZero;
        /// The number of entries with a newer entry of their key in the table; 0 also if unknown.
        older_version_count = "koeldb.older.versions", NotZero;
    }
    texts {
        /// The identity of the database that wrote the file.
        db_id = "rocksdb.creating.db.identity";
        /// The session id of the database that wrote the file.
        session_id = "rocksdb.creating.session.identity";
        /// The host id of the database that wrote the file.
        host_id = "rocksdb.creating.host.identity";
        /// The name of the filter policy.
        filter_policy_name = "rocksdb.filter.policy";
        /// The name of the comparator.
        comparator_name = "rocksdb.comparator";
        /// The name of the merge operator, `nullptr` without one.
        merge_operator_name = "rocksdb.merge.operator";
        /// The name of the prefix extractor, `nullptr` without one.
        prefix_extractor_name = "rocksdb.prefix.extractor.name";
        /// The names of the property collectors: `[a,b]`.
        property_collector_names = "rocksdb.property.collectors";
        /// The name of the column family.
        column_family_name = "rocksdb.column.family.name";
        /// The codecs, in the syntax of the format version.
        compression_name = "rocksdb.compression";
        /// The compression options in readable form.
        compression_options = "rocksdb.compression_options";
        /// Encoded pairs of sequence number and time.
        seqno_to_time_mapping = "rocksdb.seqno.time.map";
    }
}

const LARGEST_SEQNO: &str = "rocksdb.key.largest.seqno";
const SMALLEST_SEQNO: &str = "rocksdb.key.smallest.seqno";

impl Default for TableProperties {
    fn default() -> Self {
        TableProperties {
            user_timestamps_persisted: 1,
            column_family_id: UNKNOWN_COLUMN_FAMILY_ID,
            ..Self::empty()
        }
    }
}

impl TableProperties {
    /// Encodes the properties as names and values, ordered by name, for the properties block.
    #[must_use]
    pub fn encode(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = self.user_collected.clone();
        let mut put_number = |name: &str, number: u64| {
            let mut value = Vec::new();
            coding::put_varint64(&mut value, number);
            entries.insert(name.into(), value);
        };
        for property in NUMBERS {
            let number = (property.get)(self);
            let written = match property.written {
                Written::Always => true,
                Written::NotZero => number != 0,
                Written::Partitioned => self.index_partitions != 0,
                Written::Zero => number == 0,
            };
            if written {
                put_number(property.name, number);
            }
        }
        for (name, seqno) in [
            (LARGEST_SEQNO, self.largest_seqno),
            (SMALLEST_SEQNO, self.smallest_seqno),
        ] {
            if let Some(seqno) = seqno {
                put_number(name, seqno);
            }
        }
        for property in TEXTS {
            let text = (property.get)(self);
            if !text.is_empty() {
                entries.insert(property.name.into(), text.clone());
            }
        }
        entries.into_iter().collect()
    }

    /// Decodes names and values of a properties block; a malformed number counts as absent.
    ///
    /// # Errors
    /// `Corruption` if the names are not strictly ascending.
    pub fn decode<'a>(entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<Self> {
        let mut properties = Self::default();
        let mut previous: Option<&[u8]> = None;
        for (name, value) in entries {
            if previous.is_some_and(|previous| previous >= name) {
                return Err(Error::corruption("properties unsorted"));
            }
            previous = Some(name);
            properties.set(name, value);
        }
        Ok(properties)
    }

    /// Sets the property with this stored name; an unknown one becomes user-collected.
    fn set(&mut self, name: &[u8], value: &[u8]) {
        let number = || coding::decode_varint64(value).map(|(number, _)| number);
        if let Some(property) = NUMBERS.iter().find(|p| p.name.as_bytes() == name) {
            if let Some(number) = number() {
                *(property.get_mut)(self) = number;
            }
        } else if let Some(property) = TEXTS.iter().find(|p| p.name.as_bytes() == name) {
            *(property.get_mut)(self) = value.to_vec();
        } else if name == LARGEST_SEQNO.as_bytes() {
            self.largest_seqno = number().filter(|&seqno| seqno <= MAX_SEQNO);
        } else if name == SMALLEST_SEQNO.as_bytes() {
            self.smallest_seqno = number().filter(|&seqno| seqno <= MAX_SEQNO);
        } else {
            self.user_collected.insert(name.to_vec(), value.to_vec());
        }
    }

    /// Returns the value of a user-collected property; `None` if the table lacks it.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&[u8]> {
        self.user_collected.get(name.as_bytes()).map(Vec::as_slice)
    }

    /// Sets a user-collected property.
    pub fn set_user(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.user_collected.insert(name.into(), value.into());
    }

    /// Returns the smallest and the largest user-defined timestamp; `None` if the table lacks them.
    #[must_use]
    pub fn timestamps(&self) -> Option<(Timestamp, Timestamp)> {
        let of = |name| Timestamp::try_from(self.user(name)?).ok();
        Some((of(names::TIMESTAMP_MIN)?, of(names::TIMESTAMP_MAX)?))
    }

    /// Sets a flag among the user-collected properties, as `1` or `0`.
    pub fn set_user_flag(&mut self, name: &str, flag: bool) {
        self.set_user(name, if flag { *b"1" } else { *b"0" });
    }

    /// Returns a user-collected property that is a flag (`1` or `0`); `None` if the table lacks it.
    #[must_use]
    pub fn user_flag(&self, name: &str) -> Option<bool> {
        self.user(name).map(|value| value == b"1")
    }

    /// Returns the recorded index type of a block-based table.
    ///
    /// # Errors
    /// `Corruption` if the property is missing, malformed or unknown.
    pub fn index_type(&self) -> Result<IndexType> {
        let value = self
            .user(names::INDEX_TYPE)
            .ok_or_else(|| Error::corruption("Missing index type property"))?;
        let number = fixed32(value, names::INDEX_TYPE)?;
        IndexType::from_number(number)
            .ok_or_else(|| Error::corruption(format!("unrecognized index type {number}")))
    }

    /// Returns the version of an external SST file (`SstFileWriter`); `None` for other tables.
    ///
    /// # Errors
    /// `Corruption` if the property is malformed.
    pub fn external_version(&self) -> Result<Option<u32>> {
        self.user(names::EXTERNAL_VERSION)
            .map(|value| fixed32(value, names::EXTERNAL_VERSION))
            .transpose()
    }

    /// Returns the recorded sequence number up to which the column family was flushed to tables.
    ///
    /// Returns `None` unless the table records it as table `number` of database `db_id`.
    /// Under another number the record may be of another database.
    #[must_use]
    pub fn recorded_flushed_seqno(&self, db_id: &str, number: u64) -> Option<SeqNo> {
        let is_own = self.db_id == db_id.as_bytes() && self.original_file_number == number;
        let recorded = self.user(names::FLUSHED_SEQNO).filter(|_| is_own)?;
        recorded.try_into().ok().map(SeqNo::from_le_bytes)
    }

    /// Returns the recorded flushed sequence number, or `largest` if the table does not record it.
    ///
    /// `largest` is the largest sequence number in the table. For a file written outside a database
    /// the result is 0 instead of `largest`.
    #[must_use]
    pub fn flushed_seqno(&self, db_id: &str, number: u64, largest: SeqNo) -> SeqNo {
        let is_external = self.user(names::EXTERNAL_VERSION).is_some();
        let recorded = self.recorded_flushed_seqno(db_id, number);
        recorded.unwrap_or(if is_external { 0 } else { largest })
    }

    /// Whether the table contains its large values as blob records in the same file.
    #[must_use]
    pub fn has_embedded_blobs(&self) -> bool {
        self.user(names::EMBEDDED_BLOBS).is_some()
    }

    /// Returns the global sequence number recorded in an ingested external SST file.
    ///
    /// # Errors
    /// `Corruption` if the property is malformed.
    pub fn recorded_global_seqno(&self) -> Result<Option<SeqNo>> {
        self.user(names::GLOBAL_SEQNO)
            .map(|value| match <[u8; 8]>::try_from(value) {
                Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
                Err(_) => Err(malformed(names::GLOBAL_SEQNO, value)),
            })
            .transpose()
    }

    /// Returns the internal unique ID of the table; `None` if its parts are not recorded.
    ///
    /// The parts are database id, session id and file number.
    #[must_use]
    pub fn unique_id(&self) -> Option<[u64; 2]> {
        unique_id(&self.db_id, &self.session_id, self.original_file_number)
    }
}

/// Computes a table's internal unique ID from database ID, session ID and file number.
///
/// `None` if one is missing or the session id is malformed.
#[must_use]
pub fn unique_id(db_id: &[u8], session_id: &[u8], file_number: u64) -> Option<[u64; 2]> {
    if db_id.is_empty() || file_number == 0 {
        return None;
    }
    let (upper, lower) = decode_session_id(session_id)?;
    let high = (xxh3_128(db_id, upper) >> 64) as u64;
    Some([lower, high ^ file_number])
}

/// Decodes a session ID (base 36) into two numbers; `None` if it is malformed.
fn decode_session_id(text: &[u8]) -> Option<(u64, u64)> {
    if !(13..=24).contains(&text.len()) {
        return None;
    }
    let split = text.len().checked_sub(12)?;
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_u64, |number, &digit| {
            let digit = char::from(digit).to_digit(36)?;
            Some(number.wrapping_mul(36).wrapping_add(u64::from(digit)))
        })
    };
    let a = number(text.get(..split)?)?;
    let b = number(text.get(split..)?)?;
    Some((a >> 2, (b & ((1 << 62) - 1)) | ((a & 3) << 62)))
}

/// Decodes the fixed32 value of the property `name`.
fn fixed32(value: &[u8], name: &str) -> Result<u32> {
    match <[u8; 4]>::try_from(value) {
        Ok(bytes) => Ok(u32::from_le_bytes(bytes)),
        Err(_) => Err(malformed(name, value)),
    }
}

/// Creates the `Corruption` error of the property `name`, whose value has a wrong length.
fn malformed(name: &str, value: &[u8]) -> Error {
    Error::corruption(format!("property {name} of {} bytes", value.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(entries: &[(Vec<u8>, Vec<u8>)]) -> impl Iterator<Item = (&[u8], &[u8])> {
        entries.iter().map(|(name, value)| (&name[..], &value[..]))
    }

    #[test]
    fn properties_round_trip_in_order_of_their_names() {
        let mut properties = TableProperties {
            entry_count: 300,
            index_partitions: 2,
            user_timestamps_persisted: 0,
            largest_seqno: Some(9),
            comparator_name: b"leveldb.BytewiseComparator".to_vec(),
            ..TableProperties::default()
        };
        properties.set_user(names::INDEX_TYPE, 2_u32.to_le_bytes());
        properties.set_user_flag(names::WHOLE_KEY_FILTERING, true);
        let entries = properties.encode();
        assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let decoded = TableProperties::decode(pairs(&entries)).unwrap();
        assert_eq!(decoded, properties);
        assert_eq!(decoded.index_type().unwrap(), IndexType::TwoLevel);
        assert_eq!(decoded.user_flag(names::WHOLE_KEY_FILTERING), Some(true));
        let unsorted = [entries[1].clone(), entries[0].clone()];
        assert!(TableProperties::decode(pairs(&unsorted)).is_err());
    }

    #[test]
    fn a_malformed_number_counts_as_not_written() {
        let entries = [(b"rocksdb.num.entries".to_vec(), vec![0xff])];
        let decoded = TableProperties::decode(pairs(&entries)).unwrap();
        assert_eq!(decoded.entry_count, 0);
        assert!(decoded.index_type().is_err());
    }

    #[test]
    fn the_unique_id_is_the_one_of_rocksdb() {
        let id = unique_id(
            b"8d0ef167-164f-475f-8e4c-69b5580f67d1",
            b"PY3E2YGLL457991GRLKW",
            11,
        )
        .unwrap();
        let mut stored = id[0].to_le_bytes().to_vec();
        stored.extend_from_slice(&id[1].to_le_bytes());
        assert_eq!(
            stored,
            [
                0x00, 0x2a, 0xcb, 0x6e, 0x93, 0xbb, 0x91, 0x66, 0xcd, 0xd3, 0x33, 0x41, 0xd7, 0x52,
                0x28, 0x34
            ]
        );
        assert_eq!(unique_id(b"", b"PY3E2YGLL457991GRLKW", 11), None);
    }
}
