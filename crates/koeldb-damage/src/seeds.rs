//! Valid inputs: small tables in every setting, logs, edits, and files that RocksDB wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::checksum::ChecksumKind;
use koeldb_base::codec::Compression;
use koeldb_base::key::{ValueType, encode};
use koeldb_base::prefix::FixedPrefix;
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::{KeyOrder, Result};
use koeldb_fs::{EntryKind, FileSystem, MemoryFileSystem, PosixFileSystem, Purpose, WriteOptions};
use koeldb_log::{RecordWriter, RecordWriterOptions, WalCompression};
use koeldb_table::block_based::builder::BlockBasedWriteOptions;
use koeldb_table::block_based::format::IndexType;
use koeldb_table::builder::{TableBuildContext, TableBuilder, WriteFormat};
use koeldb_table::cuckoo::builder::CuckooWriteOptions;
use koeldb_table::filter::FilterPolicy;
use koeldb_table::plain::builder::PlainWriteOptions;
use koeldb_table::plain::format::Encoding;
use koeldb_table::reader::TableReadContext;

/// The prefix length of the tables.
pub const PREFIX_BYTES: usize = 3;

/// Returns the context that opens every table of [`tables`].
///
/// An extractor does not matter to tables written without one.
#[must_use]
pub fn read_context() -> TableReadContext {
    TableReadContext {
        order: KeyOrder::Bytewise,
        prefix_extractor: Some(Arc::new(FixedPrefix::new(PREFIX_BYTES))),
        ..TableReadContext::default()
    }
}

/// A small valid table file, from which damaged ones are made.
#[derive(Clone, Debug)]
pub struct TableSeed {
    /// The setting it demonstrates.
    pub name: String,
    /// The file.
    pub bytes: Vec<u8>,
    /// Whether checksums cover every byte of it.
    pub checksummed: bool,
}

/// Returns `count` sorted entries of several types; `simple` ones fit into a cuckoo table.
fn entries(count: u64, simple: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries: Vec<_> = (0..count)
        .map(|number| {
            let key = format!(
                "{}k{:04}",
                ["aa", "ab", "zz"][(number % 3) as usize],
                number / 3
            );
            let (seqno, kind) = match number % 7 {
                _ if simple => (0, ValueType::Value),
                3 => (number, ValueType::Deletion),
                5 => (number, ValueType::Merge),
                _ => (number, ValueType::Value),
            };
            let value = match number % 5 {
                _ if simple => format!("v{number:06}"),
                0 => "value ".repeat(6),
                _ => format!("{number}"),
            };
            (encode(key.as_bytes(), seqno, kind), value.into_bytes())
        })
        .collect();
    entries.sort_by(|a, b| KeyOrder::Bytewise.compare_internal(&a.0, &b.0));
    entries
}

/// Builds a small table file in memory, with range tombstones if `tombstones` is set.
fn build(context: &TableBuildContext, simple: bool, tombstones: bool) -> Result<Vec<u8>> {
    let fs = MemoryFileSystem::new();
    let path = Path::new("/000007.sst");
    let mut builder = TableBuilder::create(
        fs.create(path, &WriteOptions::new(Purpose::Flush))?,
        context,
    )?;
    for (key, value) in entries(40, simple) {
        builder.add(&key, &value)?;
    }
    if tombstones {
        for (start, end, seqno) in [("aak0002", "aak0005", 50), ("aak0004", "zz", 51)] {
            builder.add_tombstone(&RangeTombstone {
                start: start.into(),
                end: end.into(),
                seqno,
            });
        }
    }
    builder.finish()?;
    fs.read_all(path, 1 << 30, Purpose::Read)
}

/// Returns the settings that all seed tables start from: several blocks, prefixes, no compression.
fn base() -> TableBuildContext {
    TableBuildContext {
        format: BlockBasedWriteOptions {
            block_bytes: 256,
            metadata_block_bytes: 64,
            block_restart_interval: 4,
            ..BlockBasedWriteOptions::default()
        },
        prefix_extractor: Some(Arc::new(FixedPrefix::new(PREFIX_BYTES))),
        compression: Compression::None,
        db_id: "seed".to_owned(),
        session_id: "SEEDSEEDSEEDSEEDSEED".to_owned(),
        file_number: 7,
        ..TableBuildContext::default()
    }
}

/// Returns named block-based settings: every format version, checksum, codec, index and filter.
fn block_based() -> Vec<(String, TableBuildContext)> {
    let mut settings = Vec::new();
    let mut add = |name: String, change: &dyn Fn(&mut TableBuildContext)| {
        let mut context = base();
        change(&mut context);
        settings.push((name, context));
    };
    for version in 2..=7 {
        add(format!("version {version}"), &|c| {
            c.format.format_version = version
        });
    }
    for checksum in [
        ChecksumKind::Crc32c,
        ChecksumKind::XxHash32,
        ChecksumKind::XxHash64,
        ChecksumKind::Xxh3,
    ] {
        add(format!("{checksum:?}"), &|c| {
            c.format.checksum = checksum;
            c.format.format_version = 5;
        });
    }
    for codec in Compression::ALL {
        if codec.is_available() && codec != Compression::None {
            add(format!("{codec:?}"), &|c| c.compression = codec);
        }
    }
    for index_type in [
        IndexType::BinarySearch,
        IndexType::HashSearch,
        IndexType::TwoLevel,
        IndexType::BinarySearchWithFirstKey,
    ] {
        add(format!("{index_type:?}"), &|c| {
            c.format.index_type = index_type
        });
    }
    for (name, filter) in [
        ("bloom", FilterPolicy::bloom(10.0)),
        ("ribbon", FilterPolicy::ribbon(10.0, -1)),
    ] {
        add(name.to_owned(), &|c| c.format.filter = filter);
        add(format!("{name}, partitioned"), &|c| {
            c.format.filter = filter;
            c.format.index_type = IndexType::TwoLevel;
            c.format.partition_filters = true;
        });
    }
    add("bloom of version 4".to_owned(), &|c| {
        c.format.filter = FilterPolicy::bloom(10.0);
        c.format.format_version = 4;
    });
    add("separated values".to_owned(), &|c| {
        c.format.separate_values = true
    });
    add("data hash".to_owned(), &|c| {
        c.format.data_block_hash_index = true
    });
    add("aligned".to_owned(), &|c| c.format.block_align = true);
    add("uniform".to_owned(), &|c| {
        c.format.uniform_cv_threshold = 10.0
    });
    add("whole keys".to_owned(), &|c| {
        c.format.share_key_prefixes = false
    });
    if Compression::Zstd.is_available() {
        add("dictionary".to_owned(), &|c| {
            c.compression = Compression::Zstd;
            c.compression_options.max_dict_bytes = 200;
        });
    }
    settings
}

/// Returns small tables of every format in every setting.
///
/// # Panics
/// If a table cannot be written.
#[must_use]
pub fn tables() -> Vec<TableSeed> {
    let mut seeds = Vec::new();
    let mut add = |name: String, context: &TableBuildContext, simple, checksummed| {
        let bytes = build(context, simple, name == "version 6").expect("a table is written");
        seeds.push(TableSeed {
            name,
            bytes,
            checksummed,
        });
    };
    for (name, context) in block_based() {
        add(name, &context, false, true);
    }
    for checksums in [true, false] {
        for (name, write_as) in other_formats(checksums) {
            let context = TableBuildContext { write_as, ..base() };
            add(
                format!("{name}, checksums {checksums}"),
                &context,
                true,
                checksums,
            );
        }
    }
    seeds
}

/// Returns named settings of cuckoo and plain tables.
fn other_formats(checksums: bool) -> Vec<(&'static str, WriteFormat)> {
    let plain = |encoding, store_index| {
        WriteFormat::Plain(PlainWriteOptions {
            encoding,
            store_index,
            checksums,
            ..PlainWriteOptions::default()
        })
    };
    let cuckoo = |use_module, identity_first| {
        WriteFormat::Cuckoo(CuckooWriteOptions {
            use_module,
            identity_first,
            checksums,
            ..CuckooWriteOptions::default()
        })
    };
    vec![
        ("cuckoo", cuckoo(true, false)),
        ("cuckoo, power of two", cuckoo(false, false)),
        ("plain", plain(Encoding::Plain, false)),
        ("plain, prefixes", plain(Encoding::Prefix, false)),
        ("plain, stored index", plain(Encoding::Prefix, true)),
    ]
}

/// Encodes a log file that contains these records.
///
/// # Errors
/// `NotSupported` if the codec is not built in.
pub fn log(records: &[Vec<u8>], compression: WalCompression) -> Result<Vec<u8>> {
    let fs = MemoryFileSystem::new();
    let path = Path::new("/000009.log");
    let file = fs.create(path, &WriteOptions::new(Purpose::Wal))?;
    let options = RecordWriterOptions {
        compression,
        recyclable: None,
    };
    let mut writer = RecordWriter::new(file, options)?;
    for record in records {
        writer.add_record(record)?;
    }
    writer.close()?;
    fs.read_all(path, 1 << 30, Purpose::Read)
}

/// Returns the path of the golden directories, databases that RocksDB wrote.
#[must_use]
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden")
}

/// Reads the golden files of at most `bytes_max` bytes whose name satisfies `wanted`.
///
/// # Panics
/// If they cannot be read.
#[must_use]
pub fn golden_files(bytes_max: u64, wanted: impl Fn(&str) -> bool) -> Vec<(PathBuf, Vec<u8>)> {
    let fs = PosixFileSystem::new();
    let mut files = Vec::new();
    for folder in fs.list(&golden()).expect("golden directories") {
        let folder = golden().join(folder.name);
        // Entries that are not folders are skipped.
        for entry in fs.list(&folder).unwrap_or_default() {
            let path = folder.join(&entry.name);
            let len = fs.metadata(&path).map_or(u64::MAX, |metadata| metadata.len);
            let is_file = entry.kind == EntryKind::File;
            if is_file && len <= bytes_max && wanted(&entry.name) {
                let bytes = fs.read_all(&path, bytes_max, Purpose::Read);
                files.push((path, bytes.expect("a golden file is read")));
            }
        }
    }
    files.sort();
    files
}
