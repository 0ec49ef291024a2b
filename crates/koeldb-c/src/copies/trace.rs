//! Options of traces, which the engine does not record: they are kept until a start refuses them.

use crate::copies::fields::plain_options;

/// The longest trace by default.
const MAX_TRACE_FILE_SIZE: u64 = 64 << 30;

plain_options! {
    /// Options of a trace of operations (`rocksdb_trace_options_t`).
    TraceOptions {
        max_trace_file_size: u64 = MAX_TRACE_FILE_SIZE, set_max_trace_file_size;
        sampling_frequency: u64 = 1, set_sampling_frequency;
        filter: u64 = 0, set_filter;
        preserve_write_order: bool = false, set_preserve_write_order;
    }
}

plain_options! {
    /// Options of a replay (`rocksdb_replay_options_t`).
    ReplayOptions {
        num_threads: u32 = 1, set_num_threads;
        fast_forward: f64 = 1.0, set_fast_forward;
    }
}

plain_options! {
    /// Options of a trace of the block cache (`rocksdb_block_cache_trace_options_t`).
    BlockCacheTraceOptions {
        sampling_frequency: u64 = 1, set_sampling_frequency;
    }
}

plain_options! {
    /// Options of the file of such a trace (`rocksdb_block_cache_trace_writer_options_t`).
    BlockCacheTraceWriterOptions {
        max_trace_file_size: u64 = MAX_TRACE_FILE_SIZE, set_max_trace_file_size;
    }
}
