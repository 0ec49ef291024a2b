use super::*;

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|&word| word.to_owned()).collect()
}

fn no_files(_: &str) -> std::io::Result<String> {
    Err(std::io::ErrorKind::NotFound.into())
}

fn read(line: &[&str]) -> CommandLine {
    parse(&words(line), &no_files).expect("a valid command line")
}

fn errors(line: &[&str]) -> Vec<String> {
    parse(&words(line), &no_files).expect_err("an invalid command line")
}

#[test]
fn all_forms_of_a_flag_are_read_and_the_last_one_wins() {
    let line = read(&[
        "-num=5",
        "--threads",
        "3",
        "--sync",
        "--nohistogram",
        "--num=0x10",
        "-db",
        "/x",
    ]);
    assert_eq!(line.flags.num, 16);
    assert_eq!(line.flags.threads, 3);
    assert!(line.flags.sync && !line.flags.histogram);
    assert_eq!(line.flags.db, "/x");
    assert!(line.given.contains("sync") && !line.given.contains("seed"));
}

#[test]
fn words_without_a_hyphen_and_everything_after_two_are_ignored() {
    let line = read(&["rest", "-", "--num=1", "--", "--num=2"]);
    assert_eq!(line.flags.num, 1);
}

#[test]
fn a_pasted_em_dash_counts_as_two_hyphens() {
    let line = read(&["\u{2014}db=/x", "\u{2013}\u{2013}num=4"]);
    assert_eq!((line.flags.db.as_str(), line.flags.num), ("/x", 4));
    assert_eq!(line.notices.len(), 2);
}

#[test]
fn removed_flags_give_a_notice_and_swallow_their_value() {
    let line = read(&[
        "--disable_data_sync",
        "--max_grandparent_overlap_factor",
        "10",
        "--logtostderr=1",
        "--num=2",
    ]);
    assert_eq!(line.flags.num, 2);
    assert_eq!(line.notices.len(), 3);
}

#[test]
fn messages_are_those_of_gflags() {
    assert_eq!(
        errors(&["--num=abc"]),
        ["ERROR: illegal value 'abc' specified for int64 flag 'num'"]
    );
    assert_eq!(
        errors(&["--threads=99999999999"]),
        ["ERROR: illegal value '99999999999' specified for int32 flag 'threads'"]
    );
    assert_eq!(
        errors(&["--histogram=maybe"]),
        ["ERROR: illegal value 'maybe' specified for bool flag 'histogram'"]
    );
    assert_eq!(
        errors(&["--nonum=3"]),
        ["ERROR: boolean value (nonum) specified for int64 command line flag"]
    );
    assert_eq!(
        errors(&["--xyzzy", "--frobnicate=1"]),
        [
            "ERROR: unknown command line flag 'xyzzy'",
            "ERROR: unknown command line flag 'frobnicate'"
        ]
    );
    assert!(errors(&["--num"])[0].starts_with("ERROR: flag '--num' is missing its argument"));
    assert!(errors(&["--readwritepercent=0"])[0].contains("failed validation of new value '0'"));
}

#[test]
fn unknown_flags_come_with_a_hint() {
    assert!(errors(&["--histgram"])[0].ends_with("(did you mean 'histogram'?)"));
    assert!(errors(&["--use_blob_db"])[0].contains("RocksDB has it"));
}

#[test]
fn undefok_tolerates_the_names_it_lists_wherever_it_stands() {
    read(&["--from_the_future=1", "--undefok=from_the_future,x"]);
}

#[test]
fn a_flag_file_is_read_where_it_stands() {
    let file = |path: &str| {
        assert_eq!(path, "flags");
        Ok("# a comment\n--num=7\n\n  -sync\n".to_owned())
    };
    let line = parse(&words(&["--num=1", "--flagfile=flags"]), &file).expect("valid");
    assert_eq!(line.flags.num, 7);
    assert!(line.flags.sync);
}

#[test]
fn flags_of_what_is_not_built_take_their_default_only() {
    read(&["--cache_uri="]);
    assert!(errors(&["--cache_uri=lru"])[0].contains("cache_uri"));
}

#[test]
fn help_wins_over_errors() {
    let line = read(&["--nosuchflag", "--help"]);
    assert_eq!(line.command, Command::Help { all: false });
}

#[test]
fn the_table_is_sorted_and_has_the_defaults_of_rocksdb() {
    assert!(TABLE.is_sorted_by_key(|info| info.name.to_ascii_lowercase()));
    let flags = Flags::default();
    assert_eq!(flags.show("compression_type"), "snappy");
    assert_eq!(flags.show("cache_size"), "33554432");
    assert_eq!(flags.show("ttl_seconds"), "18446744073709551614");
    assert_eq!(flags.show("max_bytes_for_level_multiplier"), "10");
}
