//! Counters (placeholder).
