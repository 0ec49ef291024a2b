//! Reads of merge operands by a handle.

use koeldb_base::{PinnedSlice, Result};

use super::ColumnFamily;
use crate::read::ReadOptions;

impl ColumnFamily {
    /// Reads the merge operands of `key` without merging them, oldest first.
    ///
    /// A value below the operands is the first of them. Flushes and compactions may have merged
    /// some; a key without a value has none.
    ///
    /// ```
    /// use koeldb::{Db, Env, Options, StringAppend};
    ///
    /// let mut options = Options::new();
    /// options.create_if_missing(true).set_env(&Env::mem_env());
    /// options.set_merge_operator(StringAppend::default());
    /// let db = Db::open(&options, "/lists")?;
    /// db.put("list", "a")?;
    /// db.merge("list", "b")?;
    /// let operands = db.get_merge_operands("list")?;
    /// assert_eq!((&operands[0][..], &operands[1][..]), (&b"a"[..], &b"b"[..]));
    /// # Ok::<(), koeldb::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Corruption` or `IoError` if a table cannot be read; `ShutdownInProgress` after a close.
    pub fn get_merge_operands(&self, key: impl AsRef<[u8]>) -> Result<Vec<PinnedSlice>> {
        self.get_merge_operands_opt(key, &ReadOptions::new())
    }

    /// Like [`ColumnFamily::get_merge_operands`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_merge_operands`]; `Incomplete` if the read tier does not have all.
    pub fn get_merge_operands_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Vec<PinnedSlice>> {
        let reads = &self.inner().reads;
        reads.merge_operands(self.data(), key.as_ref(), options)
    }
}
