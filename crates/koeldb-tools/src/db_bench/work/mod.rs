//! The benchmarks themselves, one function each, run by every thread of a benchmark.
//!
//! What a step costs beside the engine is kept small: one key buffer and one value buffer per thread,
//! nothing allocated per operation, no clock.

pub(crate) mod background;
pub(crate) mod deterministic;
pub(crate) mod mixed;
pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod state;
pub(crate) mod write;
