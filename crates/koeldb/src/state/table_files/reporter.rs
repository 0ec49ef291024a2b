//! Reports of the tables that one job writes, to LOG and to listeners.

use std::path::PathBuf;
use std::sync::Mutex;

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, Result};
use koeldb_lsm::FileMeta;
use koeldb_table::TableProperties;
use koeldb_table::builder::TableReason;

use super::TableFiles;
use crate::report::SstFileProperties;
use crate::report::listener::{Event, TableCreationReason, TableFileCreationInfo};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::info_log::JobId;

/// The reporter of the table file creation events of one job.
pub(crate) struct TableReporter<'a> {
    tables: &'a TableFiles,
    job: JobId,
    column_family: &'a str,
    /// The directory of the tables.
    directory: PathBuf,
    reason: TableCreationReason,
    begun: Mutex<Vec<FileNumber>>,
}

impl<'a> TableReporter<'a> {
    pub(crate) fn new(
        tables: &'a TableFiles,
        job: JobId,
        family: &'a ColumnFamilyData,
        (path_id, reason): (u8, TableReason),
    ) -> Self {
        TableReporter {
            tables,
            job,
            column_family: &family.name,
            directory: family.tables.paths().directory(path_id).to_owned(),
            reason: match reason {
                TableReason::Flush => TableCreationReason::Flush,
                TableReason::Compaction => TableCreationReason::Compaction,
                TableReason::Recovery => TableCreationReason::Recovery,
                TableReason::Other => TableCreationReason::Misc,
            },
            begun: Mutex::default(),
        }
    }

    /// Allocates the file number of a new table and reports that its creation begins.
    pub(crate) fn begin(&self) -> FileNumber {
        let number = self.tables.numbers.next();
        if !self.tables.listeners.is_empty() {
            lock(&self.begun).push(number);
            let info = self.info(number);
            let event = Event::TableFileCreationStarted(&info);
            self.tables.listeners.notify(&event);
        }
        number
    }

    /// Reports a table that is written and durable.
    pub(crate) fn created(&self, file: &FileMeta, properties: &TableProperties) {
        let log = &self.tables.info_log;
        log.table_created(self.job, self.column_family, file, properties);
        if self.tables.listeners.is_empty() {
            return;
        }
        lock(&self.begun).retain(|&number| number != file.number);
        let info = TableFileCreationInfo {
            bytes: file.bytes,
            properties: SstFileProperties::of(properties).ok(),
            ..self.info(file.number)
        };
        let event = Event::TableFileCreated(&info);
        self.tables.listeners.notify(&event);
    }

    /// Logs a warning that the merges of `count` keys failed and that their operands were kept.
    pub(crate) fn kept_unmerged(&self, count: u64) {
        if count > 0 {
            self.tables.info_log.warn(format_args!(
                "[{}] [JOB {}] the merge operator failed for {count} keys: their operands are kept, \
                 and reads of them fail",
                self.column_family, self.job
            ));
        }
    }

    /// Passes `outcome` on; if it is an error, reports the tables not yet created as failed.
    pub(crate) fn check<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            for number in std::mem::take(&mut *lock(&self.begun)) {
                let info = TableFileCreationInfo {
                    error: Some(error.clone()),
                    ..self.info(number)
                };
                let event = Event::TableFileCreated(&info);
                self.tables.listeners.notify(&event);
            }
        }
        outcome
    }

    /// Returns the description of a table that is being created.
    fn info(&self, number: FileNumber) -> TableFileCreationInfo {
        TableFileCreationInfo {
            column_family: self.column_family.to_owned(),
            job_id: self.job,
            file: number,
            path: file_name::table(&self.directory, number),
            reason: self.reason,
            bytes: 0,
            properties: None,
            error: None::<Error>,
        }
    }
}
