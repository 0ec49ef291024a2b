//! RocksDB's `ldb`, if installed, opens directories with OPTIONS files of KoelDB.
//!
//! With `CI=true` in the environment a missing program is a failure.

use std::path::{Path, PathBuf};
use std::process::Command;

use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, Purpose, WriteOptions};

use crate::options::sanitize::{OpenContext, sanitize};
use crate::options::{ColumnFamilyOptions, ConfigOptions, Options, options_file};

/// A copy of a golden directory that goes when the test ends.
struct Copy(PathBuf);

impl Copy {
    fn of(golden: &str, name: &str) -> Self {
        let fs = PosixFileSystem::new();
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../golden")
            .join(golden);
        let to = std::env::temp_dir().join(format!("koeldb-options-{}-{name}", std::process::id()));
        fs.create_dir_all(&to).unwrap();
        for entry in fs.list(&from).unwrap() {
            if entry.name.starts_with("OPTIONS-") {
                continue;
            }
            let bytes = fs
                .read_all(&from.join(&entry.name), 64 << 20, Purpose::Other)
                .unwrap();
            let how = WriteOptions::new(Purpose::Other);
            let mut file = fs.create(&to.join(&entry.name), &how).unwrap();
            file.append(&bytes).unwrap();
            file.close().unwrap();
        }
        Copy(to)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let fs = PosixFileSystem::new();
        for entry in fs.list(&self.0).unwrap_or_default() {
            let _ = fs.remove_file(&self.0.join(entry.name));
        }
        let _ = fs.remove_dir(&self.0);
    }
}

/// The program and its release.
fn ldb() -> Option<(PathBuf, (u32, u32))> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&paths)
        .map(|directory| directory.join("ldb"))
        .find(|path| path.is_file());
    let Some(program) = program else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "ldb is not installed (Debian: rocksdb-tools)"
        );
        eprintln!("notice: ldb is not installed; nothing is checked against RocksDB");
        return None;
    };
    let output = Command::new(&program).arg("--version").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text
        .split(|char: char| !char.is_ascii_digit())
        .filter_map(|number| number.parse::<u32>().ok());
    let release = (numbers.next()?, numbers.next()?);
    Some((program, release))
}

/// Checks that `ldb` accepts an OPTIONS file of KoelDB in a copy of `golden`.
///
/// It scans the default column family with it, and the result must equal the contents.
fn check(program: &Path, golden: &str, name: &str, text: &str) {
    let copy = Copy::of(golden, name);
    let original = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../golden")
        .join(golden);
    let mut how = ConfigOptions::new();
    how.set_apply_paths(true);
    let mut loaded = Options::load_latest(&original, &how).unwrap();
    loaded.options.apply_str(text, &how).unwrap();
    let default = loaded.options.cf.clone();
    loaded.column_families[0].1 = default;
    let mut families: Vec<(&str, &mut ColumnFamilyOptions)> = loaded
        .column_families
        .iter_mut()
        .map(|(name, options)| (name.as_str(), options))
        .collect();
    sanitize(
        &mut loaded.options.db,
        &mut families,
        &OpenContext::default(),
    )
    .unwrap();
    let families: Vec<(&str, &ColumnFamilyOptions)> = families
        .iter()
        .map(|(name, options)| (*name, &**options))
        .collect();
    let fs = PosixFileSystem::new();
    let text = options_file::print_checked(&loaded.options.db, &families).unwrap();
    options_file::write(&fs, &copy.0, 900, &text).unwrap();

    let output = Command::new(program)
        .arg(format!("--db={}", copy.0.display()))
        .args(["--try_load_options", "--hex", "scan"])
        .output()
        .unwrap();
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {found} {errors}");
    let expected = fs
        .read_all(
            &original.with_extension("expected.tsv"),
            64 << 20,
            Purpose::Other,
        )
        .unwrap();
    let expected = String::from_utf8(expected).unwrap();
    let expected: Vec<String> = expected
        .lines()
        .filter_map(|line| line.strip_prefix("default\t"))
        .filter_map(|line| line.split_once('\t'))
        .map(|(key, value)| format!("0x{key} 0x{value}").to_uppercase())
        .collect();
    let found: Vec<String> = found
        .lines()
        .filter_map(|line| line.split_once(" ==> ").or_else(|| line.split_once(" : ")))
        .map(|(key, value)| format!("{key} {value}").to_uppercase())
        .collect();
    let first_difference = found
        .iter()
        .zip(&expected)
        .find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{name}: {} entries instead of {}, {first_difference:?} {errors}",
        found.len(),
        expected.len()
    );
}

#[test]
fn ldb_opens_directories_with_our_file() {
    let Some((program, release)) = ldb() else {
        return;
    };
    check(&program, "block-v5", "plain", "");
    check(
        &program,
        "block-v5",
        "many",
        "write_buffer_size=8M;max_open_files=300;num_levels=5;compression=kZSTD;compression_per_level=kNoCompression:kZSTD;\
         compression_opts={level=3;max_dict_bytes=16K;};bottommost_compression_opts={level=9;enabled=true;};\
         block_based_table_factory={block_size=16K;filter_policy=ribbonfilter:10:2;index_type=kTwoLevelIndexSearch;\
         partition_filters=true;metadata_cache_options={top_level_index_pinning=kAll;};};prefix_extractor=capped:4;\
         compaction_options_universal={size_ratio=9;};compaction_options_fifo=5G;daily_offpeak_time_utc=;\
         max_bytes_for_level_multiplier=7.5;max_bytes_for_level_multiplier_additional=1:2:3;memtable_factory=vector:3;\
         table_properties_collectors={{id=CompactOnDeletionCollector;window_size=100;deletion_trigger=10;}};\
         sst_partitioner_factory={id=SstPartitionerFixedPrefixFactory;length=3;};ttl=900;info_log_level=WARN_LEVEL;\
         wal_recovery_mode=kTolerateCorruptedTailRecords",
    );
    check(
        &program,
        "block-v4",
        "older",
        "merge_operator={id=stringappend;delimiter=;};comparator=leveldb.BytewiseComparator",
    );
    check(&program, "wal-only", "log", "");
    if release >= (10, 4) {
        for golden in [
            "merge-stringappend",
            "universal",
            "fifo",
            "reverse-comparator",
            "column-families",
        ] {
            check(&program, golden, golden, "");
        }
    }
    if release >= (11, 5) {
        check(
            &program,
            "block-v7",
            "newest",
            "block_based_table_factory={index_block_search_type=kAuto;separate_key_value_in_data_block=true;\
             uniform_cv_threshold=0.3;};compression_opts={checksum=true;max_compressed_bytes_per_kb=900;};\
             compaction_options_universal={max_read_amp=9;reduce_file_locking=false;};\
             compaction_options_fifo={file_temperature_age_thresholds={{temperature=kWarm;age=10;}:{temperature=kCold;age=20;}};\
             max_data_files_size=5G;};async_wal_precreate=true;daily_offpeak_time_utc=22:30-03:00;open_files_async=true;\
             skip_stats_update_on_db_open=true;verify_output_flags=3;paranoid_memory_checks=true",
        );
    }
}
