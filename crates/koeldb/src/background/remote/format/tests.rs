use super::*;

fn input() -> JobInput {
    JobInput {
        family: "birds".to_owned(),
        snapshots: vec![3, 900],
        files: vec!["000007.sst".to_owned(), "000012.sst".to_owned()],
        output_level: 6,
        db_id: "a-b".to_owned(),
        begin: Some(b"\0;=".to_vec()),
        end: None,
        options_file: 31,
    }
}

fn table(name: &str) -> OutputTable {
    OutputTable {
        name: name.to_owned(),
        bytes: 4096,
        smallest_seqno: 1,
        largest_seqno: 9,
        smallest: b"a{}\x01\x09\0\0\0\0\0\0".to_vec(),
        largest: b"z;:=\x01\x01\0\0\0\0\0\0".to_vec(),
        epoch: 4,
        marked_for_compaction: true,
        unique_id: [u64::MAX, 7],
        ..OutputTable::default()
    }
}

fn result(tables: usize) -> JobResult {
    JobResult {
        error: None,
        files: (0..tables)
            .map(|at| table(&format!("{at:06}.sst")))
            .collect(),
        output_level: 6,
        directory: "/tmp/a b".to_owned(),
        figures: JobFigures {
            input_entries: 11,
            output_entries: 10,
            input_bytes: 100,
            ..JobFigures::default()
        },
    }
}

/// A primary of RocksDB adds the figures of its input to those of the level.
#[test]
fn figures_of_the_level_are_those_of_its_output() {
    let message = result(1).encode();
    let text = String::from_utf8_lossy(&message);
    let (job, level) = text.split_once("internal_stats={").unwrap();
    assert!(job.contains("num_input_records=11;"), "{job}");
    assert!(
        !level.contains("input") && !level.contains("bytes_read"),
        "{level}"
    );
    assert!(level.contains("num_output_records=10;"), "{level}");
}

/// As RocksDB 11.9 writes it: `CompactionServiceInput::Write`, in the order of our fields.
#[test]
fn an_input_has_the_bytes_of_rocksdb() {
    let expected = b"\x01\0\0\0cf_name=6269726473;snapshots=3:900;\
        input_files=3030303030372E737374:3030303031322E737374;output_level=6;db_id=612D62;\
        has_begin=true;begin=003B3D;has_end=false;end=;options_file_number=31;";
    assert_eq!(
        input().encode(),
        expected,
        "{}",
        String::from_utf8_lossy(&input().encode())
    );
    assert_eq!(JobInput::decode(expected).unwrap(), input());
}

#[test]
fn fields_come_in_any_order_and_may_be_missing_or_unknown() {
    let read = JobInput::decode(b"\x01\0\0\0db_id=612d62;later={a=1;b={c:d};};cf_name=6162;");
    let expected = JobInput {
        family: "ab".to_owned(),
        db_id: "a-b".to_owned(),
        ..JobInput::default()
    };
    assert_eq!(read.unwrap(), expected);
}

#[test]
fn results_of_any_number_of_tables_are_read_back() {
    for count in 0..4 {
        let written = result(count);
        let read = JobResult::decode(&written.encode()).unwrap();
        assert_eq!(format!("{:?}", read), format!("{:?}", written), "{count}");
    }
    let text = String::from_utf8(result(1).encode().split_off(4)).unwrap();
    assert!(
        text.contains("output_files={{{file_name=3030303030302E737374;"),
        "{text}"
    );
    let text = String::from_utf8(result(2).encode().split_off(4)).unwrap();
    assert!(
        text.contains("output_files={{{file_name=") && text.contains("}}:{{"),
        "{text}"
    );
}

#[test]
fn errors_keep_their_kind_and_text() {
    for (_, kind) in CODES {
        let failed = crate::compaction_failure_result(&Error::with_kind(kind, "a; b={"));
        let error = JobResult::decode(&failed).unwrap().error.unwrap();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains("a; b={"), "{error}");
    }
}

#[test]
fn other_versions_and_cut_messages_are_refused() {
    for message in [
        &b""[..],
        b"\x01\0\0\0",
        b"\x02\0\0\0cf_name=;",
        b"\x01\0\0\0a=\xff;",
    ] {
        assert!(JobInput::decode(message).is_err(), "{message:?}");
        assert!(JobResult::decode(message).is_err(), "{message:?}");
    }
}

/// Each byte of a value is replaced by one that no value of its kind has.
#[test]
fn a_value_that_is_no_value_is_refused() {
    let written = result(2).encode();
    let text = String::from_utf8(written[4..].to_vec()).unwrap();
    let mut tried = 0;
    for (at, _) in text.match_indices('=') {
        let is_value = text[at + 1..].starts_with(|next: char| next.is_ascii_alphanumeric());
        // Temperatures are not read.
        if !is_value || text[..at].ends_with("file_temperature") {
            continue;
        }
        let name = text[..at].rsplit([';', '{']).next().unwrap();
        let is_read = ![
            "has_accurate_num_input_records",
            "is_remote_compaction",
            "has_proximal_level_output",
            "micros",
            "cpu_micros",
            "bytes_read_non_output_levels",
            "bytes_written",
            "num_input_files_in_non_output_levels",
            "num_input_files_in_output_level",
            "num_output_files",
            "num_input_records",
            "num_dropped_records",
            "num_output_records",
            "count",
        ]
        .contains(&name);
        let mut damaged = written.clone();
        damaged[4 + at + 1] = b'x';
        let read = JobResult::decode(&damaged);
        assert!(read.is_err() || !is_read, "{name} at {at}");
        tried += u32::from(is_read);
    }
    assert!(tried > 80, "{tried}");
}
