//! The metadata of a column family: its levels and their tables.

use std::cmp::Reverse;
use std::sync::Arc;

use koeldb::{ColumnFamily, Db, LiveFile};

use crate::copies::metadata_filter::MetadataFilter;
use crate::text::Text;

/// The metadata of a column family (`rocksdb_column_family_metadata_t`).
pub(crate) struct FamilyMetadata {
    name: String,
    levels: Vec<LevelMetadata>,
}

/// The metadata of a level (`rocksdb_level_metadata_t`), which may outlive that of the family.
#[derive(Clone)]
pub(crate) struct LevelMetadata {
    level: usize,
    files: Arc<[LiveFile]>,
}

/// The metadata of a table (`rocksdb_sst_file_metadata_t`), which may outlive that of the level.
pub(crate) struct FileMetadata {
    files: Arc<[LiveFile]>,
    index: usize,
}

/// Returns the metadata of the default column family.
pub(crate) fn of_default(db: &Db) -> FamilyMetadata {
    of_family(db, db.default_cf())
}

/// Returns the metadata of a column family.
pub(crate) fn of_family(_: &Db, family: &ColumnFamily) -> FamilyMetadata {
    let count = family.options().get_num_levels() as usize;
    let levels = levels(family, count);
    FamilyMetadata {
        name: family.name().to_owned(),
        levels: levels
            .map(|(level, files)| LevelMetadata::new(level, files))
            .collect(),
    }
}

/// Returns the metadata of the default column family that a filter selects; all without a filter.
pub(crate) fn of_default_with(db: &Db, filter: Option<&MetadataFilter>) -> FamilyMetadata {
    of_family_with(db, db.default_cf(), filter)
}

/// Returns the metadata of a column family that a filter selects, without levels that have no such
/// table; all without a filter.
pub(crate) fn of_family_with(
    _: &Db,
    family: &ColumnFamily,
    filter: Option<&MetadataFilter>,
) -> FamilyMetadata {
    let default = MetadataFilter::default();
    let filter = filter.unwrap_or(&default);
    let options = family.options();
    let select = |(level, files)| {
        let files = filter.select(level, files, options.get_comparator());
        (!files.is_empty()).then(|| LevelMetadata::new(level, files))
    };
    FamilyMetadata {
        name: family.name().to_owned(),
        levels: levels(family, 0).filter_map(select).collect(),
    }
}

/// Returns the tables of each level, at least `count` levels.
fn levels(family: &ColumnFamily, count: usize) -> impl Iterator<Item = (usize, Vec<LiveFile>)> {
    let mut levels = Vec::new();
    levels.resize_with(count, Vec::new);
    for file in family.live_files() {
        if levels.len() <= file.level {
            levels.resize_with(file.level + 1, Vec::new);
        }
        levels[file.level].push(file);
    }
    if let Some(newest_first) = levels.first_mut() {
        newest_first.sort_by_key(|file: &LiveFile| Reverse(file.epoch));
    }
    levels.into_iter().enumerate()
}

impl FamilyMetadata {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn size(&self) -> u64 {
        self.levels.iter().map(LevelMetadata::size).sum()
    }

    pub(crate) fn file_count(&self) -> usize {
        self.levels.iter().map(LevelMetadata::file_count).sum()
    }

    pub(crate) fn level_count(&self) -> usize {
        self.levels.len()
    }

    pub(crate) fn level(&self, index: usize) -> Option<LevelMetadata> {
        self.levels.get(index).cloned()
    }
}

impl LevelMetadata {
    fn new(level: usize, files: Vec<LiveFile>) -> Self {
        LevelMetadata {
            level,
            files: files.into(),
        }
    }

    pub(crate) fn level(&self) -> usize {
        self.level
    }

    pub(crate) fn size(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(crate) fn file_count(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn file(&self, index: usize) -> Option<FileMetadata> {
        let files = Arc::clone(&self.files);
        (index < files.len()).then_some(FileMetadata { files, index })
    }
}

impl FileMetadata {
    fn file(&self) -> &LiveFile {
        &self.files[self.index]
    }

    /// Returns the name in the directory, without a slash.
    pub(crate) fn relative_filename(&self) -> &str {
        self.file().name.trim_start_matches('/')
    }

    pub(crate) fn directory(&self) -> String {
        Text::of_path(&self.file().directory).to_text()
    }

    pub(crate) fn size(&self) -> u64 {
        self.file().bytes
    }

    pub(crate) fn smallest_key(&self) -> Option<&[u8]> {
        Some(&self.file().smallest_key)
    }

    pub(crate) fn largest_key(&self) -> Option<&[u8]> {
        Some(&self.file().largest_key)
    }
}
