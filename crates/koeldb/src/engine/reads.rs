//! The parts of an open database that reads use: life cycle, visibility, and device reads.

use std::fmt::Write as _;
use std::sync::Arc;

use koeldb_fs::read_driver::AsyncReads;
use koeldb_table::block_based::readahead::scan_reads::{ENGINE_BYTES, ScanEngine};

use crate::state::context::Context;
use crate::state::health::Health;
use crate::state::visibility::Visibility;

/// The components of an open database that the read path uses, with its asynchronous I/O engines.
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

    /// Describes as text the asynchronous I/O engine, why it was chosen, and its fallbacks so far.
    pub(crate) fn async_io_engine(&self) -> String {
        describe(&self.async_reads)
    }

    /// Registers a callback that writes each fallback to another asynchronous I/O engine to LOG.
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

/// Describes as text the engine of `reads`, the reason for its choice, and its fallback counts.
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
