//! Tables in memory with one block per entry, so that sizes and reads follow the entries.

use std::path::Path;
use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::codec::Compression;
use koeldb_base::range_del::RangeTombstone;
use koeldb_fs::{FileSystem, MemoryFileSystem, OpenOptions, Purpose, WriteOptions};
use koeldb_lsm::job::{BlobSpec, OutputSpec, TableOutputs};
use koeldb_lsm::version::FileMeta;
use koeldb_lsm::{DataPaths, TableOpener};
use koeldb_table::builder::TableBuildContext;
use koeldb_table::reader::TableReadContext;

pub(crate) const DIRECTORY: &str = "/tables";

/// A file system with the directory of tables.
pub(crate) fn file_system() -> Arc<MemoryFileSystem> {
    let fs = MemoryFileSystem::new();
    fs.create_dir_all(Path::new(DIRECTORY)).unwrap();
    Arc::new(fs)
}

/// The settings of uncompressed tables with one block per entry, without limits to their size.
pub(crate) fn output_spec<'a>(
    fs: &'a MemoryFileSystem,
    next_file_number: &'a (dyn Fn() -> u64 + Sync),
) -> OutputSpec<'a> {
    let mut context = TableBuildContext {
        compression: Compression::None,
        ..TableBuildContext::default()
    };
    context.format.block_bytes = 1;
    OutputSpec {
        fs,
        directory: Path::new(DIRECTORY),
        path_id: 0,
        write_options: WriteOptions::new(Purpose::Compaction),
        charge: None,
        context,
        next_file_number,
        target_file_bytes: u64::MAX,
        file_bytes_max: u64::MAX,
        target_is_upper_bound: false,
        grandparents: &[],
        max_grandparent_bytes: u64::MAX,
        snapshots: &[],
        bottommost: false,
        history_low: None,
        hidden: None,
        epoch: 0,
        file_checksums: false,
        partition_bytes: None,
        deletion_triggers: &[],
        hash_entries: false,
        blobs: BlobSpec::unchanged(),
    }
}

/// Writes one table of sorted entries.
pub(crate) fn write(
    fs: &MemoryFileSystem,
    number: u64,
    entries: &[(Vec<u8>, Vec<u8>)],
    tombstones: &[RangeTombstone],
) -> FileMeta {
    let next_file_number = || number;
    let mut outputs = TableOutputs::new(output_spec(fs, &next_file_number));
    for (key, value) in entries {
        outputs.add(key, value, true, None).unwrap();
    }
    let order = KeyOrder::Bytewise;
    let tombstones = koeldb_base::range_del::FragmentedTombstones::new(&order, tombstones);
    let mut written = outputs.finish(Some(&tombstones)).unwrap();
    written.files.pop().expect("a table of some entries")
}

/// Opens the tables.
pub(crate) fn opener(fs: &Arc<MemoryFileSystem>) -> TableOpener {
    let fs: Arc<dyn FileSystem> = Arc::clone(fs) as _;
    TableOpener::new(
        fs,
        DataPaths::single(Path::new(DIRECTORY)),
        OpenOptions::default(),
        TableReadContext::default(),
    )
}
