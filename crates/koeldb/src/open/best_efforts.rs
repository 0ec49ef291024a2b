//! An open with `best_efforts_recovery`: the newest state whose tables and blob files exist, without logs.
//!
//! The state itself comes from [`koeldb_lsm::version::VersionSet::recover_point_in_time`]. As in
//! RocksDB no log is replayed: the logs may continue a state that is lost. Those with data are kept
//! in `archive`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use koeldb_base::{Result, file_name};
use koeldb_fs::{OpenOptions, Purpose};
use koeldb_lsm::version::{
    BlobFileMeta, FileChecks, ManifestReport, VersionSet, VersionSetOptions, has_manifest,
};
use koeldb_lsm::{FileMeta, TableOpener};
use koeldb_table::reader::TableReadContext;

use super::replay::Recovered;
use super::{Opening, foreign};
use crate::options::limits;
use crate::state::column_family_data::ColumnFamilyData;

impl Opening {
    /// Whether the directory has a database: a CURRENT, or any MANIFEST if CURRENT is not needed.
    pub(super) fn has_database(&self) -> Result<bool> {
        let has_current = self.fs.exists(&file_name::current(&self.path));
        if has_current.map_err(|error| foreign::refusal(&*self.fs, &self.path).unwrap_or(error))? {
            return Ok(true);
        }
        Ok(self.is_best_effort()
            && self.fs.exists(&self.path)?
            && has_manifest(&*self.fs, &self.path)?)
    }

    /// Whether the newest state whose tables and blob files exist is recovered; a secondary follows its primary.
    pub(super) fn is_best_effort(&self) -> bool {
        self.db.best_efforts_recovery && self.secondary.is_none()
    }

    /// Recovers the newest state whose tables and blob files exist.
    pub(super) fn recover_point_in_time(
        &self,
        options: VersionSetOptions,
    ) -> Result<(VersionSet, ManifestReport)> {
        let openers: HashMap<&str, TableOpener> = self
            .families
            .iter()
            .map(|(name, options)| {
                let context = TableReadContext {
                    order: options.comparator.clone(),
                    prefix_extractor: options.prefix_extractor.clone(),
                    block_based: options.block_based_read_options(),
                    plain: options.plain_read_options(),
                    cuckoo: options.cuckoo_residency(),
                    limits: limits(self.untrusted),
                    ..TableReadContext::default()
                };
                let file = OpenOptions {
                    purpose: Purpose::Open,
                    ..OpenOptions::default()
                };
                let fs = Arc::clone(&self.fs);
                let paths = options.data_paths(&*self.fs, &self.path);
                let mut opener = TableOpener::new(fs, paths, file, context);
                opener.set_verifies_unique_ids(self.db.verify_sst_unique_id_in_manifest);
                (name.as_str(), opener)
            })
            .collect();
        let table = |family: &str, level: usize, file: &FileMeta| match openers.get(family) {
            Some(opener) => opener.exists(file, level),
            None => Ok(true),
        };
        let blob_file = |family: &str, file: &BlobFileMeta| match openers.get(family) {
            Some(opener) => opener.blob_file_exists(file),
            None => Ok(true),
        };
        let checks = FileChecks {
            table: &table,
            blob_file: &blob_file,
        };
        let fs = Arc::clone(&self.fs);
        VersionSet::recover_point_in_time(fs, &self.path, &self.descriptors(), options, checks)
    }

    /// Opens the tables of the recovered state, and leaves out the logs.
    pub(super) fn recover_without_logs(
        &self,
        versions: &VersionSet,
        families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
    ) -> Result<Recovered> {
        self.open_tables_of(families)?;
        let mut recovered = Recovered::before_logs(versions);
        recovered.last_seqno = versions.last_seqno();
        recovered.report.last_seqno = versions.last_seqno();
        let oldest = versions.min_log_number_to_keep();
        for log in koeldb_log::wal::list(&*self.fs, &self.wal_dir)? {
            let path = file_name::wal(&self.wal_dir, log);
            if log >= oldest && self.fs.metadata(&path)?.len > 0 {
                recovered.archive.push(log);
            }
        }
        Ok(recovered)
    }
}
