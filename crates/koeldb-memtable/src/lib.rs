//! KoelDB's ordered in-memory tables.
