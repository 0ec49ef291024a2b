//! Remote compaction through a directory that the primary and its workers share.
//!
//! The primary gives its compactions to a [`DirectoryService`], which writes each as a job into the
//! directory. A [`Worker`], in the program `koeldb-worker` or in one of yours, takes a job, compacts
//! and writes the result. The primary checks the result, and compacts locally if no worker answers.
//!
//! ```no_run
//! use koeldb::{Db, Env, Options};
//! use koeldb_worker::{DirectoryService, Worker};
//!
//! # fn main() -> koeldb::Result<()> {
//! // The primary.
//! let service = DirectoryService::open(&Env::default(), "/shared/jobs")?;
//! let mut options = Options::default();
//! options.create_if_missing(true).set_compaction_service(service);
//! let db = Db::open(&options, "/shared/db")?;
//!
//! // A worker, in another process: one job after the other.
//! let mut worker = Worker::new(&Options::default(), "/shared/jobs", "worker-1")?;
//! while let Some(report) = worker.run_one()? {
//!     println!("{report}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - `service` is the primary's side, `worker` the other one, `store` the files between them.
//! - A worker has no state: it may be killed at any time, and another one takes its job over.
//! - Primary and workers see the directory and the database under the same paths, as the same user.

#![forbid(unsafe_code)]

mod service;
mod store;
mod worker;

pub use service::DirectoryService;
pub use worker::{JobOutcome, JobReport, Worker};
