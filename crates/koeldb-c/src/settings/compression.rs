//! Options of compression that C sets several at a time.

use koeldb::Compression;

use crate::settings::option_text::set;
use crate::settings::options::Options;

/// Sets the options of zlib and of dictionaries.
pub(crate) fn set_all(
    options: &mut Options,
    window_bits: i32,
    level: i32,
    strategy: i32,
    dictionary_bytes: i32,
) {
    set(options, "compression_opts.window_bits", window_bits);
    set(options, "compression_opts.level", level);
    set(options, "compression_opts.strategy", strategy);
    set(options, "compression_opts.max_dict_bytes", dictionary_bytes);
}

/// Sets the options of the last level.
pub(crate) fn set_bottommost(
    options: &mut Options,
    window_bits: i32,
    level: i32,
    strategy: i32,
    dictionary_bytes: i32,
    enabled: bool,
) {
    set(
        options,
        "bottommost_compression_opts.window_bits",
        window_bits,
    );
    set(options, "bottommost_compression_opts.level", level);
    set(options, "bottommost_compression_opts.strategy", strategy);
    set(
        options,
        "bottommost_compression_opts.max_dict_bytes",
        dictionary_bytes,
    );
    enable_bottommost(options, enabled);
}

/// Sets the bytes that train dictionaries of the last level.
pub(crate) fn set_bottommost_train_bytes(options: &mut Options, bytes: i32, enabled: bool) {
    set(
        options,
        "bottommost_compression_opts.zstd_max_train_bytes",
        bytes,
    );
    enable_bottommost(options, enabled);
}

/// Sets how dictionaries of the last level are trained.
pub(crate) fn set_bottommost_trainer(options: &mut Options, on: bool, enabled: bool) {
    set(
        options,
        "bottommost_compression_opts.use_zstd_dict_trainer",
        on,
    );
    enable_bottommost(options, enabled);
}

/// Sets the bytes held back for dictionaries of the last level.
pub(crate) fn set_bottommost_buffer_bytes(options: &mut Options, bytes: u64, enabled: bool) {
    set(
        options,
        "bottommost_compression_opts.max_dict_buffer_bytes",
        bytes,
    );
    enable_bottommost(options, enabled);
}

fn enable_bottommost(options: &mut Options, enabled: bool) {
    set(options, "bottommost_compression_opts.enabled", enabled);
}

/// Writes the levels above one without compression.
pub(crate) fn set_min_level(options: &mut Options, level: i32) {
    let Ok(level) = usize::try_from(level) else {
        return;
    };
    let below = options.inner.get_compression_type();
    let count = usize::try_from(options.inner.get_num_levels()).unwrap_or_default();
    let levels = (0..count).map(|at| if at < level { Compression::None } else { below });
    let levels: Vec<Compression> = levels.collect();
    options.inner.set_compression_per_level(&levels);
}
