use std::path::Path;

use super::{Scratch, fail, golden, run, succeed};

fn ldb(scratch: &Scratch, words: &[&str]) -> String {
    let db = scratch.db();
    succeed("ldb", &[&[db.as_str()][..], words].concat())
}

#[test]
fn keys_are_put_read_and_deleted() {
    let scratch = Scratch::new();
    assert!(fail("ldb", &[&scratch.db(), "put", "a", "b"]).starts_with("Failed: "));
    assert_eq!(
        ldb(&scratch, &["--create_if_missing", "put", "a", "1"]),
        "OK\n"
    );
    assert_eq!(ldb(&scratch, &["put", "--hex", "0x6b00", "0x00ff"]), "OK\n");
    assert_eq!(ldb(&scratch, &["batchput", "x", "1", "y", "2"]), "OK\n");
    assert_eq!(ldb(&scratch, &["get", "a"]), "1\n");
    assert_eq!(ldb(&scratch, &["get", "nosuch"]), "Key not found\n");
    assert_eq!(
        ldb(&scratch, &["multi_get", "a", "b"]),
        "a ==> 1\nKey not found: b\n"
    );
    assert_eq!(ldb(&scratch, &["delete", "y"]), "OK\n");
    assert_eq!(
        ldb(&scratch, &["scan", "--hex"]),
        "0x61 ==> 0x31\n0x6B00 ==> 0x00FF\n0x78 ==> 0x31\n"
    );
    let scan = [
        "scan",
        "--from=b",
        "--no_value",
        "--max_keys=1",
        "--key_hex",
    ];
    assert!(
        fail("ldb", &[&[scratch.db().as_str()][..], &scan].concat()).contains("Must start with 0x")
    );
    assert_eq!(
        ldb(
            &scratch,
            &["scan", "--from=b", "--no_value", "--max_keys=1"]
        ),
        "k\0\n"
    );
    assert_eq!(
        ldb(&scratch, &["scan", "--json", "--to=b"]),
        "{\"key\":\"61\",\"value\":\"31\"}\n"
    );
    assert_eq!(
        ldb(&scratch, &["idump", "--from=x"]),
        "'x' seq:3, type:1 => 1\n'y' seq:5, type:0 => \n'y' seq:4, type:1 => 2\nInternal keys in range: 3\n"
    );
    assert_eq!(ldb(&scratch, &["deleterange", "a", "z"]), "OK\n");
    assert_eq!(ldb(&scratch, &["dump"]), "Keys in range: 0\n");
}

#[test]
fn flags_of_a_command_may_stand_before_it() {
    let scratch = Scratch::new();
    ldb(
        &scratch,
        &["--create_if_missing", "batchput", "a", "1", "b", "2"],
    );
    let words = ["--max_keys=1", "--hex", "scan", "--no_value"];
    assert_eq!(ldb(&scratch, &words), "0x61\n");
    let err = fail("ldb", &[&scratch.db(), "--nosuch", "scan"]);
    assert!(err.contains("--nosuch"), "{err}");
}

#[test]
fn columns_are_put_read_and_printed() {
    let scratch = Scratch::new();
    let put = [
        "--create_if_missing",
        "put_entity",
        "row",
        "b:2",
        ":0",
        "a:1",
    ];
    assert_eq!(ldb(&scratch, &put), "OK\n");
    assert_eq!(ldb(&scratch, &["put", "plain", "value"]), "OK\n");
    let put_hex = ["put_entity", "--hex", "0x7a", "0x6e616d65:0xff", "0x65:"];
    assert_eq!(ldb(&scratch, &put_hex), "OK\n");
    assert_eq!(ldb(&scratch, &["get", "row"]), "0\n");
    assert_eq!(ldb(&scratch, &["get_entity", "row"]), ":0 a:1 b:2\n");
    assert_eq!(ldb(&scratch, &["get_entity", "plain"]), ":value\n");
    assert_eq!(
        ldb(&scratch, &["get_entity", "z", "--value_hex"]),
        "0x65: 0x6E616D65:0xFF\n"
    );
    assert_eq!(
        ldb(&scratch, &["multi_get_entity", "plain", "row", "none"]),
        "plain ==> :value\nrow ==> :0 a:1 b:2\nKey not found: none\n"
    );
    assert_eq!(
        ldb(&scratch, &["scan", "--to=s"]),
        "plain ==> value\nrow ==> :0 a:1 b:2\n"
    );
    assert_eq!(
        ldb(&scratch, &["scan", "--hex", "--from=0x72"]),
        "0x726F77 ==> :0x30 0x61:0x31 0x62:0x32\n0x7A ==> 0x65: 0x6E616D65:0xFF\n"
    );
    assert_eq!(
        ldb(&scratch, &["get_entity", "row", "--json"]),
        "{\"key\":\"726f77\",\"columns\":[{\"name\":\"\",\"value\":\"30\"},\
         {\"name\":\"61\",\"value\":\"31\"},{\"name\":\"62\",\"value\":\"32\"}]}\n"
    );
    assert_eq!(
        ldb(&scratch, &["idump", "--from=row", "--to=s"]),
        "'row' seq:1, type:22 => :0 a:1 b:2\nInternal keys in range: 1\n"
    );
    let db = scratch.db();
    let run = |words: &[&str]| fail("ldb", &[&[db.as_str()][..], words].concat());
    assert!(run(&["get_entity", "none"]).contains("GetEntity failed: NotFound"));
    assert!(run(&["put_entity", "row", "value"]).contains("did you mean put"));
    assert!(run(&["put_entity", "row", "a:1", "a:2"]).contains("two columns"));
}

#[test]
fn families_are_created_listed_and_dropped() {
    let scratch = Scratch::new();
    ldb(&scratch, &["--create_if_missing", "put", "a", "1"]);
    assert_eq!(ldb(&scratch, &["create_column_family", "birds"]), "OK\n");
    assert_eq!(
        ldb(
            &scratch,
            &["put", "--column_family=birds", "koel", "Eudynamys"]
        ),
        "OK\n"
    );
    assert_eq!(
        ldb(&scratch, &["scan", "--column_family=birds"]),
        "koel ==> Eudynamys\n"
    );
    assert_eq!(ldb(&scratch, &["scan"]), "a ==> 1\n");
    assert!(ldb(&scratch, &["list_column_families"]).ends_with("\n{default, birds}\n"));
    assert_eq!(ldb(&scratch, &["drop_column_family", "birds"]), "OK\n");
    assert!(ldb(&scratch, &["list_column_families"]).ends_with("\n{default}\n"));
    assert!(fail("ldb", &[&scratch.db(), "scan", "--column_family=birds"]).contains("birds"));
}

#[test]
fn compactions_checks_and_repairs_keep_the_data() {
    let scratch = Scratch::new();
    ldb(
        &scratch,
        &["--create_if_missing", "batchput", "a", "1", "b", "2"],
    );
    ldb(&scratch, &["compact"]);
    assert_eq!(ldb(&scratch, &["checkconsistency"]), "OK\n");
    let tree = ldb(&scratch, &["manifest_dump"]);
    assert!(
        tree.contains("['a' seq:") && tree.contains(" .. 'b' seq:"),
        "{tree}"
    );
    assert_eq!(ldb(&scratch, &["repair"]), "OK\n");
    assert_eq!(ldb(&scratch, &["scan"]), "a ==> 1\nb ==> 2\n");
    assert_eq!(
        ldb(&scratch, &["get_property", "rocksdb.estimate-num-keys"]),
        "rocksdb.estimate-num-keys: 2\n"
    );
}

/// Returns the entries of a golden database in the default column family, as `scan` prints them.
fn expected(name: &str) -> String {
    let path = golden().join(format!("{name}.expected.tsv"));
    let text = std::fs::read_to_string(path).expect("expected entries");
    let rows = text.lines().filter_map(|line| {
        let mut columns = line.split('\t');
        (columns.next() == Some("default")).then_some(())?;
        let (key, value) = (columns.next()?, columns.next().unwrap_or(""));
        Some(format!(
            "0x{} ==> 0x{}\n",
            key.to_uppercase(),
            value.to_uppercase()
        ))
    });
    rows.collect()
}

#[test]
fn databases_of_rocksdb_are_scanned() {
    for name in [
        "block-v7",
        "deletes-ranges-single",
        "merge-stringappend",
        "wal-zstd",
        "reverse-comparator",
    ] {
        let db = format!("--db={}", golden().join(name).display());
        assert_eq!(
            succeed("ldb", &[&db, "scan", "--hex"]),
            expected(name),
            "{name}"
        );
        assert_eq!(succeed("ldb", &[&db, "checkconsistency"]), "OK\n", "{name}");
        succeed("ldb", &[&db, "idump", "--count_only"]);
        succeed("ldb", &[&db, "manifest_dump", "--verbose"]);
        succeed("ldb", &[&db, "manifest_dump", "--json"]);
    }
}

#[test]
fn a_log_is_printed_batch_by_batch() {
    let path = golden()
        .join("merge-uint64add-wal/000008.log")
        .display()
        .to_string();
    let wal = format!("--walfile={path}");
    let out = succeed("ldb", &["dump_wal", &wal, "--header", "--print_value"]);
    let mut lines = out.lines();
    assert_eq!(
        lines.next(),
        Some("Sequence,Count,ByteSize,Physical Offset,Key(s) : value ")
    );
    assert_eq!(
        lines.next(),
        Some("302,1,26,0,MERGE(0) : 0x633235 : 0x6701000000000000 ")
    );
    let out = succeed("ldb", &["dump_wal", &wal, "--json"]);
    let first = "{\"sequence\":302,\"count\":1,\"bytes\":26,\"offset\":0,\"entries\":[{\"op\":\"MERGE\",\"cf\":0,\"key\":\"633235\"}]}";
    assert_eq!(out.lines().next(), Some(first));
}

#[test]
fn logs_outside_of_the_directory_are_read_or_the_database_is_not() {
    let scratch = Scratch::new();
    let logs = scratch.file("logs");
    let options = format!("--options=wal_dir={logs};avoid_flush_during_shutdown=true");
    ldb(
        &scratch,
        &["--create_if_missing", &options, "put", "logged", "value"],
    );
    assert_eq!(ldb(&scratch, &["scan"]), "logged ==> value\n");
    assert_eq!(ldb(&scratch, &["put", "more", "value"]), "OK\n");
    let entries = ldb(&scratch, &["idump"]);
    assert!(
        entries.contains("'more' seq:2, type:1 => value\n"),
        "{entries}"
    );
    let explained = ldb(&scratch, &["explain_get", "more"]);
    assert!(
        explained.contains("answer: found, 5 bytes\n"),
        "{explained}"
    );

    let copy = scratch.file("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(scratch.file("db")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), Path::new(&copy).join(entry.file_name())).unwrap();
    }
    let copy = format!("--db={copy}");
    for words in [&["scan"][..], &["put", "koel", "3"], &["repair"]] {
        let error = fail("ldb", &[&[&*copy][..], words].concat());
        assert!(error.contains("of which this is a copy"), "{error}");
        assert!(error.contains("Failed: "), "{error}");
    }
    let both = "logged ==> value\nmore ==> value\n";
    assert_eq!(ldb(&scratch, &["scan"]), both);
    let given = format!("--options=wal_dir={logs}");
    assert_eq!(succeed("ldb", &[&copy, &given, "scan"]), both);
}

#[test]
fn files_leave_and_enter_a_database() {
    let scratch = Scratch::new();
    ldb(&scratch, &["--create_if_missing", "put", "a", "1"]);
    let target = scratch.file("copy");
    let to = format!("--checkpoint_dir={target}");
    assert_eq!(ldb(&scratch, &["checkpoint", &to]), "OK\n");
    let copy = format!("--db={target}");
    assert_eq!(succeed("ldb", &[&copy, "get", "a"]), "1\n");
    let again = fail("ldb", &[&scratch.db(), "checkpoint", &to]);
    assert!(again.contains("exists"), "{again}");

    let backups = format!("--backup_dir={}", scratch.file("backups"));
    let made = ldb(&scratch, &["backup", &backups, "--num_threads=2"]);
    assert!(made.ends_with("create new backup OK\n"), "{made}");
    ldb(&scratch, &["put", "a", "2"]);
    let restored = ldb(&scratch, &["restore", &backups]);
    assert!(restored.ends_with("restore from backup OK\n"), "{restored}");
    assert_eq!(ldb(&scratch, &["get", "a"]), "1\n");

    let table = scratch.file("external.sst");
    let mut writer =
        koeldb::SstFileWriter::create(&koeldb::ColumnFamilyOptions::new(), &table).unwrap();
    writer.put("b", "3").unwrap();
    writer.finish().unwrap();
    let ingested = ldb(&scratch, &["ingest_extern_sst", &table]);
    assert_eq!(ingested, "external SST files ingested\n");
    assert_eq!(ldb(&scratch, &["scan"]), "a ==> 1\nb ==> 3\n");
    let sums = ldb(&scratch, &["file_checksum_dump"]);
    assert!(sums.contains(", Unknown, "), "{sums}");
}

#[test]
fn secondaries_ttl_databases_and_range_deletions_are_read() {
    let scratch = Scratch::new();
    ldb(&scratch, &["--create_if_missing", "put", "a", "1"]);
    ldb(&scratch, &["deleterange", "k", "m"]);
    ldb(&scratch, &["compact"]);
    ldb(&scratch, &["put", "b", "2"]);
    let own = format!("--secondary_path={}-secondary", &scratch.db()[5..]);
    assert_eq!(ldb(&scratch, &[&own, "scan"]), "a ==> 1\nb ==> 2\n");
    let refused = fail("ldb", &[&scratch.db(), &own, "put", "c", "3"]);
    assert!(refused.contains("--secondary_path"), "{refused}");
    let dumped = ldb(&scratch, &["dump_live_files"]);
    for part in [
        "Manifest File",
        "Column family name: default",
        ".sst level:",
        "'a' seq:",
        "Write Ahead Log Files",
        "PUT(0) : 0x62 : 0x32",
    ] {
        assert!(dumped.contains(part), "{part}\n{dumped}");
    }
    let dumped = ldb(&scratch, &["dump_live_files", "--hex"]);
    assert!(dumped.contains("'61' seq:"), "{dumped}");
    let listed = ldb(&scratch, &["list_file_range_deletes"]);
    assert!(listed.contains("=== file : "), "{listed}");

    let ttl = Scratch::new();
    assert_eq!(
        ldb(&ttl, &["--create_if_missing", "--ttl", "put", "a", "1"]),
        "OK\n"
    );
    assert_eq!(ldb(&ttl, &["--ttl", "get", "a"]), "1\n");
    assert_eq!(
        ldb(&ttl, &["--value_hex", "get", "a"]).len(),
        "0x31aabbccdd\n".len()
    );
}

/// Fills a database whose keys are in tables of two levels and in the log.
fn two_levels(scratch: &Scratch) {
    ldb(
        scratch,
        &[
            "--create_if_missing",
            "batchput",
            "a",
            "1",
            "k",
            "2",
            "z",
            "3",
        ],
    );
    ldb(scratch, &["compact"]);
    ldb(
        scratch,
        &["--bloom_bits=10", "batchput", "b", "4", "k", "5", "y", "6"],
    );
    ldb(scratch, &["delete", "z"]);
}

#[test]
fn doctor_finds_nothing_in_a_sound_database_and_a_flipped_bit_in_another() {
    let scratch = Scratch::new();
    two_levels(&scratch);
    let report = ldb(&scratch, &["doctor"]);
    assert!(report.contains(" errors: 0, warnings: 0"), "{report}");
    let tables: Vec<_> = std::fs::read_dir(scratch.0.join("db"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .collect();
    let mut bytes = std::fs::read(&tables[0]).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&tables[0], &bytes).unwrap();
    let (success, out, err) = run("ldb", &[&scratch.db(), "doctor"]);
    assert!(
        !success && err.contains("1 errors were found"),
        "{out}{err}"
    );
    assert!(
        out.contains("error: checksum: ") && out.contains("ldb repair"),
        "{out}"
    );
    let (_, json, _) = run("ldb", &[&scratch.db(), "doctor", "--json"]);
    assert!(
        json.contains(r#"{"severity":"error","check":"checksum""#),
        "{json}"
    );
    std::fs::remove_file(&tables[0]).unwrap();
    let (success, out, _) = run("ldb", &[&scratch.db(), "doctor", "--skip_checksums"]);
    assert!(
        !success && out.contains("error: consistency: ") && out.contains("is missing"),
        "{out}"
    );
}

#[test]
fn a_lost_current_is_refused_by_name_and_doctor_says_what_repair_keeps() {
    let scratch = Scratch::new();
    two_levels(&scratch);
    let entries = ldb(&scratch, &["scan"]);
    let db = scratch.0.join("db");
    std::fs::remove_file(db.join("CURRENT")).unwrap();
    let before = names(&db);
    for words in [
        &["put", "k", "v"][..],
        &["--create_if_missing", "put", "k", "v"],
        &["get", "k"],
    ] {
        let err = fail("ldb", &[&[&*scratch.db()], words].concat());
        for part in ["CURRENT is missing", "table", "MANIFEST-0", "ldb repair"] {
            assert!(err.contains(part), "{words:?}: {err}");
        }
        assert_eq!(names(&db), before, "{words:?}");
    }
    let (success, out, _) = run("ldb", &[&scratch.db(), "doctor"]);
    assert!(!success && out.contains("it keeps everything"), "{out}");
    ldb(&scratch, &["repair"]);
    assert_eq!(ldb(&scratch, &["scan"]), entries);

    // A table is missing besides: a repair would lose its entries.
    std::fs::remove_file(db.join("CURRENT")).unwrap();
    let is_table = |name: &&String| name.ends_with(".sst");
    let table = names(&db).iter().find(is_table).unwrap().clone();
    std::fs::remove_file(db.join(table)).unwrap();
    let (success, out, _) = run("ldb", &[&scratch.db(), "doctor"]);
    assert!(!success && out.contains("Restore a backup"), "{out}");
    assert!(!out.contains("it keeps everything"), "{out}");
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let name =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let names = entries.map(|entry| name(entry).expect("a name"));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn no_database_is_created_among_the_files_of_others() {
    let scratch = Scratch::new();
    let db = scratch.0.join("db");
    std::fs::create_dir(&db).unwrap();
    std::fs::write(db.join("main.rs"), "fn main() {}").unwrap();
    std::fs::create_dir(db.join("src")).unwrap();
    let before = names(&db);
    let put = ["--create_if_missing", "put", "k", "v"];
    let err = fail("ldb", &[&[&*scratch.db()], &put[..]].concat());
    assert!(err.contains("\"main.rs\" and 1 more"), "{err}");
    assert_eq!(names(&db), before);
}

#[test]
fn doctor_examines_every_database_of_rocksdb() {
    for entry in std::fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        if !path.join("CURRENT").is_file() {
            continue;
        }
        let db = format!("--db={}", path.display());
        let (_, out, err) = run("ldb", &[&db, "doctor", "--try_load_options=false"]);
        assert!(out.contains("column families: "), "{db}: {out}{err}");
        assert!(!out.contains("error: checksum"), "{db}: {out}");
    }
}

#[test]
fn a_read_is_explained_by_memtables_tables_filters_and_blocks() {
    let scratch = Scratch::new();
    two_levels(&scratch);
    let newest = ldb(&scratch, &["explain-get", "k"]);
    assert!(newest.contains("answer: found, 1 bytes"), "{newest}");
    assert!(
        newest.contains("level 6: not consulted: a newer entry decides"),
        "{newest}"
    );
    let deleted = ldb(&scratch, &["explain-get", "z"]);
    assert!(
        deleted.contains("answer: not found: the newest entry is deleted"),
        "{deleted}"
    );
    let older = ldb(&scratch, &["explain-get", "a"]);
    assert!(
        older.contains("memtables: ") && older.contains("answer: found, 1 bytes"),
        "{older}"
    );
    assert!(older.contains("read: data block at 0"), "{older}");
    let outside = ldb(&scratch, &["explain-get", "zz"]);
    assert!(
        outside.contains("the key is outside of their ranges"),
        "{outside}"
    );
    assert!(
        outside.contains("answer: not found: no run has an entry"),
        "{outside}"
    );
    let json = ldb(&scratch, &["explain-get", "a", "--json"]);
    assert!(json.contains(r#""answer":"found, 1 bytes""#), "{json}");
}

#[test]
fn the_levels_are_drawn_with_a_rectangle_per_table() {
    let scratch = Scratch::new();
    two_levels(&scratch);
    let path = scratch.file("levels.svg");
    ldb(&scratch, &["lsm", &format!("--out={path}")]);
    let svg = std::fs::read_to_string(&path).unwrap();
    assert_eq!(svg, ldb(&scratch, &["lsm"]));
    let tables = ldb(&scratch, &["list_live_files_metadata", "--json"]);
    assert_eq!(
        svg.matches("class=\"table ").count(),
        tables.lines().count()
    );
    assert!(svg.contains(".sst, level 6, "), "{svg}");
}

#[test]
fn top_prints_the_figures_of_a_database_that_it_does_not_open_for_writing() {
    let scratch = Scratch::new();
    two_levels(&scratch);
    let top = ["top", "--count=2", "--interval_seconds=0.01"];
    let text = ldb(&scratch, &top);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(
        text.lines()
            .next()
            .is_some_and(|line| line.contains("writes/s")),
        "{text}"
    );
    let json = ldb(&scratch, &[&top[..], &["--json"]].concat());
    assert!(
        json.lines().all(|line| line.contains(r#""sequence":7,"#)),
        "{json}"
    );
}

#[test]
fn entries_are_counted_by_prefix_and_files_listed_by_name() {
    let scratch = Scratch::new();
    let db = scratch.db();
    let ldb = |words: &[&str]| succeed("ldb", &[&[db.as_str()][..], words].concat());
    ldb(&[
        "batchput",
        "x.1",
        "x1",
        "y.abc",
        "abc",
        "y.2",
        "2",
        "--create_if_missing",
    ]);
    let counted = "x => count:1\tsize:5\ny => count:2\tsize:12\n";
    assert_eq!(ldb(&["dump", "--count_delim"]), counted);
    assert_eq!(ldb(&["idump", "--count_delim=."]), counted);
    assert_eq!(
        ldb(&["dump", "--count_delim=a", "--from=y.a"]),
        "y. => count:1\tsize:8\n"
    );
    ldb(&["compact"]);
    let files = ldb(&["list_live_files_metadata", "--sort_by_filename"]);
    assert!(files.contains(".sst : level ") && files.contains(", column family 'default'"));
    let map = ldb(&["get_property", "rocksdb.aggregated-table-properties"]);
    assert!(
        map.contains("rocksdb.aggregated-table-properties.num_entries: 3"),
        "{map}"
    );
}

/// The tables of a database with their levels, from `list_live_files_metadata --json`.
fn tables(scratch: &Scratch) -> Vec<(u64, u64)> {
    let number = |line: &str, name: &str| {
        let (_, rest) = line
            .split_once(&format!("\"{name}\":"))
            .expect("a table has this field");
        let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        let end = digits.find(|c: char| !c.is_ascii_digit());
        let digits = &digits[..end.unwrap_or(digits.len())];
        digits.parse::<u64>().expect("a number")
    };
    let listed = ldb(scratch, &["list_live_files_metadata", "--json"]);
    listed
        .lines()
        .map(|line| (number(line, "name"), number(line, "level")))
        .collect()
}

#[test]
fn a_table_is_removed_with_its_entries() {
    let scratch = Scratch::new();
    two_levels(&scratch);
    assert_eq!(ldb(&scratch, &["get", "k"]), "5\n");
    let missing = fail("ldb", &[&scratch.db(), "unsafe_remove_sst_file", "999999"]);
    assert!(missing.contains("999999"), "{missing}");
    for (number, level) in tables(&scratch) {
        if level == 0 {
            let removed = ldb(&scratch, &["unsafe_remove_sst_file", &number.to_string()]);
            assert_eq!(removed, "unsafely removed SST file\n");
        }
    }
    assert_eq!(tables(&scratch).len(), 1);
    assert_eq!(ldb(&scratch, &["checkconsistency"]), "OK\n");
    // The older entries show again; the deletion of z is in the log.
    assert_eq!(ldb(&scratch, &["scan"]), "a ==> 1\nk ==> 2\n");
}

#[test]
fn a_database_opens_with_fewer_levels_after_their_reduction() {
    let scratch = Scratch::new();
    two_levels(&scratch);
    let before = ldb(&scratch, &["scan"]);
    let few = "--options=num_levels=3";
    assert!(fail("ldb", &[&scratch.db(), few, "scan"]).contains("level"));
    assert!(fail("ldb", &[&scratch.db(), "reduce_levels", "--new_levels=1"]).contains("Invalid"));
    let reduced = ldb(
        &scratch,
        &["reduce_levels", "--new_levels=3", "--print_old_levels"],
    );
    assert_eq!(reduced, "The old number of levels in use is 7\nOK\n");
    assert!(tables(&scratch).iter().all(|(_, level)| *level == 2));
    assert_eq!(ldb(&scratch, &[few, "scan"]), before);
    assert_eq!(ldb(&scratch, &[few, "put", "n", "7"]), "OK\n");
    assert_eq!(ldb(&scratch, &["get", "n"]), "7\n");
}

#[test]
fn objects_that_only_another_program_knows_do_not_keep_a_directory_closed() {
    let scratch = Scratch::new();
    ldb(&scratch, &["--create_if_missing", "put", "a", "1"]);
    let directory = scratch.db();
    let directory = Path::new(directory.trim_start_matches("--db="));
    let options = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("OPTIONS-"))
        .max()
        .unwrap();
    let text = std::fs::read_to_string(&options).unwrap();
    // The lines of a database that RocksDB's `ldb --ttl` created.
    let text = text
        .replace(
            "merge_operator=nullptr",
            "merge_operator={id=TtlMergeOperator;user_operator={id=StringAppendOperator;delimiter=\\:;};}",
        )
        .replace(
            "compaction_filter_factory=nullptr",
            "compaction_filter_factory={id=TtlCompactionFilterFactory;user_filter_factory=nullptr;ttl=0;}",
        );
    assert!(text.contains("TtlMergeOperator") && text.contains("TtlCompactionFilterFactory"));
    std::fs::write(&options, &text).unwrap();
    let (success, out, err) = run("ldb", &[&scratch.db(), "get", "a"]);
    assert!(success && out == "1\n", "{out}{err}");
    assert!(err.contains("TtlMergeOperator"), "{err}");
    for command in [
        ["scan", "--max_keys=1"],
        ["--ignore_unknown_options", "list_column_families"],
    ] {
        std::fs::write(&options, &text).unwrap();
        ldb(&scratch, &command);
    }
}

#[test]
fn every_command_refuses_a_log_that_cannot_be_replayed_and_changes_nothing() {
    let scratch = Scratch::new();
    let directory = scratch.db();
    let directory = Path::new(directory.trim_start_matches("--db="));
    std::fs::create_dir_all(directory).unwrap();
    for entry in std::fs::read_dir(golden().join("write-prepared-undecided")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
    }
    let files = || {
        let mut files: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| !entry.file_name().to_string_lossy().starts_with("LO"))
            .map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    for words in [
        &["put", "a", "1"][..],
        &["get", "a"],
        &["scan"],
        &["compact"],
        &["doctor"],
        &["repair"],
    ] {
        let db = scratch.db();
        let words = [&[db.as_str()][..], words].concat();
        let (success, out, err) = run("ldb", &words);
        assert!(!success, "{words:?}: {out}");
        let text = out + &err;
        let is_named = text.contains("write-prepared") || text.contains("two-phase transaction");
        assert!(is_named, "{words:?}: {text}");
        assert!(files() == before, "{words:?} changed the directory");
    }
}

/// The only blob file of a database whose value of `big` was overwritten once.
fn with_blob_files(scratch: &Scratch) -> koeldb::Result<Vec<std::path::PathBuf>> {
    let mut options = koeldb::Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_enable_blob_files(true)
        .set_min_blob_size(20);
    let db = koeldb::Db::open(&options, scratch.0.join("db"))?;
    for round in 0..2 {
        db.put("big", format!("value {round} ").repeat(10))?;
        db.put(format!("big {round}"), "value ".repeat(10))?;
        db.put("small", "value")?;
        db.flush()?;
    }
    db.compact_range(..)?;
    db.close()?;
    let entries = std::fs::read_dir(scratch.0.join("db")).expect("the database");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "blob")
        })
        .collect();
    files.sort();
    Ok(files)
}

#[test]
fn blob_files_are_dumped_listed_and_examined() {
    let scratch = Scratch::new();
    let files = with_blob_files(&scratch).unwrap();
    assert_eq!(files.len(), 2);
    let path = |index: usize| format!("--path={}", files[index].display());
    let out = succeed("ldb", &["blob_dump", &path(0)]);
    for part in [
        "Blob log header:\n  Version          : 1\n  Column Family ID : 0\n  \
         Compression      : kNoCompression\n  Expiration range : nil\n\
         Blob log footer:\n  Blob count       : 2\n",
        "Read record with offset 0x1e (30):\n  key size   : 3\n  value size : 80\n  \
         expiration : 0\n  key        : big\n  state      : dead\n",
        "Summary:\n  total records: 2\n  total key size: 8\n",
        "  live: 1\n  dead: 1\n",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let out = succeed("ldb", &["blob_dump", &path(1), "--show_values", "--json"]);
    assert!(out.contains(r#""footer_records":2"#), "{out}");
    assert!(
        out.contains(r#""state":"live""#) && out.contains(r#""stored":"#),
        "{out}"
    );
    let listed = ldb(&scratch, &["list_live_files_metadata"]);
    for file in &files {
        let name = file.file_name().unwrap().to_string_lossy();
        assert!(listed.contains(&*name), "{listed}");
    }
    let dumped = ldb(&scratch, &["dump_live_files"]);
    assert!(
        dumped.contains("Blob Files") && dumped.contains("total records: 2"),
        "{dumped}"
    );
    let report = ldb(&scratch, &["doctor"]);
    assert!(
        report.contains("blob files: 2 in ") && report.contains("errors: 0"),
        "{report}"
    );

    let unknown = scratch.0.join("db/009999.blob");
    std::fs::copy(&files[0], &unknown).unwrap();
    let report = ldb(&scratch, &["doctor"]);
    assert!(
        report.contains("1 blob files in the directory belong to no"),
        "{report}"
    );
    std::fs::remove_file(unknown).unwrap();
    let bytes = std::fs::read(&files[0]).unwrap();
    let mut flipped = bytes.clone();
    flipped[70] ^= 1;
    for (damaged, what) in [
        (Some(&flipped[..]), "error: checksum: "),
        (Some(&bytes[..bytes.len() - 1]), "are recorded"),
        (None, "is missing"),
    ] {
        match damaged {
            Some(bytes) => std::fs::write(&files[0], bytes).unwrap(),
            None => std::fs::remove_file(&files[0]).unwrap(),
        }
        let (success, out, _) = run("ldb", &[&scratch.db(), "doctor"]);
        assert!(!success && out.contains(what), "{what}: {out}");
        let (success, ..) = run("ldb", &["blob_dump", &path(0)]);
        assert!(!success, "{what}");
    }
}

#[test]
fn doctor_examines_tables_in_several_directories() {
    let path = golden().join("paths");
    let db = format!("--db={}", path.display());
    let (success, out, _) = run("ldb", &[&db, "doctor", "--try_load_options=false"]);
    assert!(!success && out.contains("of db_paths"), "{out}");
    let paths = format!(
        "--db_paths={},{}",
        path.join("fast").display(),
        path.join("slow").display()
    );
    let out = succeed("ldb", &[&db, "doctor", "--try_load_options=false", &paths]);
    assert!(out.contains("errors: 0"), "{out}");
}

#[test]
fn references_to_blob_files_are_decoded() {
    let scratch = Scratch::new();
    with_blob_files(&scratch).unwrap();
    let decoded = ldb(&scratch, &["idump", "--decode_blob_index"]);
    let reference = "type:17 => [blob ref] file:";
    assert!(decoded.contains(reference), "{decoded}");
    assert!(!ldb(&scratch, &["idump", "--hex"]).contains("blob ref"));
    let live = ldb(&scratch, &["dump_live_files", "--decode_blob_index"]);
    assert!(live.contains(reference), "{live}");
    let tables = std::fs::read_dir(scratch.0.join("db")).expect("the database");
    let table = tables
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|end| end == "sst"))
        .expect("a table");
    let path = table.display().to_string();
    let scan = ["--command=scan", "--decode_blob_index", &*path];
    assert!(succeed("sst_dump", &scan).contains(reference));
    let path = format!("--path={path}");
    let dumped = succeed("ldb", &["dump", &path, "--decode_blob_index"]);
    assert!(
        dumped.contains(reference) && dumped.contains("# entries="),
        "{dumped}"
    );
    let part = succeed("ldb", &["dump", &path, "--from=big ", "--max_keys=1"]);
    assert_eq!(part.matches(" seq:").count(), 1, "{part}");
    let stats = ldb(&scratch, &["idump", "--stats", "--count_only"]);
    assert!(
        stats.contains("** Compaction Stats [default] **") && stats.ends_with("in range: 4\n"),
        "{stats}"
    );
}

#[test]
fn values_of_compressed_blob_files_are_printed_uncompressed() {
    let path = golden().join("blob-zstd");
    let file = std::fs::read_dir(path)
        .expect("a database of RocksDB")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|end| end == "blob"))
        .expect("a blob file");
    let path = format!("--path={}", file.display());
    let out = succeed(
        "ldb",
        &["dump", &path, "--hex", "--dump_uncompressed_blobs"],
    );
    assert!(out.contains("\n  raw blob   : "), "{out}");
    assert!(out.contains("\n  total raw blob size: "), "{out}");
    assert!(!out.contains("state"), "{out}");
}

#[test]
fn only_commands_that_write_create_a_database_or_open_it_for_transactions() {
    let scratch = Scratch::new();
    for command in ["dump", "scan", "list_column_families", "compact"] {
        let err = fail("ldb", &[&scratch.db(), command, "--create_if_missing"]);
        assert!(err.contains("--create_if_missing"), "{err}");
    }
    assert!(!scratch.0.join("db").exists());
    let put = ["put", "a", "1", "--create_if_missing", "--use_txn"];
    assert_eq!(ldb(&scratch, &put), "OK\n");
    for policy in 0..3 {
        let flag = format!("--txn_write_policy={policy}");
        let words = ["--use_txn", &flag, "batchput", "b", &policy.to_string()];
        assert_eq!(ldb(&scratch, &words), "OK\n");
    }
    assert_eq!(ldb(&scratch, &["delete", "a", "--use_txn"]), "OK\n");
    assert_eq!(ldb(&scratch, &["scan"]), "b ==> 2\n");
    for words in [
        &["get", "b", "--use_txn"][..],
        &["put", "c", "3", "--use_txn", "--ttl"],
    ] {
        let err = fail("ldb", &[&[&*scratch.db()], words].concat());
        assert!(err.contains("--use_txn"), "{err}");
    }
}

#[test]
fn blob_options_are_set_by_the_flags_of_rocksdb() {
    let scratch = Scratch::new();
    let db = scratch.db();
    let flags = [
        &db,
        "--enable_blob_files",
        "--min_blob_size=2",
        "--blob_file_size=2097152",
        "--blob_compression_type=lz4",
    ];
    let with = |words: &[&str]| succeed("ldb", &[&flags[..], words].concat());
    with(&["--create_if_missing", "put", "koel", "Eudynamys"]);
    with(&["put", "k", "v"]);
    with(&["compact"]);
    let files = succeed(
        "ldb",
        &[&db, "list_live_files_metadata", "--sort_by_filename"],
    );
    assert!(files.contains(".blob, column family 'default'"), "{files}");
    assert_eq!(succeed("ldb", &[&db, "get", "koel"]), "Eudynamys\n");
    let err = fail(
        "ldb",
        &[
            &db,
            "--enable_blob_garbage_collection",
            "--blob_garbage_collection_age_cutoff=2",
            "put",
            "k",
            "v",
        ],
    );
    assert!(err.contains("blob_garbage_collection_age_cutoff"), "{err}");
}

#[test]
fn a_copy_of_a_manifest_is_dumped_whatever_its_number() {
    let scratch = Scratch::new();
    let db = scratch.db();
    succeed(
        "ldb",
        &[&db, "--create_if_missing", "put", "koel", "Eudynamys"],
    );
    let directory = scratch.0.join("db");
    let name = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let entries = std::fs::read_dir(&directory).expect("the database");
    let manifest = entries
        .map(|entry| name(&entry.expect("an entry")))
        .find(|name| name.starts_with("MANIFEST-"))
        .expect("a MANIFEST");
    let copy = directory.join(format!("{manifest}1"));
    std::fs::copy(directory.join(&manifest), &copy).expect("a copy");
    let path = format!("--path={}", copy.display());
    let dumped = succeed("ldb", &["manifest_dump", &path]);
    assert_eq!(dumped, succeed("ldb", &[&db, "manifest_dump"]));
}
