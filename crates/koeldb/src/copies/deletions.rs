//! Guards that keep obsolete files in place while a caller copies or reads them by name.

use std::fmt;
use std::sync::Arc;

use koeldb_base::Result;

use crate::api::db::Db;
use crate::tree::Tree;

/// A guard that keeps obsolete files of a database in place while it lives.
///
/// Guards nest. When the last one is dropped, the obsolete files are removed. A guard does not keep
/// the database open.
#[must_use = "files are removed again when the guard is dropped"]
pub struct DeletionGuard {
    tree: Arc<Tree>,
}

impl DeletionGuard {
    pub(crate) fn new(tree: &Arc<Tree>) -> Self {
        tree.holds().hold();
        DeletionGuard {
            tree: Arc::clone(tree),
        }
    }
}

impl Drop for DeletionGuard {
    fn drop(&mut self) {
        if self.tree.holds().release() {
            self.tree.remove_after_holds();
        }
    }
}

impl fmt::Debug for DeletionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeletionGuard({:?})", self.tree.path())
    }
}

impl Db {
    /// Disables the removal of obsolete files until the guard, and every other one, is dropped.
    ///
    /// Flushes and compactions continue, so that the directory grows meanwhile.
    ///
    /// # Errors
    /// `ShutdownInProgress` if the database is closed.
    pub fn disable_file_deletions(&self) -> Result<DeletionGuard> {
        self.inner().health.check_open()?;
        Ok(DeletionGuard::new(&self.inner().tree))
    }
}
