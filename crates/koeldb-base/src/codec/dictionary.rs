//! Dictionaries: what the blocks of a file have in common.

use super::zstd;

/// A zstd dictionary of at most `max_bytes`, trained on samples that lie one behind the other in `samples`,
/// the first `sample_bytes[0]` bytes long and so on. `None` if the samples are too few or too much alike to
/// train on, or if this build lacks zstd: blocks are then written without a dictionary.
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
