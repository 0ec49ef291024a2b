//! Prints the properties of a table.

use std::io::Write;

use koeldb_base::coding;
use koeldb_table::TableReader;

use super::Trouble;
use super::table::OpenTable;
use crate::json::{Json, JsonValue};

/// Prints the properties in the format of RocksDB's tool, or as one JSON object.
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
    write_lines(table, out)?;
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

/// Prints one property per line.
pub(super) fn write_lines(table: &OpenTable, out: &mut impl Write) -> std::io::Result<()> {
    for (name, value) in lines(table) {
        writeln!(out, "  {name}: {value}")?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a mean is an approximation")]
fn average(sum: u64, count: u64) -> String {
    format!("{:.6}", sum as f64 / count.max(1) as f64)
}

/// Returns names and values in the order and wording of RocksDB's tool.
fn lines(table: &OpenTable) -> Vec<(String, String)> {
    let p = table.properties();
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    let text = |bytes: &[u8], absent: &str| match bytes {
        [] => absent.to_owned(),
        bytes => String::from_utf8_lossy(bytes).into_owned(),
    };
    line("# data blocks", p.data_block_count.to_string());
    line(
        "# data blocks compression rejected",
        p.compression_rejected_count.to_string(),
    );
    line(
        "# data blocks compression bypassed",
        p.compression_bypassed_count.to_string(),
    );
    line("# uniform blocks", p.uniform_block_count.to_string());
    line("# entries", p.entry_count.to_string());
    line("# deletions", p.deletion_count.to_string());
    line("# merge operands", p.merge_operand_count.to_string());
    line("# range deletions", p.range_deletion_count.to_string());
    line("raw key size", p.raw_key_bytes.to_string());
    line(
        "raw average key size",
        average(p.raw_key_bytes, p.entry_count),
    );
    line("raw value size", p.raw_value_bytes.to_string());
    line(
        "raw average value size",
        average(p.raw_value_bytes, p.entry_count),
    );
    line("data block size", p.data_bytes.to_string());
    let index_name = format!(
        "index block size (user-key? {}, delta-value? {})",
        p.index_key_is_user_key, p.index_value_is_delta_encoded
    );
    line(&index_name, p.index_bytes.to_string());
    if p.index_partitions > 0 {
        line("# index partitions", p.index_partitions.to_string());
        line("top-level index size", p.top_level_index_bytes.to_string());
    }
    line("filter block size", p.filter_bytes.to_string());
    line("# entries for filter", p.filter_entry_count.to_string());
    let estimate = p.data_bytes + p.index_bytes + p.filter_bytes;
    line("(estimated) table size", estimate.to_string());
    line("filter policy name", text(&p.filter_policy_name, "N/A"));
    line(
        "prefix extractor name",
        text(&p.prefix_extractor_name, "N/A"),
    );
    line("column family ID", p.column_family_id.to_string());
    line("column family name", text(&p.column_family_name, "N/A"));
    line("comparator name", text(&p.comparator_name, "N/A"));
    line(
        "user defined timestamps persisted",
        (p.user_timestamps_persisted != 0).to_string(),
    );
    let seqno =
        |seqno: Option<u64>| seqno.map_or_else(|| "N/A".to_owned(), |seqno| seqno.to_string());
    line("largest sequence number in file", seqno(p.largest_seqno));
    line("smallest sequence number in file", seqno(p.smallest_seqno));
    line("merge operator name", text(&p.merge_operator_name, "N/A"));
    line(
        "property collectors names",
        text(&p.property_collector_names, "N/A"),
    );
    line(
        "SST file compression algo",
        text(&p.compression_name, "N/A"),
    );
    line(
        "SST file compression options",
        text(&p.compression_options, "N/A"),
    );
    line("creation time", p.creation_time.to_string());
    line("time stamp of earliest key", p.oldest_key_time.to_string());
    line("time stamp of newest key", p.newest_key_time.to_string());
    line("file creation time", p.file_creation_time.to_string());
    line(
        "slow compression estimated data size",
        p.slow_compression_data_bytes.to_string(),
    );
    line(
        "fast compression estimated data size",
        p.fast_compression_data_bytes.to_string(),
    );
    line("DB identity", text(&p.db_id, "N/A"));
    line("DB session identity", text(&p.session_id, "N/A"));
    line("DB host id", text(&p.host_id, "N/A"));
    line("original file number", p.original_file_number.to_string());
    line("format version", p.format_version.to_string());
    let id = p.unique_id();
    let id = id.map_or_else(|| "N/A".to_owned(), |[a, b]| format!("{a:016X}-{b:016X}"));
    line("internal unique ID", id);
    lines
}

/// Returns the properties under their stored names.
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

/// Whether RocksDB stores text in this built-in property.
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

/// Prints names and offsets of the metadata blocks.
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
