//! What KoelDB's tests share: oracle, workload generators, crash harness.
