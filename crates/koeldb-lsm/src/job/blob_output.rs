//! The blob files of a job: which values go to them, and where each file ends.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use koeldb_base::Result;
use koeldb_base::codec::{Compression, CompressionOptions};
use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::merge_operator::FetchBlob;
use koeldb_fs::rate_limit::{IoCharge, LimitedFile};
use koeldb_fs::{FileSystem, WriteOptions};
use koeldb_table::blob::{BlobFileBuilder, BlobReference};

use crate::file_checksum::{self, SummedFile};
use crate::version::{BlobFileMeta, FileNumbers};

/// The settings of the blob files of a job.
#[derive(Clone)]
pub struct BlobSpec<'a> {
    /// The id of the column family, which the files record.
    pub column_family_id: u32,
    /// The directory of the files; `None` for that of the tables.
    pub directory: Option<&'a Path>,
    /// The allocator of the numbers of new files; `None` for that of the tables.
    pub numbers: Option<FileNumbers>,
    /// The size from which a value goes to a blob file; `None` if all stay in the tables.
    pub min_bytes: Option<u64>,
    /// The size at which a blob file ends.
    pub file_bytes: u64,
    /// The compression of values.
    pub compression: Compression,
    /// The settings of the codec.
    pub compression_options: CompressionOptions,
    /// The number of the blob file below which values are moved to new files.
    pub relocates_below: FileNumber,
    /// The other blob files out of which values are moved.
    pub victims: BTreeSet<FileNumber>,
    /// The source of the values that are moved.
    pub source: Option<&'a (dyn FetchBlob + 'a)>,
}

impl BlobSpec<'_> {
    /// Whether values of any file are moved.
    pub(crate) fn relocates_any(&self) -> bool {
        self.relocates_below > 0 || !self.victims.is_empty()
    }

    /// Whether the values of a file are moved.
    pub(crate) fn relocates(&self, file: FileNumber) -> bool {
        file < self.relocates_below || self.victims.contains(&file)
    }

    /// The settings of a job that leaves values where they are.
    #[must_use]
    pub fn unchanged() -> Self {
        BlobSpec {
            column_family_id: 0,
            directory: None,
            numbers: None,
            min_bytes: None,
            file_bytes: u64::MAX,
            compression: Compression::None,
            compression_options: CompressionOptions::default(),
            relocates_below: 0,
            victims: BTreeSet::new(),
            source: None,
        }
    }
}

/// How the files of a job are created.
pub(crate) struct FileMaker<'a> {
    pub(crate) fs: &'a dyn FileSystem,
    pub(crate) directory: &'a Path,
    pub(crate) write_options: &'a WriteOptions,
    pub(crate) charge: Option<&'a Arc<IoCharge>>,
    /// Whether to compute the checksums of whole files for the MANIFEST.
    pub(crate) file_checksums: bool,
    pub(crate) next_file_number: &'a (dyn Fn() -> FileNumber + Sync),
}

/// A blob file being written, and its checksum so far, if one is computed.
struct OpenBlobFile {
    builder: BlobFileBuilder,
    sum: Option<Arc<AtomicU32>>,
}

/// A writer of the blob files of a job; dropping it leaves incomplete files.
#[derive(Default)]
pub(crate) struct BlobOutput {
    current: Option<OpenBlobFile>,
    finished: Vec<BlobFileMeta>,
    /// The numbers of all files that were created.
    pub(crate) made: Vec<FileNumber>,
}

impl BlobOutput {
    /// Appends a value to the current blob file; returns the reference to it.
    ///
    /// # Errors
    /// Those of the file system or the codec.
    pub(crate) fn add(
        &mut self,
        spec: &BlobSpec<'_>,
        maker: &FileMaker<'_>,
        user_key: &[u8],
        value: &[u8],
    ) -> Result<BlobReference> {
        let OpenBlobFile { builder, .. } = match &mut self.current {
            Some(open) => open,
            None => {
                let number = match &spec.numbers {
                    Some(numbers) => numbers.next(),
                    None => (maker.next_file_number)(),
                };
                self.made.push(number);
                let path = file_name::blob(maker.directory, number);
                let mut file = maker.fs.create(&path, maker.write_options)?;
                if let Some(charge) = maker.charge {
                    file = Box::new(LimitedFile::new(file, Arc::clone(charge)));
                }
                let mut sum = None;
                if maker.file_checksums {
                    let (summed, its_sum) = SummedFile::new(file);
                    (file, sum) = (Box::new(summed), Some(its_sum));
                }
                let builder = BlobFileBuilder::new(
                    file,
                    number,
                    spec.column_family_id,
                    spec.compression,
                    &spec.compression_options,
                )?;
                self.current.insert(OpenBlobFile { builder, sum })
            }
        };
        let reference = builder.add(user_key, value)?;
        if builder.file_bytes() >= spec.file_bytes {
            self.finish_file()?;
        }
        Ok(reference)
    }

    /// Finishes the current blob file, if there is one.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn finish_file(&mut self) -> Result<()> {
        let Some(open) = self.current.take() else {
            return Ok(());
        };
        let file = open.builder.finish()?;
        let mut meta = BlobFileMeta {
            number: file.number,
            count: file.count,
            bytes: file.record_bytes,
            checksum_name: Vec::new(),
            checksum: Vec::new(),
            garbage_count: 0,
            garbage_bytes: 0,
            reader: Default::default(),
        };
        if let Some(sum) = &open.sum {
            file_checksum::record_blob(&mut meta, sum);
        }
        self.finished.push(meta);
        Ok(())
    }

    /// Takes the finished files.
    pub(crate) fn take_finished(&mut self) -> Vec<BlobFileMeta> {
        std::mem::take(&mut self.finished)
    }

    /// Closes the current file without finishing it.
    pub(crate) fn abandon(&mut self) {
        self.current = None;
    }
}
