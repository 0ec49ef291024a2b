//! A family with `disallow_memtable_writes` is filled by ingestion only.

use koeldb::{
    ColumnFamilyOptions, Db, ErrorKind, Options, SstFileWriter, WriteBatch, WriteOutcome,
};

use crate::scratch::ScratchDir;

#[test]
fn a_family_that_disallows_memtable_writes_refuses_them_and_can_be_ingested_into() {
    let directory = ScratchDir::new();
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open(&options, directory.join("db")).unwrap();
    let mut sealed = ColumnFamilyOptions::new();
    sealed.set_disallow_memtable_writes(true);
    let family = db.create_cf("ingested", &sealed).unwrap();
    let mut batch = WriteBatch::new();
    batch.put("k", "v").put_cf(&family, "k", "v");
    for refused in [family.put("k", "v"), family.delete("k"), db.write(&batch)] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
    }
    assert!(db.get("k").unwrap().is_none());
    let file = directory.join("file.sst");
    let mut writer = SstFileWriter::create(&ColumnFamilyOptions::new(), &file).unwrap();
    writer.put("k", "ingested").unwrap();
    writer.finish().unwrap();
    family.ingest_external_file(&[&file]).unwrap();
    assert_eq!(family.get("k").unwrap().unwrap(), "ingested");
    db.put("k", "v").unwrap();
}
