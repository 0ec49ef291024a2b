use super::{Scratch, fail, run, succeed};

/// Returns the result lines without the numbers that differ between runs.
fn results(out: &str) -> Vec<String> {
    let lines = out.lines().filter(|line| line.contains(" micros/op "));
    lines
        .map(|line| {
            let (name, rest) = line.split_once(':').expect("a name");
            let (_, counted) = rest.split_once("seconds ").expect("a time");
            format!("{} {counted}", name.trim())
        })
        .collect()
}

#[test]
fn the_same_seed_finds_what_rocksdb_finds() {
    let scratch = Scratch::new();
    let benchmarks = "--benchmarks=fillrandom,readrandom,readmissing,seekrandom,readseq";
    let out = succeed(
        "db_bench",
        &[&scratch.db(), "--num=1000", "--seed=42", benchmarks],
    );
    let results = results(&out);
    let found: Vec<&str> = results
        .iter()
        .filter_map(|result| Some(&result[result.find('(')?..]))
        .collect();
    // Numbers from RocksDB 11.9 with the same command line.
    assert_eq!(
        found,
        [
            "(664 of 1000 found)",
            "(0 of 1000 found)",
            "(617 of 1000 found)"
        ]
    );
    assert!(
        results[4].starts_with("readseq 642 operations;"),
        "{results:?}"
    );
}

#[test]
fn what_was_written_is_read_again_by_a_second_run() {
    let scratch = Scratch::new();
    let flags = [&scratch.db(), "--num=2000", "--seed=1", "--threads=2"];
    let fill = "--benchmarks=filluniquerandom,compact,verifychecksum,levelstats";
    let out = succeed("db_bench", &[&flags[..], &[fill]].concat());
    assert!(out.contains("\nLevel Files Size(MB)\n"), "{out}");
    let read = [
        "--use_existing_db",
        "--readonly",
        "--benchmarks=fillseq,readrandom,multireadrandom",
    ];
    let out = succeed(
        "db_bench",
        &[&flags[..], &read, &["--batch_size=10"]].concat(),
    );
    assert!(out.contains("fillseq      : skipped (--use_existing_db is true)"));
    assert_eq!(out.matches("(2000 of 2000 found)").count(), 2, "{out}");
}

#[test]
fn writers_beside_readers_are_left_out_of_the_result() {
    let scratch = Scratch::new();
    let benchmarks = "--benchmarks=fillseq,readwhilewriting,seekrandomwhilewriting,readrandomwriterandom,deleteseq,readseq";
    let out = succeed(
        "db_bench",
        &[&scratch.db(), "--num=500", "--threads=2", benchmarks],
    );
    let results = results(&out);
    assert!(
        results[1].starts_with("readwhilewriting 1000 operations;"),
        "{results:?}"
    );
    assert!(results[2].starts_with("seekrandomwhilewriting 1000 operations;"));
    assert!(results[3].contains("( reads:450 writes:50 total:500 found:450)"));
    assert!(results[5].starts_with("readseq 1 operations;"));
}

#[test]
fn results_come_as_json_too() {
    let scratch = Scratch::new();
    let json = scratch.file("result.json");
    let flags = [
        scratch.db(),
        "--num=100".to_owned(),
        "--histogram".to_owned(),
        format!("--json={json}"),
        "--benchmarks=fillseq[X2],readrandom".to_owned(),
    ];
    let words: Vec<&str> = flags.iter().map(String::as_str).collect();
    let out = succeed("db_bench", &words);
    assert!(
        out.contains("fillseq [AVG    2 runs] : ") && out.contains("P99.99: "),
        "{out}"
    );
    let text = std::fs::read_to_string(json).expect("a report");
    for part in [
        "\"program\":\"db_bench\"",
        "\"run\":2",
        "\"found\":100",
        "\"p99.99\":",
        "\"num\":\"100\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn misuse_is_told_before_anything_is_destroyed() {
    let scratch = Scratch::new();
    succeed(
        "db_bench",
        &[&scratch.db(), "--num=10", "--benchmarks=fillseq"],
    );
    let wrong: [&[&str]; 4] = [
        &["--nosuchflag"],
        &["--num=0"],
        &["--compression_ratio=2"],
        &["--key_size=16", "--prefix_size=17"],
    ];
    for words in wrong {
        fail("db_bench", &[&[scratch.db().as_str()][..], words].concat());
    }
    let read = ["--use_existing_db", "--num=10", "--benchmarks=readrandom"];
    let out = succeed("db_bench", &[&[scratch.db().as_str()][..], &read].concat());
    assert!(out.contains("(10 of 10 found)"), "{out}");
}

#[test]
fn an_unknown_benchmark_ends_the_run_after_those_before_it() {
    let scratch = Scratch::new();
    let (success, out, err) = run(
        "db_bench",
        &[&scratch.db(), "--num=10", "--benchmarks=fillseq,nosuch"],
    );
    assert!(!success);
    assert!(out.contains("fillseq      :") && err.contains("unknown benchmark 'nosuch'"));
}

#[test]
fn a_report_is_one_page_with_the_results_and_the_course_of_each_run() {
    let scratch = Scratch::new();
    let report = format!("--report={}", scratch.file("report.html"));
    let benchmarks = "--benchmarks=fillrandom,readrandom";
    let duration = ["--duration=1", "--num=2000"];
    succeed(
        "db_bench",
        &[&[scratch.db().as_str(), &report, benchmarks][..], &duration].concat(),
    );
    let page = std::fs::read_to_string(scratch.file("report.html")).unwrap();
    assert!(
        page.contains("<td>fillrandom<td>1<td>") && page.contains("<td>readrandom<td>1<td>"),
        "{page}"
    );
    assert!(
        page.contains("<h2>readrandom</h2>\n<div class=\"wide\"><svg "),
        "{page}"
    );
    assert!(
        page.contains("--benchmarks=fillrandom,readrandom") && page.contains("Level Files"),
        "{page}"
    );
    let loads = ["<script", "src=", "http:", "https:"];
    assert!(loads.iter().all(|word| !page.contains(word)), "{page}");
}
