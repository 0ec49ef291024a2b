//! Compression dictionaries, trained on samples of a file's blocks.

use super::zstd;

/// Trains a zstd dictionary of at most `max_bytes` on samples.
///
/// The samples are concatenated in `samples`; `sample_bytes` holds their lengths. Returns `None` if
/// the samples are too few or too similar to train on, or if this build lacks zstd: blocks are then
/// written without a dictionary.
///
/// Takes some 50 ms for 1.6 MB of samples.
///
/// # Panics
/// If the lengths do not add up to the samples.
#[must_use]
pub fn train_dictionary(
    samples: &[u8],
    sample_bytes: &[usize],
    max_bytes: usize,
) -> Option<Vec<u8>> {
    assert_eq!(
        samples.len(),
        sample_bytes.iter().sum::<usize>(),
        "lengths of the samples"
    );
    zstd::train(samples, sample_bytes, max_bytes)
}
