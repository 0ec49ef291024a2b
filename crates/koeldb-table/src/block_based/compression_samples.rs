//! Estimates of a table's size under codecs that it does not use.

use koeldb_base::codec::{Compression, CompressionOptions, Compressor};

use crate::format::BLOCK_TRAILER_BYTES;
use crate::properties::TableProperties;

/// The fast and the slow codecs, best first.
const FAST: [Compression; 2] = [Compression::Lz4, Compression::Snappy];
const SLOW: [Compression; 2] = [Compression::Zstd, Compression::Zlib];

/// Compressed sizes of sampled data blocks by a fast and a slow codec (`sample_for_compression`).
#[derive(Debug)]
pub(super) struct CompressionSamples {
    /// One of this many blocks is sampled, beginning with the first.
    period: u64,
    fast: Codec,
    slow: Codec,
    block_count: u64,
    raw_bytes: u64,
    sampled_bytes: u64,
}

/// A codec, and the total size of the sampled blocks that it compressed.
#[derive(Debug)]
struct Codec {
    /// `None` if this build has no codec of the kind; its blocks then stay as they are.
    compressor: Option<Compressor>,
    output: Vec<u8>,
    sampled_bytes: u64,
}

impl Codec {
    /// Selects the first codec of `candidates` that this build supports.
    fn new(candidates: [Compression; 2]) -> Self {
        let options = CompressionOptions::default();
        let mut usable = candidates
            .into_iter()
            .filter_map(|codec| Compressor::new(codec, &options, None).ok());
        Codec {
            compressor: usable.next(),
            output: Vec::new(),
            sampled_bytes: 0,
        }
    }

    /// Compresses a sampled block and adds its size; a block that does not shrink counts as it is.
    fn add(&mut self, block: &[u8]) {
        let fits = self.compressor.as_mut().is_some_and(|compressor| {
            compressor
                .compress(block, block.len(), &mut self.output)
                .unwrap_or(false)
        });
        let bytes = if fits { self.output.len() } else { block.len() };
        self.sampled_bytes += bytes as u64;
    }
}

impl CompressionSamples {
    /// Creates the sampler of one in `period` data blocks; `None` if `period` is 0.
    pub(super) fn new(period: u64) -> Option<Self> {
        (period > 0).then(|| CompressionSamples {
            period,
            fast: Codec::new(FAST),
            slow: Codec::new(SLOW),
            block_count: 0,
            raw_bytes: 0,
            sampled_bytes: 0,
        })
    }

    /// Counts an uncompressed data block, and compresses one in `period` blocks as a sample.
    pub(super) fn add(&mut self, block: &[u8]) {
        if self.block_count.is_multiple_of(self.period) {
            self.sampled_bytes += block.len() as u64;
            self.fast.add(block);
            self.slow.add(block);
        }
        self.block_count += 1;
        self.raw_bytes += block.len() as u64;
    }

    /// Records the data size estimated for each codec in the table properties.
    pub(super) fn record(&self, properties: &mut TableProperties) {
        let trailers = self.block_count * BLOCK_TRAILER_BYTES as u64;
        let estimate = |codec: &Codec| {
            let scaled = u128::from(codec.sampled_bytes) * u128::from(self.raw_bytes)
                / u128::from(self.sampled_bytes.max(1));
            u64::try_from(scaled)
                .unwrap_or(u64::MAX)
                .saturating_add(trailers)
        };
        properties.fast_compression_data_bytes = estimate(&self.fast);
        properties.slow_compression_data_bytes = estimate(&self.slow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_scale_the_sampled_blocks_to_all() {
        let mut samples = CompressionSamples::new(2).unwrap();
        for block in 0..10_u8 {
            samples.add(&[block; 1000]);
        }
        assert_eq!(samples.sampled_bytes, 5000);
        let mut properties = TableProperties::default();
        samples.record(&mut properties);
        let plain = 10 * (1000 + BLOCK_TRAILER_BYTES as u64);
        for (codecs, bytes) in [
            (FAST, properties.fast_compression_data_bytes),
            (SLOW, properties.slow_compression_data_bytes),
        ] {
            if codecs.iter().any(|codec| codec.is_available()) {
                assert!(bytes < plain / 5, "{bytes}");
            } else {
                assert_eq!(bytes, plain);
            }
        }
        assert!(CompressionSamples::new(0).is_none());
    }
}
