//! Table builders, independent of the format.

use koeldb_base::Result;
use koeldb_base::range_del::RangeTombstone;
use koeldb_fs::WritableFile;

use crate::block_based::builder::BlockBasedTableBuilder;
pub use crate::build_context::{FinishedTable, TableBuildContext, TableReason, WriteFormat};
use crate::cuckoo::builder::CuckooTableBuilder;
use crate::plain::builder::PlainTableBuilder;
use crate::undated::UndatedTableBuilder;

/// A builder of a table in any format; dropping it leaves an incomplete file.
#[derive(Debug)]
pub enum TableBuilder {
    /// RocksDB's block-based format.
    BlockBased(Box<BlockBasedTableBuilder>),
    /// RocksDB's cuckoo table.
    Cuckoo(Box<CuckooTableBuilder>),
    /// RocksDB's plain table.
    Plain(Box<PlainTableBuilder>),
    /// A block-based table without the timestamps of its keys.
    Undated(Box<UndatedTableBuilder>),
}

impl TableBuilder {
    /// Begins a table in an empty file, in the format of `context`.
    ///
    /// # Errors
    /// `InvalidArgument` if settings contradict each other; `NotSupported` if this build lacks the
    /// codec.
    pub fn create(file: Box<dyn WritableFile>, context: &TableBuildContext) -> Result<Self> {
        if context.undated {
            let builder = UndatedTableBuilder::create(file, context)?;
            return Ok(TableBuilder::Undated(Box::new(builder)));
        }
        match &context.write_as {
            WriteFormat::BlockBased => {
                let builder = BlockBasedTableBuilder::create(file, context)?;
                Ok(TableBuilder::BlockBased(Box::new(builder)))
            }
            WriteFormat::Cuckoo(options) => {
                let builder = CuckooTableBuilder::create(file, options, context)?;
                Ok(TableBuilder::Cuckoo(Box::new(builder)))
            }
            WriteFormat::Plain(options) => {
                let builder = PlainTableBuilder::create(file, options, context);
                Ok(TableBuilder::Plain(Box::new(builder)))
            }
        }
    }

    /// Appends an entry; entries must come in internal-key order.
    ///
    /// Range tombstones go through [`TableBuilder::add_tombstone`].
    ///
    /// # Errors
    /// `Corruption` if the key is malformed or not after the last one; `InvalidArgument` if key or
    /// value have 4 GiB or more; the errors of the file system. After an error the table must be
    /// abandoned.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            TableBuilder::BlockBased(builder) => builder.add(key, value),
            TableBuilder::Cuckoo(builder) => builder.add(key, value),
            TableBuilder::Plain(builder) => builder.add(key, value),
            TableBuilder::Undated(builder) => builder.add(key, value),
        }
    }

    /// Counts the last entry as an older version of the key before it, in block-based properties.
    #[inline]
    pub fn count_older_version(&mut self) {
        match self {
            TableBuilder::BlockBased(builder) => builder.count_older_version(),
            TableBuilder::Undated(builder) => builder.stored_mut().count_older_version(),
            TableBuilder::Cuckoo(_) | TableBuilder::Plain(_) => {}
        }
    }

    /// Records a property that is known only after some or all entries.
    pub fn set_property(&mut self, name: &str, value: Vec<u8>) {
        match self {
            TableBuilder::BlockBased(builder) => builder.set_property(name, value),
            TableBuilder::Cuckoo(builder) => builder.set_property(name, value),
            TableBuilder::Plain(builder) => builder.set_property(name, value),
            TableBuilder::Undated(builder) => builder.stored_mut().set_property(name, value),
        }
    }

    /// Adds a range tombstone, in any order.
    ///
    /// They are written sorted and fragmented.
    pub fn add_tombstone(&mut self, tombstone: &RangeTombstone) {
        match self {
            TableBuilder::BlockBased(builder) => builder.add_tombstone(tombstone),
            TableBuilder::Cuckoo(builder) => builder.add_tombstone(tombstone),
            TableBuilder::Plain(builder) => builder.add_tombstone(tombstone),
            TableBuilder::Undated(builder) => builder.add_tombstone(tombstone),
        }
    }

    /// The size of the file so far: completed data blocks, buffered ones uncompressed.
    ///
    /// For a cuckoo table, its final size.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        match self {
            TableBuilder::BlockBased(builder) => builder.file_bytes(),
            TableBuilder::Cuckoo(builder) => builder.file_bytes(),
            TableBuilder::Plain(builder) => builder.file_bytes(),
            TableBuilder::Undated(builder) => builder.stored().file_bytes(),
        }
    }

    /// An upper estimate of the final size of the file, if no entry follows.
    #[must_use]
    pub fn estimated_file_bytes(&self) -> u64 {
        match self {
            TableBuilder::BlockBased(builder) => builder.estimated_file_bytes(),
            TableBuilder::Cuckoo(builder) => builder.file_bytes(),
            TableBuilder::Plain(builder) => builder.file_bytes(),
            TableBuilder::Undated(builder) => builder.stored().estimated_file_bytes(),
        }
    }

    /// The number of entries so far, including tombstones.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        match self {
            TableBuilder::BlockBased(builder) => builder.entry_count(),
            TableBuilder::Cuckoo(builder) => builder.entry_count(),
            TableBuilder::Plain(builder) => builder.entry_count(),
            TableBuilder::Undated(builder) => builder.stored().entry_count(),
        }
    }

    /// Whether no entry was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entry_count() == 0
    }

    /// Writes what remains of the table, syncs and closes the file.
    ///
    /// The caller syncs the directory.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn finish(self) -> Result<FinishedTable> {
        match self {
            TableBuilder::BlockBased(builder) => builder.finish(),
            TableBuilder::Cuckoo(builder) => builder.finish(),
            TableBuilder::Plain(builder) => builder.finish(),
            TableBuilder::Undated(builder) => builder.finish(),
        }
    }

    /// Abandons the table; the caller removes the file.
    pub fn abandon(self) {
        drop(self);
    }
}
