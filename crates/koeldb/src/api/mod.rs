//! The handles that users hold, and what is built of their calls alone.
//!
//! [`db::Db`], [`column_family::ColumnFamily`], transactions and indexed batches keep a database open
//! ([`crate::engine::inner::DbInner`]) and pass each call to the part that owns its state. They may use
//! all storeys below, `read` and downwards.

pub(crate) mod clip;
pub(crate) mod column_family;
pub(crate) mod db;
pub(crate) mod default_family;
pub(crate) mod families;
pub(crate) mod indexed_batch;
pub(crate) mod prometheus;
pub(crate) mod read_modify_write;
pub(crate) mod transaction;
