//! KoelDB's immutable files of sorted entries.
