//! The shape of KoelDB's tree: versions, manifest, compaction choice, flush and compaction jobs.
