//! Compression of blocks (placeholder).
