//! Reading ahead of scans.
//!
//! - [`scan_source`]: the block source of a scan, which detects sequential access.
//! - [`ahead`]: which blocks lie ahead, in pieces of one read each. `pace`: how far ahead to read.
//! - [`scan_reads`]: the reads in flight, their budgets, and the blocks that scans wait for.

pub mod ahead;
mod pace;
pub mod scan_reads;
pub mod scan_source;
