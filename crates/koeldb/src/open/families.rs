//! The column families of an open: existing ones, named ones, and those to be created.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use koeldb_base::{Error, Result};
use koeldb_lsm::version::{ColumnFamilySpec, VersionSet};

use super::{DbBuilder, Opening};
use crate::api::column_family::ColumnFamilyDescriptor;
use crate::options::limits;
use crate::options::{ColumnFamilyOptions, Options};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::table_files::TableFiles;
use crate::tree::{descriptor, new_family, open_tables};

pub(crate) const DEFAULT_FAMILY: &str = "default";

/// A column family to open, with its options.
pub(super) type ColumnFamilyToOpen = (String, ColumnFamilyOptions);

/// Returns the column families to open with their options, the default column family included.
pub(super) fn family_list(builder: &DbBuilder) -> Vec<ColumnFamilyToOpen> {
    let own = |descriptor: &ColumnFamilyDescriptor| {
        let options = descriptor
            .options
            .clone()
            .unwrap_or_else(|| builder.options.cf.clone());
        (descriptor.name.clone(), options)
    };
    let mut families: Vec<ColumnFamilyToOpen> = builder.families.iter().map(own).collect();
    if !families.iter().any(|(name, _)| name == DEFAULT_FAMILY) {
        families.insert(0, (DEFAULT_FAMILY.to_owned(), builder.options.cf.clone()));
    }
    families
}

impl Opening {
    /// Completes the list of existing column families to open; returns those to be created.
    pub(super) fn resolve_families(&mut self) -> Result<Vec<ColumnFamilyToOpen>> {
        let existing = match self.is_best_effort() {
            true => VersionSet::list_families_without_current(&*self.fs, &self.path)?,
            false => VersionSet::list_families(&*self.fs, &self.path)?,
        };
        let most = limits(self.untrusted).family_count;
        if existing.len() > most {
            return Err(Error::corruption(format!(
                "{}: {} column families, at most {most} are allowed",
                self.path.display(),
                existing.len()
            )));
        }
        if let Some(others) = &self.others {
            let named = self.families.iter().map(|(name, _)| name.clone());
            let named: HashSet<String> = named.collect();
            let unnamed = existing.iter().filter(|name| !named.contains(*name));
            let unnamed = unnamed.map(|name| (name.clone(), others.clone()));
            self.families.extend(unnamed);
        }
        let known: HashSet<&String> = existing.iter().collect();
        let (present, missing): (Vec<ColumnFamilyToOpen>, Vec<ColumnFamilyToOpen>) =
            std::mem::take(&mut self.families)
                .into_iter()
                .partition(|(name, _)| known.contains(name));
        self.families = present;
        if let Some((name, _)) = missing.first()
            && (self.read_only || !self.db.create_missing_column_families)
        {
            return Err(Error::invalid_argument(format!(
                "Column family not found: {name} (existing: {}; create_missing_column_families is false)",
                existing.join(", ")
            ))
            .with_advice("name an existing one, or set create_missing_column_families to create it"));
        }
        Ok(missing)
    }

    /// Returns the specifications of the column families with which the version set is recovered.
    pub(super) fn descriptors(&self) -> Vec<ColumnFamilySpec> {
        self.families
            .iter()
            .map(|(name, options)| descriptor(name, options, &self.db))
            .collect()
    }

    /// Creates the in-memory state of the recovered column families that are to be opened, by id.
    pub(super) fn open_families(
        &self,
        versions: &VersionSet,
        table_files: &TableFiles,
    ) -> BTreeMap<u32, Arc<ColumnFamilyData>> {
        let named = self
            .families
            .iter()
            .map(|(name, options)| (&**name, options));
        let named: HashMap<&str, &ColumnFamilyOptions> = named.collect();
        let mut families = BTreeMap::new();
        for family in versions.families() {
            let Some(&options) = named.get(family.name()) else {
                continue;
            };
            let data = new_family(family, options.clone(), table_files, family.log_number());
            families.insert(family.id(), Arc::new(data));
        }
        families
    }

    /// Opens every table of `families`; with `paranoid_checks`, fails if one is damaged or missing.
    ///
    /// A missing or damaged table is thus an error before anything is written, and no read has to
    /// open a table later.
    pub(super) fn open_tables_of(
        &self,
        families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
    ) -> Result<()> {
        let mut tables = Vec::new();
        for family in families.values() {
            let version = family.version();
            let files = version
                .files()
                .map(|(level, file)| (Arc::clone(&family.tables), level, Arc::clone(file)));
            tables.extend(files);
        }
        let threads = usize::try_from(self.db.max_file_opening_threads).unwrap_or(1);
        if self.db.paranoid_checks {
            return open_tables(&tables, threads);
        }
        // Reads of a damaged table report it.
        for table in &tables {
            let _ = open_tables(std::slice::from_ref(table), 1);
        }
        Ok(())
    }
}

/// Returns the names of the column families of the database at `path`.
pub(crate) fn list_families(options: &Options, path: &Path) -> Result<Vec<String>> {
    VersionSet::list_families(&*options.plugins.env.fs, path)
}
