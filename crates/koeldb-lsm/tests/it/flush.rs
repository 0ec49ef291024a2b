//! The flush job compares what it reads with what the memtables have.

use koeldb_base::{ErrorKind, KeyOrder};
use koeldb_fs::FileSystem;
use koeldb_lsm::job::{FlushJob, LiveSnapshots};

use crate::entries::{self, Entries};
use crate::tables;

#[test]
fn a_flush_that_reads_another_number_of_entries_fails_and_leaves_no_file() {
    let order = KeyOrder::Bytewise;
    let (lines, _) = entries::entries("a#3,SET = one\na#2,SET = old\nb#1,DEL", &order);
    let fs = tables::file_system();
    let flush = |entry_count| {
        let next_file_number = || 7;
        let job = FlushJob {
            order: order.clone(),
            memtables: vec![Entries::new(&order, lines.clone())],
            tombstones: None,
            snapshots: LiveSnapshots::default(),
            merger: koeldb_base::merge_operator::Merger::default(),
            entry_count,
            output: tables::output_spec(&fs, &next_file_number),
        };
        let flushed = job.run();
        let files = fs.list(tables::DIRECTORY.as_ref()).unwrap();
        for file in &files {
            fs.remove_file(&std::path::Path::new(tables::DIRECTORY).join(&file.name))
                .unwrap();
        }
        flushed.map(|_| files.len())
    };
    assert_eq!(flush(None).unwrap(), 1);
    assert_eq!(flush(Some(3)).unwrap(), 1);
    for count in [2, 4] {
        assert_eq!(
            flush(Some(count)).unwrap_err().kind(),
            ErrorKind::Corruption
        );
        assert!(fs.list(tables::DIRECTORY.as_ref()).unwrap().is_empty());
    }
}
