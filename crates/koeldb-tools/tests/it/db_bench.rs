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
        "--benchmarks=fillseq,readrandom,multireadrandom,readrandomentity,multireadentity",
    ];
    let out = succeed(
        "db_bench",
        &[&flags[..], &read, &["--batch_size=10"]].concat(),
    );
    assert!(out.contains("fillseq      : skipped (--use_existing_db is true)"));
    assert_eq!(out.matches("(2000 of 2000 found)").count(), 4, "{out}");
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
        [
            "fillseq [AVG    2 runs] : ",
            "P99.99: ",
            " context switches/op\n"
        ]
        .iter()
        .all(|part| out.contains(part)),
        "{out}"
    );
    let text = std::fs::read_to_string(json).expect("a report");
    for part in [
        "\"program\":\"db_bench\"",
        "\"run\":2",
        "\"found\":100",
        "\"processor_micros_per_op\":",
        "\"context_switches_per_op\":",
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
    assert!(page.contains("<h2>readrandom</h2>\n<svg "), "{page}");
    assert!(
        page.contains("--benchmarks=fillrandom,readrandom") && page.contains("Level Files"),
        "{page}"
    );
    let loads = ["<script", "src=", "http:", "https:"];
    assert!(loads.iter().all(|word| !page.contains(word)), "{page}");
}

#[test]
fn a_mixed_workload_reads_writes_and_scans() {
    let scratch = Scratch::new();
    let mix = [
        "--benchmarks=fillseq,mixgraph,multiscan,multiscanrandom,randomwithverify",
        "--num=3000",
        "--seed=7",
        "--mix_get_ratio=0.85",
        "--mix_put_ratio=0.14",
        "--mix_seek_ratio=0.01",
        "--keyrange_dist_a=14.18",
        "--keyrange_dist_b=-2.917",
        "--keyrange_dist_c=0.0164",
        "--keyrange_dist_d=-0.08082",
        "--keyrange_num=30",
        "--key_dist_a=0.002312",
        "--key_dist_b=0.3467",
        "--sine_mix_rate",
        "--sine_mix_rate_interval_milliseconds=1",
        "--sine_d=900000",
    ];
    let (success, out, err) = run("db_bench", &[&[scratch.db().as_str()][..], &mix].concat());
    assert!(success, "{err}");
    assert!(out.contains("( Gets:2") && out.contains(" in 2"), "{out}");
    assert!(out.contains("(multiscans:6)"), "{out}");
    assert!(out.contains("max_range_keys:9039)"), "{out}");
    assert!(out.contains("( get:2700 put:240 del:60 total:3000 found:"));
    assert!(!err.contains("inconsistent"), "{err}");
}

#[test]
fn time_series_expire_and_replaced_keys_are_deleted() {
    let scratch = Scratch::new();
    for style in ["none", "delete", "compaction_filter"] {
        let style = format!("--expire_style={style}");
        let db = scratch.db();
        let words = [
            db.as_str(),
            "--benchmarks=timeseries,randomreplacekeys,compact",
            "--num=2000",
            "--threads=2",
            "--key_id_range=10",
            "--time_range=100",
            "--numdistinct=30",
            style.as_str(),
        ];
        let out = succeed("db_bench", &words);
        assert!(out.contains("timeseries write :"), "{out}");
        assert!(out.contains("use single deletes: 1, standard deviation: 2000.000000"));
    }
}

#[test]
fn files_are_ingested_backed_up_restored_and_compared() {
    let scratch = Scratch::new();
    let directory = |flag: &str, name: &str| format!("--{flag}={}", scratch.file(name));
    let directories = [
        directory("backup_dir", "backup"),
        directory("restore_dir", "restored"),
        directory("truth_db", "restored"),
        scratch.db(),
    ];
    let with = |more: [&str; 4]| {
        let words = directories.iter().map(String::as_str).chain(more);
        run("db_bench", &words.collect::<Vec<_>>())
    };
    let (success, out, err) = with([
        "--num=1000",
        "--file_checksum",
        "--ingest_external_file_batch_size=2",
        "--benchmarks=ingestexternalfile,verifyfilechecksums,backup,restore,verify",
    ]);
    assert!(success, "{err}");
    assert!(out.contains("(1 batches x 2 files, 1000 keys/file, 1 threads)"));
    assert!(out.contains("(2 files)"), "{out}");
    assert!(err.contains("...Verified"), "{err}");
    let other = "--benchmarks=fillrandom,verify";
    let (success, _, err) = with(["--num=1000", "--seed=1", "--threads=1", other]);
    assert!(
        !success && err.contains("differs from truth_db at key"),
        "{err}"
    );
}

#[test]
fn operands_are_read_unmerged() {
    let scratch = Scratch::new();
    let out = succeed(
        "db_bench",
        &[
            scratch.db().as_str(),
            "--merge_operator=stringappend",
            "--num=100",
            "--benchmarks=mergerandom,readrandomoperands,getmergeoperands",
        ],
    );
    assert!(out.contains(" of 100 found)"), "{out}");
    assert_eq!(out.matches("Found key? 1").count(), 2, "{out}");
    assert!(out.contains("1,2,3,4,5, of 999 lists"), "{out}");
}

#[test]
fn codecs_and_checksums_are_measured_alone() {
    let scratch = Scratch::new();
    let db = scratch.db();
    let words = [
        db.as_str(),
        "--duration=1",
        "--ops_between_duration_checks=10",
        "--benchmarks=crc32c,xxhash,xxhash64,xxh3,compress,compressreject,uncompress,stats_history",
    ];
    let out = succeed("db_bench", &words);
    assert_eq!(out.matches("(4096 per op)").count(), 4, "{out}");
    assert!(out.contains("(output: "), "{out}");
    assert!(
        out.contains("(rejected; output buffer 40.0% of input)"),
        "{out}"
    );
}

#[test]
fn a_benchmark_that_only_rocksdb_has_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let err = fail("db_bench", &[&scratch.db(), "--benchmarks=replay"]);
    assert!(
        err.contains("unknown benchmark 'replay' (RocksDB has it;"),
        "{err}"
    );
}

#[test]
fn counters_of_threads_and_figures_of_the_allocator_are_printed_on_request() {
    let scratch = Scratch::new();
    let flags = [&scratch.db(), "--num=100", "--benchmarks=fillseq,readseq"];
    let plain = succeed("db_bench", &flags);
    assert!(!plain.contains("PERF_CONTEXT") && !plain.contains("ALLOCATOR"));
    let asked = ["--perf_level=2", "--print_malloc_stats"];
    let out = succeed("db_bench", &[&flags[..], &asked].concat());
    assert!(out.contains("PERF_CONTEXT:\n"), "{out}");
    let has_figures = cfg!(all(target_os = "linux", target_env = "gnu"));
    assert_eq!(out.contains("allocated bytes: "), has_figures, "{out}");
}

#[test]
fn a_file_system_that_is_not_built_in_is_refused_by_its_name_before_anything_is_written() {
    let scratch = Scratch::new();
    for flag in ["--env_uri=hdfs://host/", "--fs_uri=zenfs://dev:nvme0n1"] {
        let err = fail(
            "db_bench",
            &[&scratch.db(), "--benchmarks=fillseq", "--num=10", flag],
        );
        assert!(err.contains(flag), "{err}");
        let out = succeed(
            "db_bench",
            &[
                &scratch.db(),
                "--benchmarks=fillseq",
                "--num=10",
                "--fs_uri=posix://",
            ],
        );
        assert!(out.contains("fillseq"), "{out}");
    }
}

#[test]
fn only_what_the_user_set_is_announced_as_without_effect() {
    let scratch = Scratch::new();
    let db = scratch.db();
    let notes = |words: &[&str]| {
        let words = [&[&*db, "--num=10", "--benchmarks=fillseq"], words].concat();
        let (success, _, err) = run("db_bench", &words);
        assert!(success, "{err}");
        err
    };
    let err = notes(&[]);
    assert!(!err.contains("Note:"), "{err}");
    let line = "Note: --table_cache_numshardbits does nothing";
    for value in ["4", "5", "6"] {
        let err = notes(&[&format!("--table_cache_numshardbits={value}")]);
        assert_eq!(err.matches("Note:").count(), 1, "{err}");
        assert!(err.contains(line), "{err}");
    }
}
