//! Counts of shared state. `.ci/counts` runs them; without `--cfg koeldb_counts` there are none.
#![cfg(koeldb_counts)]

mod costs;
mod operations;
mod primitives;
mod threads;
