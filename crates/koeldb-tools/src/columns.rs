//! Wide columns as text: `name:value` pairs with a space between them, as RocksDB's tools print them.

use koeldb::Columns;

use crate::json::{Json, JsonValue};
use crate::text::hex;

/// Returns `name:value` of each column, raw or in hexadecimal with `0x` before what is not empty.
pub(crate) fn text(columns: Columns<'_>, in_hex: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |bytes: &[u8], before: &[u8]| {
        out.extend_from_slice(before);
        match (in_hex, bytes) {
            (_, []) => {}
            (true, bytes) => out.extend_from_slice(format!("0x{}", hex(bytes)).as_bytes()),
            (false, bytes) => out.extend_from_slice(bytes),
        }
    };
    for (at, (name, value)) in columns.iter().enumerate() {
        add(name, if at == 0 { b"" } else { b" " });
        add(value, b":");
    }
    out
}

/// Returns the columns of a stored entity as [`text`]; `None` if it is malformed.
pub(crate) fn text_of_entity(entity: &[u8], in_hex: bool) -> Option<Vec<u8>> {
    Some(text(Columns::of_entity(entity).ok()?, in_hex))
}

/// Whether columns are shown as a plain value: none, or the default one only.
pub(crate) fn is_plain(columns: Columns<'_>) -> bool {
    columns.iter().all(|(name, _)| name.is_empty())
}

/// Returns the columns as a JSON array of objects with a name and a value.
pub(crate) fn json(columns: Columns<'_>) -> Json {
    let mut all = Json::array();
    for (name, value) in columns {
        let mut json = Json::object();
        json.set("name", JsonValue::Hex(name))
            .set("value", JsonValue::Hex(value));
        all.push(json);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_printed_as_by_rocksdb() {
        let entity = b"\x01\x03\x00\x05\x05attr1\x03\x05attr2\x00hellofoo";
        let raw = text_of_entity(entity, false).unwrap();
        assert_eq!(raw, b":hello attr1:foo attr2:");
        let in_hex = text_of_entity(entity, true).unwrap();
        assert_eq!(in_hex, b":0x68656C6C6F 0x6174747231:0x666F6F 0x6174747232:");
        assert_eq!(text_of_entity(b"\x01\x01", false), None);
        let columns = Columns::of_value(b"v");
        assert!(is_plain(columns) && text(columns, false) == b":v");
        assert!(!is_plain(Columns::of_entity(entity).unwrap()));
    }
}
