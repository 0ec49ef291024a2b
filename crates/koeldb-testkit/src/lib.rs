//! Test support shared by KoelDB's crates: an oracle, generators, and a crash harness.
//!
//! Nothing here opens a database. An [`oracle::History`] records requests and results, and decides
//! which contents are legal after a crash; a [`shots::Camera`] takes crash images of an in-memory
//! file system during a run, and passes them to a checker. The same harness thus serves any layer.
//!
//! - [`oracle`]: batches, families, and the legal contents after a crash. [`model`]: the content
//!   itself.
//! - [`monitor`]: checks the rules of durability during a run.
//! - [`shots`]: crash images, sampled by a seed. [`random`]: a seeded random number generator.
//! - [`turns`]: threads that take turns between file-system operations, scheduled by a seed.
//! - [`proc_stat`]: whether a thread sleeps, and the processor time of a process.
//! - [`variety`]: options that do not change results.
//! - [`floors`]: the amount of work of a suite. [`summary`]: the final line of a suite, and its
//!   floor.

pub mod floors;
pub mod model;
pub mod monitor;
pub mod oracle;
pub mod proc_stat;
pub mod random;
pub mod shots;
pub mod summary;
pub mod turns;
pub mod variety;

pub use floors::Floors;
pub use model::{Change, Content, Entries};
pub use oracle::{Bounds, Crash, FamilyId, History, Legality};
pub use random::Random;
pub use shots::{Camera, Shot};
pub use summary::Summary;
pub use turns::Turns;
