//! Options of writes, flushes and ingestions.

/// Options of a write.
#[derive(Default)]
pub struct WriteOptions {
    pub(crate) inner: koeldb::WriteOptions,
}

impl WriteOptions {
    new_by_default! {
        /// The defaults: the write is logged in the WAL, which is not synced.
    }

    same! {
        /// Syncs the WAL before the write returns.
        set_sync(bool);
        /// Skips the WAL: the write survives only if its memtable is flushed.
        disable_wal(bool);
        /// Skips operations of dropped column families.
        set_ignore_missing_column_families(bool);
        /// Fails with `Incomplete` instead of waiting in a write stall.
        set_no_slowdown(bool);
        /// Yields to other writes while compactions lag.
        set_low_pri(bool);
        /// Keeps insert positions within a batch. No effect.
        set_memtable_insert_hint_per_batch(bool);
    }
}

/// Options of a flush.
#[derive(Default)]
pub struct FlushOptions {
    pub(crate) inner: koeldb::FlushOptions,
}

impl FlushOptions {
    new_by_default! {
        /// The defaults: the call waits.
    }

    same! {
        /// Whether the call waits for the flush.
        set_wait(bool);
    }
}

/// Options of ingesting table files (`IngestExternalFileOptions`).
#[derive(Default)]
pub struct IngestExternalFileOptions {
    pub(crate) inner: koeldb::IngestExternalFileOptions,
}

impl IngestExternalFileOptions {
    same! {
        /// Whether files are moved instead of copied.
        set_move_files(bool);
        /// Whether snapshots do not see the ingested entries; true by default.
        set_snapshot_consistency(bool);
        /// Whether tables may get a sequence number; true by default.
        set_allow_global_seqno(bool);
        /// Whether memtables with keys of the tables are flushed; true by default.
        set_allow_blocking_flush(bool);
        /// Whether the tables go below all data, on a level that `set_allow_ingest_behind` reserves.
        set_ingest_behind(bool);
    }
}
