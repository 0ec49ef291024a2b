//! The OPTIONS file, which is replaced with every change of the options.
//!
//! The format has no increments, so a change of one column family writes the options of all. The
//! texts of unchanged families are kept, and concurrent changes share one file.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::Result;
use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::sync::lock_plain as lock;

use super::Tree;
use crate::options::ColumnFamilyOptions;
use crate::options::options_file::{self, FamilyText};

/// The number of OPTIONS files that are kept.
const KEPT: usize = 2;

/// The known OPTIONS files of a database, and the cached texts of the newest one.
#[derive(Default)]
pub(super) struct OptionsFiles {
    /// The number of changes of options that the newest file contains.
    changes: u64,
    /// The files in the directory, oldest first; `None` until they were listed.
    numbers: Option<Vec<FileNumber>>,
    /// The texts of the column families in the newest file, by id.
    texts: HashMap<u32, KnownText>,
}

/// The cached OPTIONS text of a column family, with the options that it describes.
struct KnownText {
    options: Arc<ColumnFamilyOptions>,
    text: FamilyText,
}

impl Tree {
    /// Returns the number of the newest OPTIONS file; 0 if none was written.
    pub(crate) fn options_file_number(&self) -> FileNumber {
        self.options_number.load(Ordering::Acquire)
    }

    /// Writes the current options to a new OPTIONS file, and removes all but the two newest.
    ///
    /// Writes nothing if another thread has written the caller's change meanwhile.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        let change = self.options_changes.fetch_add(1, Ordering::AcqRel) + 1;
        // Serialized: the newest file has the newest options, and removals do not conflict.
        let mut files = lock(&self.options_file);
        if files.changes >= change {
            return Ok(());
        }
        let changes = self.options_changes.load(Ordering::Acquire);
        let text = self.options_text(&mut files)?;
        let (fs, directory) = (&*self.context.fs, &self.context.path);
        let number = self.context.new_file_number();
        options_file::write(fs, directory, number, &text)?;
        self.options_number.store(number, Ordering::Release);
        files.changes = changes;
        match &mut files.numbers {
            Some(numbers) => numbers.push(number),
            None => files.numbers = Some(self.list_options_files()?),
        }
        // The next file written after a hold removes the surplus of the meantime too.
        let Some(_removal) = self.holds().begin_removal() else {
            return Ok(());
        };
        let numbers = files.numbers.get_or_insert_default();
        while numbers.len() > KEPT {
            match fs.remove_file(&file_name::options(directory, numbers[0])) {
                Err(error) if !error.is_path_not_found() => return Err(error),
                _ => drop(numbers.remove(0)),
            }
        }
        Ok(())
    }

    /// Returns the numbers of the OPTIONS files in the database directory, ascending.
    fn list_options_files(&self) -> Result<Vec<FileNumber>> {
        let entries = self.context.fs.list(&self.context.path)?.into_iter();
        let numbers = entries.filter_map(|entry| match file_name::parse(&entry.name) {
            Some(FileKind::Options(number)) => Some(number),
            _ => None,
        });
        let mut numbers: Vec<FileNumber> = numbers.collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the complete text of an OPTIONS file for the current options.
    fn options_text(&self, files: &mut OptionsFiles) -> Result<String> {
        let mut text = options_file::checked_database(&self.context.mutable_options())?;
        let mut known = std::mem::take(&mut files.texts);
        for family in self.families.all() {
            if family.is_dropped() {
                continue;
            }
            let options = family.options();
            let family_text = match known.remove(&family.id) {
                Some(same) if Arc::ptr_eq(&same.options, &options) => same.text,
                _ => {
                    let printed = options_file::checked_family(&family.name, &options)?;
                    let mut others = files.texts.values().map(|known| &known.text);
                    others
                        .find(|text| **text == printed)
                        .cloned()
                        .unwrap_or(printed)
                }
            };
            family_text.append_to(&mut text, &family.name);
            let known = KnownText {
                options,
                text: family_text,
            };
            files.texts.insert(family.id, known);
        }
        Ok(text)
    }
}
