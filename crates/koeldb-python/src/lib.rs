//! The Python module `koeldb`: databases as mappings of bytes. Every call that may block releases
//! the global interpreter lock (GIL).
//!
//! | module | contents |
//! |---|---|
//! | `database`, `family` | the classes `Db` and `Family`; a `Db` is its default column family |
//! | `shared`, `reads` | the state that families of a database share; options of point reads |
//! | `entries`, `chunk` | views and iterators, which read ahead in chunks without the GIL |
//! | `cursor` | positions that move in both directions |
//! | `tables` | tables that are built outside of a database |
//! | `snapshot`, `batch`, `transaction` | the classes of these names |
//! | `bulk` | keys and values as columns, for NumPy and Arrow |
//! | `awaitable` | futures of the engine for asyncio |
//! | `backups` | the class `Backups`; checkpoints are a method of `Db` |
//! | `plugins` | merge operators and comparators in Python |
//! | `order` | the comparator and the prefixes of RocksDict's directories |
//! | `setup` | options as objects, caches |
//! | `calls` | calls of the engine without the GIL, and the limits of plug-ins inside of them |
//! | `arguments`, `settings` | conversion of keys, values, ranges and options |
//! | `failure` | exceptions |
//! | `process` | forks, and the exit of the interpreter |
//! | `view` | buffers: memory shared with Python without a copy |
//!
//! `python/koeldb` has the parts that need nothing of the engine but these classes: the shell, the
//! notebook view, NumPy arrays and Arrow record batches.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python are converted to owned values"
)]

use pyo3::prelude::*;

mod arguments;
mod awaitable;
mod backups;
mod batch;
mod bulk;
mod calls;
mod chunk;
mod cursor;
mod database;
mod entries;
mod failure;
mod family;
mod order;
mod plugins;
mod process;
mod reads;
mod settings;
mod setup;
mod shared;
mod snapshot;
mod tables;
mod transaction;
mod view;

// Buffers of Python are read and filled where they are, while the GIL keeps others from them.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::awaitable::Awaitable;
    #[pymodule_export]
    use super::backups::Backups;
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::bulk::{Columns, columns, multi_get_column, multi_get_into, put_columns};
    #[pymodule_export]
    use super::cursor::Cursor;
    #[pymodule_export]
    use super::database::{Db, Updates, destroy, ldb, list_families, repair};
    #[pymodule_export]
    use super::entries::{Entries, Items, Keys, Values};
    #[pymodule_export]
    use super::family::Family;
    #[pymodule_export]
    use super::plugins::{Comparator, MergeOperator};
    #[pymodule_export]
    use super::process::{after_fork_in_child, close_all};
    #[pymodule_export]
    use super::settings::option_table;
    #[pymodule_export]
    use super::setup::{Cache, Settings, WriteBufferManager};
    #[pymodule_export]
    use super::snapshot::Snapshot;
    #[pymodule_export]
    use super::tables::SstFileWriter;
    #[pymodule_export]
    use super::transaction::Transaction;
    #[pymodule_export]
    use super::view::Memory;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
