//! Point reads of all columns of a key.

use std::convert::Infallible;

use koeldb_base::entity::WideColumns;
use koeldb_base::{Error, Lookup, Result};
use koeldb_table::source::BlockingSource;

use super::get::search_memtables;
use super::multi_get::{FoundValues, PinnedSlices};
use super::options::ReadOptions;
use super::suspended::deadline_passed;
use crate::engine::reads::Reads;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::ttl;

impl Reads {
    /// Reads the columns of one key; `None` if the key does not exist.
    ///
    /// (RocksDB: `GetEntity`.)
    pub(crate) fn get_entity(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<WideColumns>> {
        self.health.check_open()?;
        let begun = self.context.measures().then(|| self.context.clock.now());
        let found = family.super_version.with(|current| {
            let (super_version, seqno) = self.view(family, current, options)?;
            let mut lookup = Lookup::new(key, seqno);
            if options.is_bounded() {
                self.settle(super_version, &mut lookup, options)?;
            } else if options.timestamp.is_some() {
                self.search_at(super_version, &mut lookup, options)?;
            } else {
                search_memtables(self, super_version, &mut lookup, options)?;
                if !lookup.is_settled() {
                    let options = options.block_read_options(&self.context.table_files);
                    let mut source = BlockingSource::new(options);
                    let runs = super_version.runs_above()..usize::MAX;
                    let (version, tables) = (&super_version.version, &super_version.tables);
                    let found = |hit| self.context.count(hit, 1);
                    version.search(tables, &mut lookup, &mut source, runs, found)?;
                }
            }
            lookup.take_columns(super_version.merger(options.fetch_options()))
        });
        let found = shown(family, found)?;
        if let Some(begun) = begun {
            self.record_get(found.as_ref().map(WideColumns::stored), begun);
        }
        Ok(found)
    }

    /// Reads the columns of `keys`, each with its own result, in their order.
    ///
    /// (RocksDB: `MultiGetEntity`.)
    pub(crate) fn multi_get_entity<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamilyData,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<WideColumns>>> {
        let begun = self.context.measures().then(|| self.context.clock.now());
        let deadline = options.deadline.map(|at| self.context.clock.time_of(at));
        let mut values = PinnedSlices::with_capacity(keys.len());
        let mut columns = None;
        let searched = match deadline {
            Some(deadline) if self.context.clock.now() >= deadline => Err(deadline_passed()),
            _ => self.search_batch_to(
                family,
                keys,
                (options, true),
                &mut values,
                |context, values| {
                    self.search_tables(context, values);
                    None::<Infallible>
                },
                |values, merger| {
                    let limit = options.value_size_soft_limit;
                    columns = Some(values.take_columns(merger, limit));
                },
            ),
        };
        let found: Vec<_> = match (searched, columns) {
            (Err(error), _) => keys.iter().map(|_| Err(error.clone())).collect(),
            (Ok(_), Some(columns)) => columns,
            // A level of cuckoo tables, which has plain values only.
            (Ok(_), None) => {
                let values = values.into_iter();
                values
                    .map(|found| Ok(found?.map(WideColumns::from_value)))
                    .collect()
            }
        };
        let found: Vec<_> = found.into_iter().map(|one| shown(family, one)).collect();
        if let Some(begun) = begun {
            let columns = found.iter().flatten().flatten();
            let values = FoundValues::of(columns.map(WideColumns::stored));
            self.record_multi_get(found.len(), values, begun);
        }
        found
    }
}

/// Removes the time from a plain value of a TTL database, which has no entities.
fn shown(
    family: &ColumnFamilyData,
    found: Result<Option<WideColumns>>,
) -> Result<Option<WideColumns>> {
    if family.ttl.is_none() {
        return found;
    }
    match found? {
        Some(columns) if columns.is_entity() => Err(Error::not_supported(
            "a TTL database has no wide columns, but the key has them",
        )),
        Some(columns) => {
            let value = ttl::strip(Ok(Some(columns.stored().clone())))?;
            Ok(value.map(WideColumns::from_value))
        }
        None => Ok(None),
    }
}
