//! Events in LOG as JSON: lines `EVENT_LOG_v1 {…}` with the names and fields of RocksDB
//! (`logging/event_logger.h`, `db/event_helpers.cc`, release 11.9), which programs read.

use std::fmt::{Display, Write as _};

use koeldb_lsm::{FileMeta, Version};
use koeldb_table::properties::TableProperties;

use crate::state::hex::hex;

/// The number of a background job in LOG; 1 is the recovery.
pub(crate) type JobId = u64;

/// The job number of the recovery.
pub(crate) const RECOVERY_JOB: JobId = 1;

/// A JSON object under construction.
#[derive(Debug, Default)]
pub(crate) struct JsonObject(String);

impl JsonObject {
    /// Begins a member with this name; returns the text for its value.
    fn key(&mut self, key: &str) -> &mut String {
        self.0.push_str(if self.0.is_empty() { "{" } else { ", " });
        quote(&mut self.0, key);
        self.0.push_str(": ");
        &mut self.0
    }

    /// Adds a number.
    pub(crate) fn number(mut self, key: &str, number: impl Display) -> Self {
        let _ = write!(self.key(key), "{number}");
        self
    }

    /// Adds a quoted string.
    pub(crate) fn text(mut self, key: &str, text: &str) -> Self {
        quote(self.key(key), text);
        self
    }

    /// Adds an array of numbers.
    pub(crate) fn numbers<N: Display>(
        mut self,
        key: &str,
        numbers: impl IntoIterator<Item = N>,
    ) -> Self {
        let texts: Vec<String> = numbers.into_iter().map(|n| n.to_string()).collect();
        let _ = write!(self.key(key), "[{}]", texts.join(", "));
        self
    }

    /// Adds a nested object.
    pub(crate) fn object(mut self, key: &str, object: JsonObject) -> Self {
        let text = object.finish();
        self.key(key).push_str(&text);
        self
    }

    /// Adds an array of objects.
    pub(crate) fn objects(
        mut self,
        key: &str,
        objects: impl IntoIterator<Item = JsonObject>,
    ) -> Self {
        let texts: Vec<String> = objects.into_iter().map(JsonObject::finish).collect();
        let _ = write!(self.key(key), "[{}]", texts.join(", "));
        self
    }

    /// Adds the array `lsm_state`: the number of tables on each level.
    pub(crate) fn lsm_state(self, version: &Version) -> Self {
        self.numbers(
            "lsm_state",
            version.levels.iter().map(|level| level.files.len()),
        )
    }

    /// Returns the text of the object.
    pub(crate) fn finish(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('{');
        }
        self.0.push('}');
        self.0
    }
}

/// Appends a JSON string.
fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Appends the members that describe the table to a `table_file_creation` event.
pub(crate) fn created_table(
    event: JsonObject,
    file: &FileMeta,
    properties: &TableProperties,
) -> JsonObject {
    let function = match file.checksum_name.is_empty() {
        true => "Unknown".into(),
        false => String::from_utf8_lossy(&file.checksum_name),
    };
    event
        .number("file_number", file.number)
        .number("file_size", file.bytes)
        .text("file_checksum", &hex(&file.checksum))
        .text("file_checksum_func_name", &function)
        .number("smallest_seqno", file.smallest_seqno)
        .number("largest_seqno", file.largest_seqno)
        .object("table_properties", of_properties(properties))
        .text("status", "OK")
}

/// Returns the table properties under RocksDB's names.
fn of_properties(properties: &TableProperties) -> JsonObject {
    let average = |bytes: u64| bytes.checked_div(properties.entry_count).unwrap_or(0);
    let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    JsonObject::default()
        .number("data_size", properties.data_bytes)
        .number("index_size", properties.index_bytes)
        .number("index_partitions", properties.index_partitions)
        .number("top_level_index_size", properties.top_level_index_bytes)
        .number("index_key_is_user_key", properties.index_key_is_user_key)
        .number(
            "index_value_is_delta_encoded",
            properties.index_value_is_delta_encoded,
        )
        .number("filter_size", properties.filter_bytes)
        .number("raw_key_size", properties.raw_key_bytes)
        .number("raw_average_key_size", average(properties.raw_key_bytes))
        .number("raw_value_size", properties.raw_value_bytes)
        .number(
            "raw_average_value_size",
            average(properties.raw_value_bytes),
        )
        .number("num_data_blocks", properties.data_block_count)
        .number("num_entries", properties.entry_count)
        .number("num_filter_entries", properties.filter_entry_count)
        .number("num_deletions", properties.deletion_count)
        .number("num_merge_operands", properties.merge_operand_count)
        .number("num_range_deletions", properties.range_deletion_count)
        .number("format_version", properties.format_version)
        .number("fixed_key_len", properties.fixed_key_bytes)
        .text("filter_policy", &text(&properties.filter_policy_name))
        .text("column_family_name", &text(&properties.column_family_name))
        .number("column_family_id", properties.column_family_id)
        .text("comparator", &text(&properties.comparator_name))
        .text("merge_operator", &text(&properties.merge_operator_name))
        .text(
            "prefix_extractor_name",
            &text(&properties.prefix_extractor_name),
        )
        .text(
            "property_collectors",
            &text(&properties.property_collector_names),
        )
        .text("compression", &text(&properties.compression_name))
        .text(
            "compression_options",
            &text(&properties.compression_options),
        )
        .number("creation_time", properties.creation_time)
        .number("oldest_key_time", properties.oldest_key_time)
        .number("newest_key_time", properties.newest_key_time)
        .number("file_creation_time", properties.file_creation_time)
        .text("db_id", &text(&properties.db_id))
        .text("db_session_id", &text(&properties.session_id))
        .number("orig_file_number", properties.original_file_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_spacing_of_rocksdb() {
        let inner = JsonObject::default().number("level", 6);
        let json = JsonObject::default()
            .number("job", 3)
            .text("event", "a \"quoted\\\" text\n")
            .numbers("files_L0", [4, 5])
            .objects("files", [inner])
            .object("none", JsonObject::default())
            .finish();
        assert_eq!(
            json,
            r#"{"job": 3, "event": "a \"quoted\\\" text\u000a", "files_L0": [4, 5], "files": [{"level": 6}], "none": {}}"#
        );
    }
}
