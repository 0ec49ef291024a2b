//! Internal entries as lines of text, as RocksDB's tools print them.

use std::borrow::Cow;
use std::io::{self, Write};

use koeldb_base::key::{InternalKey, ValueType};
use koeldb_table::blob::BlobReference;

use crate::columns;
use crate::text::hex;

/// The format of entries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EntryFormat {
    /// Prints keys in hexadecimal.
    pub(crate) key_hex: bool,
    /// Prints values in hexadecimal.
    pub(crate) value_hex: bool,
    /// Prints the fields of references to blob files instead of their bytes.
    pub(crate) decode_blob_index: bool,
}

impl EntryFormat {
    /// Writes the line `'KEY' seq:N, type:T => VALUE`.
    pub(crate) fn write(
        &self,
        out: &mut impl Write,
        key: &InternalKey<'_>,
        value: &[u8],
    ) -> io::Result<()> {
        let (seqno, value_type) = (key.seqno, key.value_type as u8);
        out.write_all(b"'")?;
        out.write_all(&bytes(key.user_key, self.key_hex))?;
        write!(out, "' seq:{seqno}, type:{value_type} => ")?;
        let parsed = match key.value_type {
            ValueType::WideColumnEntity => columns::text_of_entity(value, self.value_hex),
            ValueType::BlobIndex if self.decode_blob_index => text_of_reference(value),
            _ => None,
        };
        out.write_all(&parsed.map_or_else(|| bytes(value, self.value_hex), Cow::Owned))?;
        writeln!(out)
    }
}

/// Returns bytes unchanged, or in hexadecimal.
pub(crate) fn bytes(bytes: &[u8], in_hex: bool) -> Cow<'_, [u8]> {
    match in_hex {
        true => Cow::Owned(hex(bytes).into_bytes()),
        false => Cow::Borrowed(bytes),
    }
}

/// Returns the fields of a reference to a blob file; `None` if it is malformed.
fn text_of_reference(reference: &[u8]) -> Option<Vec<u8>> {
    let reference = BlobReference::decode(reference).ok()?;
    let file = match reference.file {
        0 => "same".to_owned(),
        number => number.to_string(),
    };
    let text = format!(
        "[blob ref] file:{file} offset:{} size:{} compression: {}",
        reference.offset,
        reference.bytes,
        reference.compression.name()
    );
    Some(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_printed_as_by_rocksdb() {
        // A reference of RocksDB 11.9.
        let reference = b"\x01\x1e\x3f\x01\x00";
        let key = InternalKey {
            user_key: b"a",
            seqno: 3,
            value_type: ValueType::BlobIndex,
        };
        let line = |decode_blob_index, value: &[u8]| {
            let format = EntryFormat {
                key_hex: true,
                value_hex: true,
                decode_blob_index,
            };
            let mut out = Vec::new();
            format.write(&mut out, &key, value).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            line(true, reference),
            "'61' seq:3, type:17 => [blob ref] file:30 offset:63 size:1 compression: NoCompression\n"
        );
        assert_eq!(
            line(false, reference),
            "'61' seq:3, type:17 => 011E3F0100\n"
        );
        assert_eq!(line(true, b"\x01"), "'61' seq:3, type:17 => 01\n");
    }
}
