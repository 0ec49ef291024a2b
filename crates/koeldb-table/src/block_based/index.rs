//! Index entries.
