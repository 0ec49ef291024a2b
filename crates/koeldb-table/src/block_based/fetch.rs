//! From a handle to a block.
