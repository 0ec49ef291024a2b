//! What KoelDB's tests share: an oracle, generators, and the harness that cuts the power.
//!
//! Nothing here opens the database: an [`oracle::History`] is told what was asked and what was answered, and says
//! which contents may be found after a crash; a [`shots::Camera`] takes crash images of a file system in memory while
//! something runs on it, and hands them to whoever checks them. So the same harness serves any layer.
//!
//! - [`oracle`]: batches, families, what is owed, and which content is legal. [`model`]: the content itself.
//! - [`monitor`]: the rules of durability, looked at while something runs.
//! - [`shots`]: crash images, sampled by a seed. [`random`]: numbers that come back with their seed.
//! - [`variety`]: options that change no answer.
//! - [`floors`]: how much a suite does. [`summary`]: the line a suite ends with, and its floor.

pub mod floors;
pub mod model;
pub mod monitor;
pub mod oracle;
pub mod random;
pub mod shots;
pub mod summary;
pub mod variety;

pub use floors::Floors;
pub use model::{Change, Content, Entries};
pub use oracle::{Bounds, Crash, FamilyId, History, Legality};
pub use random::Random;
pub use shots::{Camera, Shot};
pub use summary::Summary;
