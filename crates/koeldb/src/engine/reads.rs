//! The parts of an open database that reads use: life cycle, visibility, and device reads.

use std::fmt::Write as _;
use std::sync::Arc;

use koeldb_fs::read_driver::AsyncReads;
use koeldb_table::block_based::readahead::scan_reads::{ENGINE_BYTES, ScanEngine};

use crate::state::context::Context;
use crate::state::health::Health;
use crate::state::visibility::Visibility;

/// The parts of a database that reads use, and the engines of their device reads.
///
/// The reads themselves are in [`crate::read`].
pub(crate) struct Reads {
    pub(crate) context: Arc<Context>,
    pub(crate) health: Arc<Health>,
    pub(crate) visibility: Arc<Visibility>,
    /// The engine of asynchronous reads.
    pub(crate) async_reads: AsyncReads,
    /// The engine for the readahead of scans.
    pub(crate) scan_engine: Arc<ScanEngine>,
}

impl Reads {
    pub(crate) fn new(
        context: &Arc<Context>,
        health: &Arc<Health>,
        visibility: &Arc<Visibility>,
        async_reads: AsyncReads,
    ) -> Self {
        Reads {
            context: Arc::clone(context),
            health: Arc::clone(health),
            visibility: Arc::clone(visibility),
            scan_engine: ScanEngine::new(async_reads.clone(), ENGINE_BYTES),
            async_reads,
        }
    }

    /// Describes the engine for concurrent reads, the reason for its choice, and its fallbacks.
    pub(crate) fn async_io_engine(&self) -> String {
        describe(&self.async_reads)
    }

    /// Logs each change to another engine for asynchronous reads.
    pub(crate) fn log_fallbacks(&self) {
        // The engine itself calls this, and must not keep itself alive.
        let engine = Arc::downgrade(&self.scan_engine);
        let context = Arc::clone(&self.context);
        self.async_reads.on_fallback(move || {
            if let Some(engine) = engine.upgrade() {
                let engine = describe(engine.reads());
                context
                    .info_log
                    .warn(format_args!("async_io_engine: {engine}"));
            }
        });
    }
}

/// Returns the engine of asynchronous reads and its counts, as text.
fn describe(reads: &AsyncReads) -> String {
    let mut text = format!("{} ({})", reads.engine().name(), reads.reason());
    let counts = reads.counts();
    if counts.lost_rings > 0 || counts.elsewhere > 0 {
        let (rings, elsewhere) = (counts.lost_rings, counts.elsewhere);
        let _ = write!(
            text,
            "; {rings} rings refused, {elsewhere} reads by threads instead"
        );
    }
    text
}
