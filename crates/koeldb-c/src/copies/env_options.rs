//! Options of single files.
//!
//! The engine chooses the access to its files by the options of the database; these values, which
//! only external tables and traces would use, are kept without effect.

use crate::copies::fields::plain_options;

plain_options! {
    /// Options of single files (`rocksdb_envoptions_t`).
    EnvOptions {
        use_mmap_reads: bool = false, set_use_mmap_reads;
        use_mmap_writes: bool = true, set_use_mmap_writes;
        use_direct_reads: bool = false, set_use_direct_reads;
        use_direct_writes: bool = false, set_use_direct_writes;
        allow_fallocate: bool = true, set_allow_fallocate;
        fd_cloexec: bool = true, set_fd_cloexec;
        bytes_per_sync: u64 = 0, set_bytes_per_sync;
        strict_bytes_per_sync: bool = false, set_strict_bytes_per_sync;
        fallocate_with_keep_size: bool = true, set_fallocate_with_keep_size;
        compaction_readahead_size: usize = 0, set_compaction_readahead_size;
        writable_file_max_buffer_size: usize = 1 << 20, set_writable_file_max_buffer_size;
    }
}
