//! The OPTIONS file, which is rewritten with every change of the options.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::Result;
use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::sync::lock_plain as lock;

use super::Tree;
use crate::options::{ColumnFamilyOptions, options_file};

impl Tree {
    /// The number of the newest OPTIONS file; 0 if none was written.
    pub(crate) fn options_file_number(&self) -> FileNumber {
        self.options_number.load(Ordering::Acquire)
    }

    /// Writes the current options to a new OPTIONS file, and removes all but the two newest.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        // Serialized: the newest file has the newest options, and removals do not conflict.
        let _only_one = lock(&self.options_file);
        let families: Vec<(String, Arc<ColumnFamilyOptions>)> = self
            .families
            .all()
            .into_iter()
            .filter(|family| !family.is_dropped())
            .map(|family| (family.name.to_string(), family.options()))
            .collect();
        let db = self
            .context
            .mutable
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        let mut text = options_file::checked_database(&db)?;
        for (name, options) in &families {
            text.push_str(&options_file::checked_family(name, options)?);
        }
        let number = self.context.new_file_number();
        options_file::write(&*self.context.fs, &self.context.path, number, &text)?;
        self.options_number.store(number, Ordering::Release);
        let mut numbers: Vec<(FileNumber, String)> = self
            .context
            .fs
            .list(&self.context.path)?
            .into_iter()
            .filter_map(|entry| match file_name::parse(&entry.name) {
                Some(FileKind::Options(number)) => Some((number, entry.name)),
                _ => None,
            })
            .collect();
        numbers.sort();
        // The next file written after a hold finds the surplus of the meantime too.
        let Some(_removal) = self.holds().begin_removal() else {
            return Ok(());
        };
        let surplus = numbers.len().saturating_sub(2);
        for (_, name) in numbers.into_iter().take(surplus) {
            self.context.fs.remove_file(&self.context.path.join(name))?;
        }
        Ok(())
    }
}
