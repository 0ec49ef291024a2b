//! Validates files written by KoelDB with RocksDB's `sst_dump`, if it is installed.
//!
//! Features it does not know (newer format versions, codecs left out of its build) are skipped.
//! With `CI=true` in the environment a missing program is a failure.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use koeldb_base::checksum::ChecksumKind;
use koeldb_base::codec::Compression;
use koeldb_base::key::encode;
use koeldb_base::prefix::{FixedPrefix, PrefixExtractor};
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::{KeyOrder, ValueType};
use koeldb_fs::{FileSystem, PosixFileSystem, Purpose, WriteOptions};
use koeldb_table::block_based::builder::BlockBasedWriteOptions;
use koeldb_table::block_based::format::IndexType;
use koeldb_table::block_based::index_builder::IndexShortening;
use koeldb_table::builder::{FinishedTable, TableBuildContext, TableBuilder, WriteFormat};
use koeldb_table::filter::FilterPolicy;
use koeldb_table::plain::builder::PlainWriteOptions;
use koeldb_table::plain::format::Encoding;

/// The installed program.
struct SstDump {
    program: PathBuf,
    help: String,
    format_version_max: u32,
    /// Whether it supports data blocks with separate values and index blocks marked as uniform.
    reads_block_flags: bool,
}

impl SstDump {
    /// Finds the program; prints a notice and returns `None` where it may be missing.
    fn find() -> Option<Self> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&paths)
            .map(|dir| dir.join("sst_dump"))
            .find(|path| path.is_file());
        let Some(program) = program else {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "sst_dump is not installed (Debian: rocksdb-tools)"
            );
            eprintln!("notice: sst_dump is not installed; nothing is checked against RocksDB");
            return None;
        };
        let (_, version) = run(&program, &["--version"]);
        let (_, help) = run(&program, &["--help"]);
        let mut numbers = version
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse::<u32>().ok());
        let release = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let format_version_max = match release {
            (10, 4..) | (11.., _) => 7,
            (8, 6..) | (9 | 10, _) => 6,
            _ => 5,
        };
        Some(SstDump {
            program,
            help,
            format_version_max,
            reads_block_flags: release >= (11, 1),
        })
    }

    fn reads(&self, case: &Case) -> bool {
        let codec = case.context.compression;
        let format = &case.context.format;
        let flags = format.separate_values || format.uniform_cv_threshold >= 0.0;
        if case.is_plain() {
            // 7.8 reads a plain table into memory that it did not allocate.
            return self.reads_block_flags;
        }
        format.format_version <= self.format_version_max
            && (self.reads_block_flags || !flags)
            && codec.is_available()
            && self.help.contains(codec.option_name())
    }

    /// Runs a command on a file; returns the output of a successful run.
    fn run(&self, file: &Path, arguments: &[&str]) -> String {
        let file = format!("--file={}", file.display());
        let mut all = vec![file.as_str()];
        all.extend_from_slice(arguments);
        let (ok, output) = run(&self.program, &all);
        // It exits with success even after it met damage.
        assert!(
            ok && !output.contains("Corruption"),
            "{arguments:?}: {output}"
        );
        output
    }
}

fn run(program: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.success(), text)
}

/// A directory that is removed when the test ends.
struct TestDir(PathBuf);

impl TestDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("koeldb-{}-{name}", std::process::id()));
        PosixFileSystem::new().create_dir_all(&path).unwrap();
        TestDir(path)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Case {
    name: String,
    context: TableBuildContext,
    key_count: u32,
    tombstones: Vec<RangeTombstone>,
    /// The number of entries of each user key.
    versions: u64,
}

impl Case {
    fn new(name: impl Into<String>, format: BlockBasedWriteOptions) -> Self {
        Case {
            name: name.into(),
            context: TableBuildContext {
                format,
                db_id: "8d0ef167-164f-475f-8e4c-69b5580f67d1".into(),
                session_id: "PY3E2YGLL457991GRLKW".into(),
                host_id: "host".into(),
                file_number: 11,
                column_family_id: 0,
                column_family_name: "default".into(),
                ..TableBuildContext::default()
            },
            key_count: 3000,
            tombstones: Vec::new(),
            versions: 1,
        }
    }

    fn is_plain(&self) -> bool {
        matches!(self.context.write_as, WriteFormat::Plain(_))
    }

    fn with(mut self, change: impl FnOnce(&mut Case)) -> Self {
        change(&mut self);
        self
    }

    /// Internal keys and values in the case's order.
    fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = Vec::new();
        for n in 0..self.key_count {
            let user_key = format!("key{n:08}");
            for version in (0..self.versions).rev() {
                let seqno = u64::from(n) * self.versions + version + 1;
                let (kind, value) = match n % 11 {
                    3 => (ValueType::Deletion, String::new()),
                    5 => (ValueType::SingleDeletion, String::new()),
                    7 => (ValueType::Merge, format!("operand{n}")),
                    _ => (ValueType::Value, format!("value{n}").repeat(n as usize % 9)),
                };
                entries.push((encode(user_key.as_bytes(), seqno, kind), value.into_bytes()));
            }
        }
        let order = self.context.order.clone();
        entries.sort_by(|a, b| order.compare_internal(&a.0, &b.0));
        entries
    }

    fn write(&self, path: &Path) -> FinishedTable {
        let file = PosixFileSystem::new()
            .create(path, &WriteOptions::new(Purpose::Flush))
            .unwrap();
        let mut builder = TableBuilder::create(file, &self.context).unwrap();
        for tombstone in &self.tombstones {
            builder.add_tombstone(tombstone);
        }
        for (key, value) in self.entries() {
            builder.add(&key, &value).unwrap();
        }
        builder.finish().unwrap()
    }
}

/// The line that `sst_dump` prints for an entry.
fn scan_line(key: &[u8], value: &[u8]) -> String {
    let (user_key, footer) = koeldb_base::key::footer_of(key);
    format!(
        "'{}' seq:{}, type:{} => {}",
        hex(user_key),
        footer >> 8,
        footer & 0xff,
        hex(value)
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

fn check(sst_dump: &SstDump, dir: &TestDir, case: &Case) {
    let path = dir.0.join(format!("{}.sst", case.name));
    let finished = case.write(&path);
    assert_eq!(
        PosixFileSystem::new().metadata(&path).unwrap().len,
        finished.file_bytes
    );
    let output = sst_dump.run(
        &path,
        &[
            "--command=scan",
            "--output_hex",
            "--verify_checksum",
            "--show_properties",
        ],
    );
    let printed: Vec<&str> = output.lines().filter(|l| l.contains(" seq:")).collect();
    let entries = case.entries();
    for (printed, (key, value)) in printed.iter().zip(&entries) {
        assert_eq!(
            printed.trim_end(),
            scan_line(key, value).trim_end(),
            "{}",
            case.name
        );
    }
    assert_eq!(printed.len(), entries.len(), "{}: {output}", case.name);
    let properties = &finished.properties;
    for (title, number) in [
        ("# data blocks", properties.data_block_count),
        ("# entries", properties.entry_count),
        ("# deletions", properties.deletion_count),
        ("# range deletions", properties.range_deletion_count),
        ("raw key size", properties.raw_key_bytes),
        ("filter block size", properties.filter_bytes),
    ] {
        let line = format!("{title}: {number}");
        assert!(
            output.lines().any(|printed| printed.trim() == line),
            "{}: {line} in {output}",
            case.name
        );
    }
    if !case.is_plain() {
        sst_dump.run(&path, &["--command=raw", "--verify_checksum"]);
    }
    sst_dump.run(&path, &["--command=check", "--verify_checksum"]);
}

fn check_all(name: &str, cases: impl IntoIterator<Item = Case>) {
    let Some(sst_dump) = SstDump::find() else {
        return;
    };
    let dir = TestDir::new(name);
    for case in cases {
        if sst_dump.reads(&case) {
            check(&sst_dump, &dir, &case);
        }
    }
}

fn format(change: impl FnOnce(&mut BlockBasedWriteOptions)) -> BlockBasedWriteOptions {
    let mut format = BlockBasedWriteOptions {
        format_version: 5,
        ..BlockBasedWriteOptions::default()
    };
    change(&mut format);
    format
}

#[test]
fn rocksdb_reads_every_format_version_and_checksum() {
    let kinds = [
        ChecksumKind::None,
        ChecksumKind::Crc32c,
        ChecksumKind::XxHash32,
        ChecksumKind::XxHash64,
        ChecksumKind::Xxh3,
    ];
    check_all(
        "versions",
        (2..=7).flat_map(|version| {
            kinds.map(|checksum| {
                let format = format(|f| {
                    f.format_version = version;
                    f.checksum = checksum;
                });
                Case::new(format!("v{version}-{checksum:?}"), format).with(|c| c.key_count = 500)
            })
        }),
    );
}

#[test]
fn rocksdb_reads_every_codec_with_and_without_dictionary() {
    let codecs = [
        Compression::Snappy,
        Compression::Zlib,
        Compression::Bzip2,
        Compression::Lz4,
        Compression::Lz4hc,
        Compression::Zstd,
    ];
    check_all(
        "codecs",
        codecs.into_iter().flat_map(|codec| {
            [(5, 0, 0), (5, 4096, 0), (7, 4096, 100 * 4096), (7, 0, 0)].map(
                |(version, dict_bytes, train_bytes)| {
                    let format = format(|f| f.format_version = version);
                    let name = format!("{codec:?}-v{version}-{dict_bytes}-{train_bytes}");
                    Case::new(name, format).with(|c| {
                        c.context.compression = codec;
                        c.context.compression_options.max_dict_bytes = dict_bytes;
                        c.context.compression_options.zstd_max_train_bytes = train_bytes;
                        c.context.compression_options.max_dict_buffer_bytes = 40_000;
                    })
                },
            )
        }),
    );
}

#[test]
fn rocksdb_reads_every_kind_of_index() {
    let kinds = [
        IndexType::BinarySearch,
        IndexType::HashSearch,
        IndexType::TwoLevel,
        IndexType::BinarySearchWithFirstKey,
    ];
    check_all(
        "indexes",
        kinds.into_iter().flat_map(|kind| {
            [
                (3, 1, 1),
                (4, 16, 1),
                (5, 1, 40),
                (5, 7, 1),
                (6, 16, 40),
                (7, 1, 1),
            ]
            .map(|(version, interval, versions)| {
                let format = format(|f| {
                    f.format_version = version;
                    f.index_type = kind;
                    f.index_block_restart_interval = interval;
                    f.metadata_block_bytes = 200;
                    f.block_bytes = 500;
                    f.index_shortening = match interval {
                        7 => IndexShortening::None,
                        16 => IndexShortening::SeparatorsAndSuccessor,
                        _ => IndexShortening::Separators,
                    };
                });
                let name = format!("{kind:?}-v{version}-{interval}-{versions}");
                Case::new(name, format).with(|c| {
                    c.versions = versions;
                    c.key_count = 3000 / u32::try_from(versions).unwrap();
                    c.context.prefix_extractor = Some(Arc::new(FixedPrefix::new(9)));
                })
            })
        }),
    );
}

#[test]
fn rocksdb_reads_every_kind_of_filter() {
    let policies = [
        ("bloom", FilterPolicy::bloom(10.0)),
        ("bloom15", FilterPolicy::bloom(15.5)),
        ("ribbon", FilterPolicy::ribbon(10.0, -1)),
    ];
    check_all(
        "filters",
        policies.into_iter().flat_map(|(name, policy)| {
            [
                (4, false, true),
                (5, false, true),
                (5, true, true),
                (6, true, false),
            ]
            .map(move |(version, partitioned, whole)| {
                let format = format(|f| {
                    f.format_version = version;
                    f.filter = policy;
                    f.whole_key_filtering = whole;
                    f.partition_filters = partitioned;
                    f.index_type = if partitioned {
                        IndexType::TwoLevel
                    } else {
                        IndexType::BinarySearch
                    };
                    f.metadata_block_bytes = 600;
                });
                let name = format!("{name}-v{version}-{partitioned}-{whole}");
                Case::new(name, format).with(|c| {
                    if !whole {
                        c.context.prefix_extractor = Some(Arc::new(FixedPrefix::new(10)));
                    }
                })
            })
        }),
    );
}

#[test]
fn rocksdb_reads_hash_indexes_aligned_blocks_and_other_orders() {
    let tombstone = |start: &str, end: &str, seqno| RangeTombstone {
        start: start.into(),
        end: end.into(),
        seqno,
    };
    let tombstones = vec![
        tombstone("key00000100", "key00000200", 9999),
        tombstone("key00000050", "key00000150", 9998),
        tombstone("z", "zz", 5),
    ];
    check_all(
        "features",
        [
            Case::new("hash", format(|f| f.data_block_hash_index = true)),
            Case::new("separate", format(|f| f.separate_values = true)),
            Case::new(
                "separate-hash",
                format(|f| {
                    f.separate_values = true;
                    f.data_block_hash_index = true;
                    f.block_restart_interval = 5;
                }),
            ),
            Case::new("uniform", format(|f| f.uniform_cv_threshold = 100.0)),
            Case::new("align", format(|f| f.block_align = true)),
            Case::new(
                "super-blocks",
                format(|f| (f.super_block_bytes, f.super_block_padding_max) = (16_384, 4096)),
            ),
            Case::new(
                "coupled-partitions",
                format(|f| {
                    f.index_type = IndexType::TwoLevel;
                    f.filter = FilterPolicy::bloom(10.0);
                    f.partition_filters = true;
                    f.couple_filter_partitions = true;
                    f.metadata_block_bytes = 500;
                }),
            ),
            Case::new("whole-keys", format(|f| f.share_key_prefixes = false)),
            Case::new(
                "large-interval",
                format(|f| f.block_restart_interval = 1000),
            ),
            Case::new("reverse", format(|_| ()))
                .with(|c| c.context.order = KeyOrder::ReverseBytewise),
            Case::new(
                "reverse-two-level",
                format(|f| f.index_type = IndexType::TwoLevel),
            )
            .with(|c| c.context.order = KeyOrder::ReverseBytewise),
            Case::new("tombstones", format(|_| ())).with(|c| c.tombstones = tombstones.clone()),
            Case::new("only-tombstones", format(|_| ())).with(|c| {
                c.key_count = 0;
                c.tombstones = tombstones.clone();
            }),
            Case::new(
                "only-tombstones-two-level",
                format(|f| f.index_type = IndexType::TwoLevel),
            )
            .with(|c| {
                c.key_count = 0;
                c.tombstones = tombstones;
            }),
        ],
    );
}

#[test]
fn rocksdb_reads_plain_tables() {
    let all = [Encoding::Plain, Encoding::Prefix]
        .into_iter()
        .flat_map(|encoding| {
            [
                (0, false, None),
                (11, true, None),
                (0, true, Some(7)),
                (11, false, Some(9)),
            ]
            .map(|(user_key_bytes, store_index, prefix)| {
                let name = format!("{encoding:?}-{user_key_bytes}-{store_index}-{prefix:?}");
                Case::new(name, format(|_| ())).with(|c| {
                    c.context.write_as = WriteFormat::Plain(PlainWriteOptions {
                        encoding,
                        user_key_bytes,
                        store_index,
                        ..PlainWriteOptions::default()
                    });
                    c.context.prefix_extractor = prefix
                        .map(|len| Arc::new(FixedPrefix::new(len)) as Arc<dyn PrefixExtractor>);
                    c.versions = 1 + u64::from(user_key_bytes % 2);
                })
            })
        });
    check_all("plain", all);
}
