//! The benchmarks, one function each, which every thread of a benchmark runs.
//!
//! The cost of a step besides the engine is kept low: one key buffer and one value buffer per
//! thread, no allocation per operation, and no clock.

pub(crate) mod background;
pub(crate) mod codec;
pub(crate) mod deterministic;
pub(crate) mod entity;
pub(crate) mod mixed;
pub(crate) mod mixgraph;
pub(crate) mod multi_scan;
pub(crate) mod operands;
pub(crate) mod read;
pub(crate) mod remote;
pub(crate) mod replace;
pub(crate) mod scan;
pub(crate) mod state;
pub(crate) mod time_series;
pub(crate) mod transaction;
pub(crate) mod transfer;
pub(crate) mod verify;
pub(crate) mod write;
