//! KoelDB's sharded cache of charged, reference-counted entries.
