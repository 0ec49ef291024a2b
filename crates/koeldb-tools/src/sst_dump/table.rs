//! An open table file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::timestamp::{BytewiseComparatorWithU64Ts, ReverseBytewiseComparatorWithU64Ts};
use koeldb_base::{ErrorKind, KeyOrder, Result};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, OpenOptions, Purpose};
use koeldb_table::plain::reader::PlainReadOptions;
use koeldb_table::reader::{TableCursor, TableCursorOptions, TableReadContext};
use koeldb_table::source::{BlockReadOptions, BlockingSource};
use koeldb_table::{TableProperties, TableReader};

use crate::json::Json;

/// An open table file, with the comparator it was written with.
pub(super) struct OpenTable {
    pub(super) path: PathBuf,
    pub(super) order: KeyOrder,
    pub(super) reader: Arc<TableReader>,
}

impl OpenTable {
    /// Opens the table file at `path`; tries each built-in comparator.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let options = OpenOptions {
            purpose: Purpose::Other,
            ..OpenOptions::default()
        };
        let file = PosixFileSystem::new().open(path, &options)?;
        let orders = [
            KeyOrder::Bytewise,
            KeyOrder::ReverseBytewise,
            KeyOrder::Uint64,
            KeyOrder::new(BytewiseComparatorWithU64Ts),
            KeyOrder::new(ReverseBytewiseComparatorWithU64Ts),
        ];
        let mut refused = None;
        for order in orders {
            let context = TableReadContext {
                order: order.clone(),
                // A scan needs neither index nor prefix extractor.
                plain: PlainReadOptions {
                    full_scan: true,
                    ..PlainReadOptions::default()
                },
                ..TableReadContext::default()
            };
            match TableReader::open(Arc::clone(&file), &context) {
                Ok(reader) => {
                    return Ok(OpenTable {
                        path: path.to_path_buf(),
                        order,
                        reader,
                    });
                }
                Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                    refused.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or_else(|| koeldb_base::Error::corruption("no comparator fits")))
    }

    pub(super) fn properties(&self) -> &TableProperties {
        self.reader.properties()
    }

    /// Returns the name of the table format.
    pub(super) fn format_name(&self) -> &'static str {
        match &*self.reader {
            TableReader::BlockBased(_) | TableReader::Undated(_) | TableReader::Embedded(_) => {
                "block-based"
            }
            TableReader::Cuckoo(_) => "cuckoo",
            TableReader::Plain(_) => "plain",
        }
    }

    /// Returns an unpositioned table iterator that verifies checksums, with readahead.
    pub(super) fn cursor(&self) -> TableCursor<'static, BlockingSource> {
        let source = BlockingSource::new(BlockReadOptions {
            readahead_bytes: 2 << 20,
            ..BlockReadOptions::default()
        });
        self.reader.cursor(source, &TableCursorOptions::default())
    }

    /// Starts a JSON object whose first member is the file name.
    pub(super) fn json(&self) -> Json {
        let mut json = Json::object();
        json.set("file", &self.path.display().to_string());
        json
    }
}
