use super::{Scratch, fail, golden, run, succeed};

fn table(name: &str) -> String {
    golden().join(name).display().to_string()
}

#[test]
fn entries_are_printed_as_rocksdb_prints_them() {
    let file = table("block-v7/000009.sst");
    let words = ["--command=scan", "--output_hex", "--read_num=1"];
    let out = succeed("sst_dump", &[&[file.as_str()][..], &words].concat());
    let expected = format!(
        "Process {file}\nSst file format: block-based\nfrom [] to []\n'6B6579303030303031303637' seq:633, type:1 => "
    );
    assert!(out.starts_with(&expected), "{out}");
    let by_prefix = [
        "--command=scan",
        "--prefix=0x6B6579303030303031303637",
        "--input_key_hex",
        "--json",
    ];
    let out = succeed("sst_dump", &[&[file.as_str()][..], &by_prefix].concat());
    assert!(
        out.starts_with("{\"key\":\"6b6579303030303031303637\",\"seq\":633,\"type\":\"value\"")
    );
    assert_eq!(out.lines().count(), 1);
}

#[test]
fn every_block_based_table_of_rocksdb_is_good() {
    let names = [
        "block-v2",
        "block-v3",
        "block-v4",
        "block-v5",
        "block-v6",
        "block-v7",
        "block-partitioned",
        "block-separated-kv",
        "block-uniform-index",
        "block-zstd-dictionary",
        "deletes-ranges-single",
        "reverse-comparator",
    ];
    for name in names {
        for command in ["--command=check", "--command=verify", "--command=identify"] {
            succeed("sst_dump", &[&table(name), command]);
        }
    }
}

#[test]
fn properties_and_layout_are_shown() {
    let file = table("deletes-ranges-single/000011.sst");
    let words = ["--command=properties", "--list_meta_blocks"];
    let out = succeed("sst_dump", &[&[file.as_str()][..], &words].concat());
    for line in [
        "  # entries: 165\n",
        "  # range deletions: 3\n",
        "  rocksdb.range_del: 2731 121\n",
        "  raw average key size: 20.000000\n",
    ] {
        assert!(out.contains(line), "{line} in {out}");
    }
    let out = succeed("sst_dump", &[&file, "--command=properties", "--json"]);
    assert!(out.contains("\"rocksdb.num.entries\":165,"), "{out}");
    let scratch = Scratch::new();
    let copy = scratch.file("000011.sst");
    std::fs::copy(&file, &copy).expect("a copy");
    succeed(
        "sst_dump",
        &[&copy, "--command=raw", "--show_sequence_number_type"],
    );
    let dump = std::fs::read_to_string(scratch.file("000011_dump.txt")).expect("a dump");
    for line in [
        "  Metaindex block checksum type: 4  checksum value: 0x62852b76  offset: 3984  size: 83  compression type: 0\n",
        "  HEX    6B6579303030313030303030  seq: 1001  type: 15 : 6B6579303030323030303030\n",
        "  # data blocks: 3\n",
    ] {
        assert!(dump.contains(line), "{line}");
    }
}

#[test]
fn what_a_cuckoo_table_costs_is_shown() {
    let directory = golden().join("cuckoo-module-hash");
    let out = succeed(
        "sst_dump",
        &[
            &directory.display().to_string(),
            "--command=verify",
            "--show_properties",
        ],
    );
    for words in [
        "Sst file format: cuckoo\n",
        "The file is ok\n",
        " slots wasted (",
        "; found in window 1: ",
        "a hit looks at 1.",
        "a miss looks at ",
        " cache lines\n",
        "  load: ",
        "  windows: 2 of 5 slots a key, by remainder of ",
    ] {
        assert!(out.contains(words), "{words} in {out}");
    }
}

#[test]
fn damage_is_told_and_counts_as_failure() {
    let scratch = Scratch::new();
    let copy = scratch.file("000009.sst");
    let mut bytes = std::fs::read(table("block-v7/000009.sst")).expect("a table");
    bytes[100] ^= 1;
    std::fs::write(&copy, &bytes).expect("a damaged copy");
    for command in ["--command=check", "--command=verify", "--command=scan"] {
        assert!(fail("sst_dump", &[&copy, command]).contains("checksum mismatch"));
    }
    let (_, out, _) = run("sst_dump", &[&copy, "--json"]);
    assert!(out.contains("\"ok\":false"), "{out}");
    std::fs::write(&copy, b"short").expect("no table");
    assert!(fail("sst_dump", &[&copy, "--command=identify"]).contains("is not a valid SST file"));
    fail("sst_dump", &["/nonexistent"]);
}

#[test]
fn an_internal_key_is_taken_apart() {
    let key = "0x00000000000000033030303030303030012C010000000000";
    let out = succeed("sst_dump", &["--parse_internal_key", key]);
    assert_eq!(
        out,
        "key='00000000000000033030303030303030' seq:300, type:1\n"
    );
}

#[test]
fn a_summary_adds_up_all_files() {
    let scratch = Scratch::new();
    for round in ["1", "2"] {
        succeed(
            "ldb",
            &[&scratch.db(), "--create_if_missing", "put", "koel", round],
        );
        succeed("ldb", &[&scratch.db(), "compact", "--from=x", "--to=y"]);
    }
    let db = scratch.file("db");
    let out = succeed("sst_dump", &["--command=identify", "--show_summary", &db]);
    let files = out.matches("is a valid SST file").count();
    assert!(
        files > 0 && out.contains(&format!("total number of files: {files}\n")),
        "{out}"
    );
    assert!(
        out.contains(&format!("total number of data blocks: {files}\n")),
        "{out}"
    );
}
