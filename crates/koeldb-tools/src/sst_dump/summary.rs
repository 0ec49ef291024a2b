//! Totals over all dumped tables.

use std::io::{self, Write};

use koeldb_table::properties::TableProperties;

use crate::json::Json;

/// The sums of block counts and sizes over several table files.
#[derive(Debug, Default)]
pub(super) struct Summary {
    files: u64,
    data_blocks: u64,
    data_bytes: u64,
    index_bytes: u64,
    filter_bytes: u64,
}

impl Summary {
    /// Adds the properties of one table file.
    pub(super) fn add(&mut self, properties: &TableProperties) {
        self.files += 1;
        self.data_blocks += properties.data_block_count;
        self.data_bytes += properties.data_bytes;
        self.index_bytes += properties.index_bytes;
        self.filter_bytes += properties.filter_bytes;
    }

    /// Prints the sums, as lines or as JSON.
    pub(super) fn write(&self, as_json: bool, out: &mut impl Write) -> io::Result<()> {
        let rows = [
            ("total number of files", self.files),
            ("total number of data blocks", self.data_blocks),
            ("total data block size", self.data_bytes),
            ("total index block size", self.index_bytes),
            ("total filter block size", self.filter_bytes),
        ];
        if as_json {
            let mut json = Json::object();
            for (name, total) in rows {
                json.set(name, total);
            }
            return writeln!(out, "{}", json.finish());
        }
        for (name, total) in rows {
            writeln!(out, "{name}: {total}")?;
        }
        Ok(())
    }
}
