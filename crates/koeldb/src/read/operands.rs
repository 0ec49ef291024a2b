//! Reads of merge operands that are not merged.

use koeldb_base::{Lookup, PinnedSlice, Result};

use super::options::ReadOptions;
use crate::engine::reads::Reads;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::ttl;

impl Reads {
    /// Reads the base value and merge operands of a key, unmerged, oldest first.
    ///
    /// (RocksDB: `GetMergeOperands`.)
    pub(crate) fn merge_operands(
        &self,
        family: &ColumnFamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Vec<PinnedSlice>> {
        self.health.check_open()?;
        family.super_version.with(|current| {
            let (super_version, seqno) = self.view(family, current, options)?;
            let mut lookup = Lookup::new(key, seqno);
            self.settle(super_version, &mut lookup, options)?;
            let mut operands =
                lookup.into_operands(super_version.merger(options.fetch_options()))?;
            if family.ttl.is_some() {
                for operand in &mut operands {
                    let bytes = ttl::shown(operand)?.len();
                    *operand = operand.subslice(0..bytes);
                }
            }
            Ok(operands)
        })
    }
}
