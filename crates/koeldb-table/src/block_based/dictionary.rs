//! Data blocks buffered until their compression dictionary is built from them.

use koeldb_base::codec::{Compression, CompressionOptions, train_dictionary};

/// A buffer of uncompressed data blocks, from which a compression dictionary is built.
#[derive(Debug)]
pub(crate) struct BufferedBlocks {
    blocks: Vec<Vec<u8>>,
    bytes: u64,
    bytes_max: u64,
}

impl BufferedBlocks {
    /// Creates the buffer; `None` if `compression` and `options` do not call for a dictionary.
    ///
    /// The limit is that of the options or the target file size, where they are given.
    pub(crate) fn new(
        compression: Compression,
        options: &CompressionOptions,
        target_file_bytes: u64,
    ) -> Option<Self> {
        let bytes_max = [options.max_dict_buffer_bytes, target_file_bytes]
            .into_iter()
            .filter(|&limit| limit != 0)
            .min()
            .unwrap_or(u64::MAX);
        (options.max_dict_bytes != 0 && compression.uses_dictionary()).then(|| BufferedBlocks {
            blocks: Vec::new(),
            bytes: 0,
            bytes_max,
        })
    }

    /// Buffers a data block until the compression dictionary is built.
    pub(crate) fn push(&mut self, block: Vec<u8>) {
        self.bytes += block.len() as u64;
        self.blocks.push(block);
    }

    /// The total size of the buffered blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the buffered blocks exceed the size limit, at which the dictionary is built.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Returns the buffered blocks in order, for writing.
    pub(crate) fn into_blocks(self) -> Vec<Vec<u8>> {
        self.blocks
    }

    /// Builds the compression dictionary from the buffered blocks; empty if training yields none.
    pub(crate) fn dictionary(
        &self,
        compression: Compression,
        options: &CompressionOptions,
    ) -> Vec<u8> {
        let dictionary_bytes = options.max_dict_bytes as usize;
        if compression != Compression::Zstd || options.zstd_max_train_bytes == 0 {
            return self.samples(dictionary_bytes).0;
        }
        let (mut samples, lens) = self.samples(options.zstd_max_train_bytes as usize);
        if options.use_zstd_dict_trainer {
            return train_dictionary(&samples, &lens, dictionary_bytes).unwrap_or_default();
        }
        samples.truncate(dictionary_bytes);
        samples
    }

    /// Samples up to `bytes_max` bytes from all over the buffer; also returns the sample lengths.
    fn samples(&self, bytes_max: usize) -> (Vec<u8>, Vec<usize>) {
        // A prime step visits every block once, in an order that spreads for any number of blocks.
        const STEP: u64 = 545_055_921_143;
        let mut samples = Vec::new();
        let mut lens = Vec::new();
        let count = self.blocks.len() as u64;
        let mut at = count / 2;
        for _ in 0..count {
            let room = bytes_max - samples.len();
            if room == 0 {
                break;
            }
            let block = &self.blocks[koeldb_base::coding::to_usize(at)];
            let len = block.len().min(room);
            samples.extend_from_slice(&block[..len]);
            lens.push(len);
            at = (at + STEP % count) % count;
        }
        (samples, lens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_from_every_block_once() {
        let options = CompressionOptions {
            max_dict_bytes: 10,
            ..CompressionOptions::default()
        };
        let mut buffered = BufferedBlocks::new(Compression::Lz4, &options, 0).unwrap();
        for n in 0..7_u8 {
            buffered.push(vec![n, n]);
        }
        let (mut samples, lens) = buffered.samples(100);
        assert_eq!(lens, [2; 7]);
        samples.sort_unstable();
        samples.dedup();
        assert_eq!(samples, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(buffered.dictionary(Compression::Lz4, &options).len(), 10);
        assert!(BufferedBlocks::new(Compression::Snappy, &options, 0).is_none());
    }

    #[test]
    fn the_smaller_limit_ends_the_holding_back() {
        let options = CompressionOptions {
            max_dict_bytes: 10,
            max_dict_buffer_bytes: 5,
            ..CompressionOptions::default()
        };
        let mut buffered = BufferedBlocks::new(Compression::Zstd, &options, 1000).unwrap();
        buffered.push(vec![0; 5]);
        assert!(!buffered.is_full());
        buffered.push(vec![0]);
        assert!(buffered.is_full());
        assert_eq!(buffered.bytes(), 6);
    }
}
