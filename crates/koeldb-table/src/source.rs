//! Where blocks come from.
