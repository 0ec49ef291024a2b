//! Ingestion: tables written outside of a database become part of its tree.
//!
//! - [`options`]: the options. [`prepare`]: tables are checked and brought into the directory,
//!   without locks. [`place`]: the level of each table, a pure function. [`replace`]: the tables that
//!   are dropped instead of kept. [`commit`]: one edit for all tables of all column families.

mod commit;
mod options;
mod place;
mod prepare;
mod replace;

pub use options::{IngestExternalFileArg, IngestExternalFileOptions};
pub use prepare::PreparedIngest;
