//! Ingestions: new versions of consecutive keys, from one table for each column family.

use std::path::PathBuf;

use koeldb::{
    ColumnFamilyOptions, IngestExternalFileArg, IngestExternalFileOptions, SstFileWriter,
    WriteOutcome,
};
use koeldb_testkit::Random;

use crate::copies::remove;
use crate::expected::Version;
use crate::worker::{Life, is_dated, key, note};

impl Life {
    /// Ingests tables with new versions of some of the thread's keys into all column families.
    ///
    /// Returns `false` if the outcome is known only after a restart.
    pub(crate) fn ingest(&self, thread: u64, random: &mut Random) -> Result<bool, String> {
        // A family whose keys have timestamps takes no table that overlaps others.
        if self.families.iter().any(is_dated) {
            return Ok(true);
        }
        let own = self.own(thread);
        // The last tenth alternates between puts and single deletions.
        let end = own.end - self.flags.keys / 10;
        let first = own.start + random.below(end - own.start);
        let last = (first + random.below(20)).min(end - 1);
        let deletes = random.chance(1, 4);
        let changes: Vec<(u64, Version)> = (first..=last)
            .map(|number| (number, self.expected.begun(number).next(deletes)))
            .collect();
        let directory = self.copies.path(&format!("ingested-{thread}"));
        remove(&directory)?;
        let files = self
            .write_tables(&directory, &changes, random)
            .map_err(|error| format!("tables to ingest: {error}"))?;
        let args: Vec<IngestExternalFileArg> = (self.families.iter())
            .zip(files)
            .map(|(family, file)| IngestExternalFileArg::new(family, [file]))
            .collect();
        let mut how = IngestExternalFileOptions::new();
        match random.below(3) {
            0 => how.set_move_files(true),
            1 => how.set_link_files(true),
            _ => how.set_verify_checksums_before_ingest(true),
        };
        for (number, version) in &changes {
            note(self.expected.begin(*number, *version, true))?;
        }
        let take_back = || {
            let mut numbers = changes.iter().map(|(number, _)| *number);
            numbers.try_for_each(|number| note(self.expected.take_back(number)))
        };
        let prepared = match self.db.prepare_ingest(&args, &how) {
            Ok(prepared) => prepared,
            Err(error) => {
                take_back()?;
                return self.tolerate(Err(error));
            }
        };
        match prepared.commit() {
            Ok(()) => {
                for (number, _) in &changes {
                    note(self.expected.acknowledge(*number, true))?;
                }
                Ok(true)
            }
            Err(error) if self.faults.is_some() => {
                if error.write_outcome() != Some(WriteOutcome::NotApplied) {
                    return Ok(false);
                }
                take_back()?;
                Ok(self.resume())
            }
            Err(error) => Err(format!("ingestion: {error}")),
        }
    }

    /// Writes a table file with the new versions for each column family.
    ///
    /// Other formats than the block-based one cannot take a sequence number.
    #[expect(
        clippy::disallowed_methods,
        reason = "a directory beside the database, for the files of this program"
    )]
    fn write_tables(
        &self,
        directory: &std::path::Path,
        changes: &[(u64, Version)],
        random: &mut Random,
    ) -> koeldb::Result<Vec<PathBuf>> {
        let io = |error| koeldb::Error::io(error, "mkdir", directory);
        std::fs::create_dir_all(directory).map_err(io)?;
        let deletes_range = random.chance(1, 2);
        let mut files = Vec::new();
        for family in &self.families {
            let path = directory.join(format!("{}.sst", family.id()));
            let mut writer = SstFileWriter::create(&ColumnFamilyOptions::new(), &path)?;
            if let (true, Some((first, _)), Some((last, _))) =
                (deletes_range, changes.first(), changes.last())
            {
                writer.delete_range(key(*first), key(last + 1))?;
            }
            for (number, version) in changes {
                match version.value(*number) {
                    Some(value) => writer.put(key(*number), value)?,
                    None => writer.delete(key(*number))?,
                }
            }
            files.push(writer.finish()?.path);
        }
        Ok(files)
    }
}
