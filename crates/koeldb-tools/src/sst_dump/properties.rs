//! Prints the properties of a table.

use std::fmt::Display;
use std::io::Write;

use koeldb_base::coding;
use koeldb_table::{TableProperties, TableReader};

use super::Trouble;
use super::table::OpenTable;
use crate::json::{Json, JsonValue};

/// Prints the table properties in the format of RocksDB's tool, or as one JSON object.
///
/// JSON members have the stored names of the properties.
pub(super) fn write(table: &OpenTable, json: bool, out: &mut impl Write) -> Result<(), Trouble> {
    if json {
        let mut object = table.json();
        object
            .set("format", table.format_name())
            .set("properties", properties_json(table));
        writeln!(out, "{}", object.finish())?;
        return Ok(());
    }
    writeln!(out, "Table Properties:\n{}", "-".repeat(30))?;
    write_lines(table, "  ", ": ", out)?;
    if let TableReader::Cuckoo(reader) = &*table.reader {
        writeln!(out, "  Hash table\n{}", "-".repeat(30))?;
        write!(out, "{}", reader.layout())?;
    }
    writeln!(out, "  Raw user collected properties\n{}", "-".repeat(30))?;
    for (name, value) in &table.properties().user_collected {
        let name = String::from_utf8_lossy(name);
        writeln!(out, "  # {name}: 0x{}", crate::text::hex(value))?;
    }
    Ok(())
}

/// Prints the table properties, one per line, with `indent` before and `between` name and value.
pub(super) fn write_lines(
    table: &OpenTable,
    indent: &str,
    between: &str,
    out: &mut impl Write,
) -> std::io::Result<()> {
    for (name, value) in lines(table) {
        writeln!(out, "{indent}{name}{between}{value}")?;
    }
    Ok(())
}

/// Returns the mean `sum / count` as text; a `count` of 0 divides by 1.
#[expect(clippy::cast_precision_loss, reason = "a mean is an approximation")]
fn average(sum: u64, count: u64) -> String {
    format!("{:.6}", sum as f64 / count.max(1) as f64)
}

/// Table property names and values, in the order and wording of RocksDB's tool.
#[derive(Default)]
struct Lines(Vec<(String, String)>);

impl Lines {
    /// Adds a property.
    fn add(&mut self, name: &str, value: impl Display) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    /// Adds a property that is text; an empty one is shown as `N/A`.
    fn add_text(&mut self, name: &str, bytes: &[u8]) {
        match bytes {
            [] => self.add(name, "N/A"),
            bytes => self.add(name, String::from_utf8_lossy(bytes)),
        }
    }
}

/// Returns the table properties' names and values, in output order.
fn lines(table: &OpenTable) -> Vec<(String, String)> {
    let mut lines = Lines::default();
    add_sizes(&mut lines, table.properties());
    add_settings(&mut lines, table.properties());
    add_origin(&mut lines, table.properties());
    lines.0
}

/// Adds the properties that are counts and sizes of blocks and entries.
fn add_sizes(lines: &mut Lines, p: &TableProperties) {
    lines.add("# data blocks", p.data_block_count);
    lines.add(
        "# data blocks compression rejected",
        p.compression_rejected_count,
    );
    lines.add(
        "# data blocks compression bypassed",
        p.compression_bypassed_count,
    );
    lines.add("# uniform blocks", p.uniform_block_count);
    lines.add("# entries", p.entry_count);
    lines.add("# deletions", p.deletion_count);
    lines.add("# merge operands", p.merge_operand_count);
    lines.add("# range deletions", p.range_deletion_count);
    lines.add("raw key size", p.raw_key_bytes);
    lines.add(
        "raw average key size",
        average(p.raw_key_bytes, p.entry_count),
    );
    lines.add("raw value size", p.raw_value_bytes);
    lines.add(
        "raw average value size",
        average(p.raw_value_bytes, p.entry_count),
    );
    lines.add("data block size", p.data_bytes);
    let index_name = format!(
        "index block size (user-key? {}, delta-value? {})",
        p.index_key_is_user_key, p.index_value_is_delta_encoded
    );
    lines.add(&index_name, p.index_bytes);
    if p.index_partitions > 0 {
        lines.add("# index partitions", p.index_partitions);
        lines.add("top-level index size", p.top_level_index_bytes);
    }
    lines.add("filter block size", p.filter_bytes);
    lines.add("# entries for filter", p.filter_entry_count);
    let estimate = p.data_bytes + p.index_bytes + p.filter_bytes;
    lines.add("(estimated) table size", estimate);
}

/// Adds the properties that are settings with which the table was built.
fn add_settings(lines: &mut Lines, p: &TableProperties) {
    lines.add_text("filter policy name", &p.filter_policy_name);
    lines.add_text("prefix extractor name", &p.prefix_extractor_name);
    lines.add("column family ID", p.column_family_id);
    lines.add_text("column family name", &p.column_family_name);
    lines.add_text("comparator name", &p.comparator_name);
    lines.add(
        "user defined timestamps persisted",
        (p.user_timestamps_persisted != 0).to_string(),
    );
    let seqno =
        |seqno: Option<u64>| seqno.map_or_else(|| "N/A".to_owned(), |seqno| seqno.to_string());
    lines.add("largest sequence number in file", seqno(p.largest_seqno));
    lines.add("smallest sequence number in file", seqno(p.smallest_seqno));
    lines.add_text("merge operator name", &p.merge_operator_name);
    lines.add_text("property collectors names", &p.property_collector_names);
    lines.add_text("SST file compression algo", &p.compression_name);
    lines.add_text("SST file compression options", &p.compression_options);
}

/// Adds the properties about when and where the table was built.
fn add_origin(lines: &mut Lines, p: &TableProperties) {
    lines.add("creation time", p.creation_time);
    lines.add("time stamp of earliest key", p.oldest_key_time);
    lines.add("time stamp of newest key", p.newest_key_time);
    lines.add("file creation time", p.file_creation_time);
    lines.add(
        "slow compression estimated data size",
        p.slow_compression_data_bytes,
    );
    lines.add(
        "fast compression estimated data size",
        p.fast_compression_data_bytes,
    );
    lines.add_text("DB identity", &p.db_id);
    lines.add_text("DB session identity", &p.session_id);
    lines.add_text("DB host id", &p.host_id);
    lines.add("original file number", p.original_file_number);
    lines.add("format version", p.format_version);
    let id = p.unique_id();
    let id = id.map_or_else(|| "N/A".to_owned(), |[a, b]| format!("{a:016X}-{b:016X}"));
    lines.add("internal unique ID", id);
}

/// Returns the table properties as JSON, under their stored names.
///
/// Numbers and texts are written as such, other bytes in hexadecimal.
fn properties_json(table: &OpenTable) -> Json {
    let mut json = Json::object();
    let properties = table.properties();
    for (name, value) in properties.encode() {
        let is_user = properties.user_collected.contains_key(&name);
        let name = String::from_utf8_lossy(&name);
        match coding::decode_varint64(&value) {
            Some((number, used)) if !is_user && used == value.len() && !is_text(&name) => {
                json.set(&name, number)
            }
            _ if !is_user && is_text(&name) => {
                json.set(&name, String::from_utf8_lossy(&value).as_ref())
            }
            _ => json.set(&name, JsonValue::Hex(&value)),
        };
    }
    json
}

/// Returns whether RocksDB stores text in the built-in property called `name`.
fn is_text(name: &str) -> bool {
    const TEXTS: [&str; 11] = [
        "rocksdb.creating.db.identity",
        "rocksdb.creating.session.identity",
        "rocksdb.creating.host.identity",
        "rocksdb.filter.policy",
        "rocksdb.comparator",
        "rocksdb.merge.operator",
        "rocksdb.prefix.extractor.name",
        "rocksdb.property.collectors",
        "rocksdb.column.family.name",
        "rocksdb.compression",
        "rocksdb.compression_options",
    ];
    TEXTS.contains(&name)
}

/// Prints the names and offsets of the meta blocks.
pub(super) fn write_meta_blocks(
    table: &OpenTable,
    json: bool,
    out: &mut impl Write,
) -> Result<(), Trouble> {
    let blocks = table.reader.metaindex().iter();
    if json {
        let mut list = Json::array();
        for (name, handle) in blocks {
            let mut block = Json::object();
            block
                .set("name", String::from_utf8_lossy(name).as_ref())
                .set("offset", handle.offset)
                .set("bytes", handle.size);
            list.push(block);
        }
        let mut object = table.json();
        object.set("meta_blocks", list);
        writeln!(out, "{}", object.finish())?;
        return Ok(());
    }
    writeln!(out, "Meta Blocks:\n{}", "-".repeat(30))?;
    for (name, handle) in blocks {
        let name = String::from_utf8_lossy(name);
        writeln!(out, "  {name}: {} {}", handle.offset, handle.size)?;
    }
    Ok(())
}
