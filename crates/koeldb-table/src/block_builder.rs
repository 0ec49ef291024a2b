//! Builds blocks of prefix-compressed entries.
//!
//! Keys omit the prefix that they share with the preceding key, except at restart points.
//!
//! ```text
//! entry:  varint32 shared | varint32 non-shared | varint32 value length | key bytes | value
//! block:  entries | fixed32 restarts | [u8 buckets | fixed16 bucket count] | fixed32 packed footer
//!
//! separated:
//! entry:  varint32 shared | varint32 non-shared | varint32 value length | [varint32 value offset]
//!         | key bytes
//! block:  entries | values | restarts | [buckets] | fixed32 start of the values
//!         | fixed32 packed footer
//! ```
//!
//! In a separated block an entry has a value offset, relative to the start of the values, exactly
//! if it is a restart point.
//!
//! The builder does not keep the last key: the caller has it anyway, and passes it in. An entry of
//! an index block may lack the value length (`docs/formats/block-based-table.md`, blocks of
//! entries).

use koeldb_base::checksum::hash32;
use koeldb_base::coding::{put_fixed16, put_fixed32, put_varint32, to_u32};
use koeldb_base::key::user_key;
use koeldb_base::{Error, Result};

use crate::format::PackedFooter;

/// The seed of the hash function of the hash index in a data block.
const HASH_SEED: u32 = 397;
/// The value of a hash bucket with keys of several restart intervals.
const BUCKET_COLLISION: u8 = 254;
/// The value of a hash bucket without a key.
const BUCKET_EMPTY: u8 = 255;
/// The last restart point to which a hash bucket can refer.
const HASHED_RESTART_MAX: usize = 253;
/// The largest estimated size of a block with a hash index.
const HASHED_BLOCK_BYTES_MAX: usize = 1 << 16;

/// A builder of blocks with prefix-compressed keys and restart points.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    restart_interval: u32,
    share_prefixes: bool,
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    /// The number of entries since the last restart point.
    since_restart: u32,
    hash_index: Option<HashIndexBuilder>,
    /// The values of a block that stores them separately from the keys.
    values: Option<Vec<u8>>,
}

impl BlockBuilder {
    /// Creates an empty block with a restart point at every `restart_interval`-th entry.
    ///
    /// Without `share_prefixes` all keys are stored whole.
    pub(crate) fn new(restart_interval: u32, share_prefixes: bool) -> Self {
        BlockBuilder {
            restart_interval: restart_interval.max(1),
            share_prefixes,
            bytes: Vec::new(),
            restarts: vec![0],
            since_restart: 0,
            hash_index: None,
            values: None,
        }
    }

    /// Enables the data block hash index from user keys to restart points.
    pub(crate) fn with_hash_index(mut self, utilization: f64) -> Self {
        self.hash_index = Some(HashIndexBuilder::new(utilization));
        self
    }

    /// Enables separate storage of the values, in a section after the keys.
    pub(crate) fn with_separate_values(mut self) -> Self {
        self.values = Some(Vec::new());
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Estimates the size of the block if it were finished without further entries.
    #[inline]
    pub(crate) fn estimated_bytes(&self) -> usize {
        let hash = self.hash_index.as_ref().map_or(0, HashIndexBuilder::bytes);
        let values = self.values.as_ref().map_or(0, |values| values.len() + 4);
        self.bytes.len() + 4 * self.restarts.len() + 4 + hash + values
    }

    /// Estimates the size of the block with one more entry.
    #[inline]
    pub(crate) fn estimated_bytes_with(&self, key: &[u8], value: &[u8]) -> usize {
        // A varint for the shared length and a restart point, rounded up; varints for the two
        // lengths.
        self.estimated_bytes() + key.len() + value.len() + 4 + 4 + 4
    }

    /// Adds an entry; `previous_key` is the key before it, with which it may share a prefix.
    ///
    /// # Errors
    /// `InvalidArgument` if key or value have 4 GiB or more, or the block would.
    #[inline]
    pub(crate) fn add(&mut self, previous_key: &[u8], key: &[u8], value: &[u8]) -> Result<()> {
        let shared = self.begin_entry(previous_key, key)?;
        let non_shared = key.len() - shared;
        if let (Ok(shared), Ok(non_shared), Ok(value_len)) = (
            u8::try_from(shared),
            u8::try_from(non_shared),
            u8::try_from(value.len()),
        ) && shared | non_shared | value_len < 0x80
        {
            self.bytes
                .extend_from_slice(&[shared, non_shared, value_len]);
        } else {
            put_varint32(&mut self.bytes, to_u32(shared, "key")?);
            put_varint32(&mut self.bytes, to_u32(non_shared, "key")?);
            put_varint32(&mut self.bytes, to_u32(value.len(), "value")?);
        }
        if let Some(values) = &mut self.values {
            // `begin_entry` counted this entry already.
            if self.since_restart == 1 {
                put_varint32(&mut self.bytes, to_u32(values.len(), "block")?);
            }
            self.bytes.extend_from_slice(&key[shared..]);
            values.extend_from_slice(value);
        } else {
            self.bytes.extend_from_slice(&key[shared..]);
            self.bytes.extend_from_slice(value);
        }
        if let Some(hash_index) = &mut self.hash_index {
            hash_index.add(user_key(key), self.restarts.len() - 1);
        }
        Ok(())
    }

    /// Adds an index entry, whose value has no length field and may be delta-encoded.
    ///
    /// `value` appends the value; its argument tells whether the entry shares key bytes, by which
    /// readers recognise a delta-encoded value. `whole_key` is for an entry whose value must not be
    /// a delta.
    pub(crate) fn add_unsized(
        &mut self,
        previous_key: &[u8],
        key: &[u8],
        whole_key: bool,
        value: impl FnOnce(bool, &mut Vec<u8>),
    ) -> Result<()> {
        let shared = self.begin_entry(if whole_key { &[] } else { previous_key }, key)?;
        put_varint32(&mut self.bytes, to_u32(shared, "key")?);
        put_varint32(&mut self.bytes, to_u32(key.len() - shared, "key")?);
        self.bytes.extend_from_slice(&key[shared..]);
        value(shared != 0, &mut self.bytes);
        Ok(())
    }

    /// Starts an entry, at a restart point if one is due; returns the shared prefix length.
    ///
    /// Returns the number of bytes that the key shares with the preceding one.
    #[inline]
    fn begin_entry(&mut self, previous_key: &[u8], key: &[u8]) -> Result<usize> {
        if self.since_restart >= self.restart_interval {
            let offset = to_u32(self.bytes.len(), "block")?;
            if self.restarts.len() >= PackedFooter::RESTART_COUNT_MAX as usize {
                return Err(Error::invalid_argument(
                    "too many restart points in a block",
                ));
            }
            self.restarts.push(offset);
            self.since_restart = 0;
        }
        let at_restart = self.since_restart == 0;
        self.since_restart += 1;
        if at_restart || !self.share_prefixes {
            return Ok(0);
        }
        Ok(common_prefix_len(previous_key, key))
    }

    /// Whether the next entry will be at a restart point.
    pub(crate) fn restart_is_next(&self) -> bool {
        self.is_empty() || self.since_restart >= self.restart_interval
    }

    /// Appends restart points, hash index and footer; returns the finished block.
    ///
    /// [`BlockBuilder::reset`] starts the next one.
    pub(crate) fn finish(&mut self, uniform: bool) -> Result<Vec<u8>> {
        let estimated = self.estimated_bytes();
        let restart_count = to_u32(self.restarts.len(), "block")?;
        let values_start = to_u32(self.bytes.len(), "block")?;
        if let Some(values) = &self.values {
            self.bytes.extend_from_slice(values);
        }
        for &restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        let hashed = match &mut self.hash_index {
            Some(index) if estimated <= HASHED_BLOCK_BYTES_MAX => index.finish(&mut self.bytes),
            _ => false,
        };
        if self.values.is_some() {
            put_fixed32(&mut self.bytes, values_start);
        }
        let footer = PackedFooter {
            restart_count,
            hash_index: hashed,
            uniform,
            separated: self.values.is_some(),
        };
        self.bytes.extend_from_slice(&footer.encode().to_le_bytes());
        Ok(std::mem::take(&mut self.bytes))
    }

    /// Starts the next block, in the buffer `memory`.
    pub(crate) fn reset(&mut self, memory: Vec<u8>) {
        self.bytes = memory;
        self.bytes.clear();
        self.restarts.clear();
        self.restarts.push(0);
        self.since_restart = 0;
        if let Some(index) = &mut self.hash_index {
            index.reset();
        }
        if let Some(values) = &mut self.values {
            values.clear();
        }
    }
}

/// The length of the common prefix of two keys.
#[inline]
pub(crate) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for (index, (x, y)) in a_words.iter().zip(b_words).enumerate() {
        let different = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if different != 0 {
            return index * 8 + different.trailing_zeros() as usize / 8;
        }
    }
    let start = a_words.len().min(b_words.len()) * 8;
    start
        + a[start..]
            .iter()
            .zip(&b[start..])
            .take_while(|(x, y)| x == y)
            .count()
}

/// A builder of the data block hash index (`kDataBlockBinaryAndHash`).
#[derive(Debug)]
struct HashIndexBuilder {
    buckets_per_key: f64,
    entries: Vec<(u32, u8)>,
    /// Whether a restart point was added to which no bucket can refer.
    overflowed: bool,
}

impl HashIndexBuilder {
    /// Creates an empty hash index with this ratio of keys to buckets (0.75 if not positive).
    fn new(utilization: f64) -> Self {
        let utilization = if utilization > 0.0 { utilization } else { 0.75 };
        HashIndexBuilder {
            buckets_per_key: 1.0 / utilization,
            entries: Vec::new(),
            overflowed: false,
        }
    }

    /// Adds a key with the number of its restart interval; the index is dropped above interval 253.
    #[inline]
    fn add(&mut self, user_key: &[u8], restart: usize) {
        match u8::try_from(restart) {
            Ok(restart) if usize::from(restart) <= HASHED_RESTART_MAX => {
                self.entries.push((hash32(user_key, HASH_SEED), restart));
            }
            _ => self.overflowed = true,
        }
    }

    /// Returns the number of buckets, which is odd: the keys divided by the utilization.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the format truncates; a block has far fewer than 2^52 entries"
    )]
    fn bucket_count(&self) -> usize {
        (((self.entries.len() as f64 * self.buckets_per_key) as usize).max(1)) | 1
    }

    /// Returns the size of the hash index in bytes; 0 if it is dropped.
    fn bytes(&self) -> usize {
        if self.overflowed {
            return 0;
        }
        self.bucket_count() + 2
    }

    /// Appends the hash buckets to a block; returns false if the block cannot have a hash index.
    fn finish(&mut self, out: &mut Vec<u8>) -> bool {
        let Ok(bucket_count) = u16::try_from(self.bucket_count()) else {
            return false;
        };
        if self.overflowed {
            return false;
        }
        let start = out.len();
        out.resize(start + usize::from(bucket_count), BUCKET_EMPTY);
        for &(hash, restart) in &self.entries {
            let bucket = &mut out[start + (hash % u32::from(bucket_count)) as usize];
            if *bucket == BUCKET_EMPTY {
                *bucket = restart;
            } else if *bucket != restart {
                *bucket = BUCKET_COLLISION;
            }
        }
        put_fixed16(out, bucket_count);
        true
    }

    /// Discards all keys, for the next block.
    fn reset(&mut self) {
        self.entries.clear();
        self.overflowed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koeldb_base::ValueType;
    use koeldb_base::key::encode;
    use proptest::prelude::*;

    #[test]
    fn the_first_block_of_the_worked_example_is_built() {
        let mut builder = BlockBuilder::new(16, true);
        let mut previous = Vec::new();
        for n in 0..3_u8 {
            let key = encode(&[b'k', b'0' + n], u64::from(n) + 1, ValueType::Value);
            builder.add(&previous, &key, &[b'v', b'0' + n]).unwrap();
            previous = key;
        }
        assert_eq!(builder.estimated_bytes(), 51);
        let block = builder.finish(false).unwrap();
        assert_eq!(
            block.as_slice(),
            b"\x00\x0a\x02k0\x01\x01\0\0\0\0\0\0v0\
              \x01\x09\x021\x01\x02\0\0\0\0\0\0v1\
              \x01\x09\x022\x01\x03\0\0\0\0\0\0v2\
              \0\0\0\0\x01\0\0\0"
        );
        builder.reset(block);
        assert!(builder.is_empty());
        assert_eq!(
            builder.finish(false).unwrap().as_slice(),
            b"\0\0\0\0\x01\0\0\0"
        );
    }

    #[test]
    fn separated_values_follow_the_keys() {
        let mut builder = BlockBuilder::new(2, true).with_separate_values();
        let mut previous = Vec::new();
        for n in 0..3_u8 {
            let key = encode(&[b'k', b'0' + n], 1, ValueType::Value);
            builder.add(&previous, &key, &[b'v', b'0' + n]).unwrap();
            previous = key;
        }
        let estimated = builder.estimated_bytes();
        let block = builder.finish(false).unwrap();
        assert_eq!(block.len(), estimated);
        assert_eq!(
            block,
            b"\x00\x0a\x02\x00k0\x01\x01\0\0\0\0\0\0\
              \x01\x09\x021\x01\x01\0\0\0\0\0\0\
              \x00\x0a\x02\x04k2\x01\x01\0\0\0\0\0\0\
              v0v1v2\
              \0\0\0\0\x1a\0\0\0\x28\0\0\0\x02\0\0\x10"
        );
    }

    #[test]
    fn long_lengths_take_longer_varints() {
        let mut builder = BlockBuilder::new(16, true);
        let key = vec![7; 200];
        builder.add(&[], &key, &[9; 300]).unwrap();
        assert_eq!(builder.bytes[..5], [0, 0xc8, 1, 0xac, 2]);
    }

    #[test]
    fn buckets_name_the_restart_interval_of_a_key() {
        let mut builder = BlockBuilder::new(1, true).with_hash_index(0.75);
        let mut previous = Vec::new();
        for n in 0..100_u8 {
            let key = encode(&[n], 1, ValueType::Value);
            builder.add(&previous, &key, b"").unwrap();
            previous = key;
        }
        let estimated = builder.estimated_bytes();
        let block = builder.finish(false).unwrap();
        assert_eq!(block.len(), estimated);
        let footer =
            PackedFooter::decode(u32::from_le_bytes(*block.last_chunk().unwrap())).unwrap();
        assert!(footer.hash_index);
        let count_at = block.len() - 6;
        let count = u16::from_le_bytes([block[count_at], block[count_at + 1]]);
        assert_eq!(count, 133);
        let buckets = &block[count_at - usize::from(count)..count_at];
        for n in 0..100_u8 {
            let bucket = buckets[(hash32(&[n], HASH_SEED) % u32::from(count)) as usize];
            assert!(
                bucket == n || bucket == BUCKET_COLLISION,
                "{bucket} for {n}"
            );
        }
    }

    #[test]
    fn a_block_of_too_many_restarts_has_no_hash_index() {
        let mut builder = BlockBuilder::new(1, true).with_hash_index(0.75);
        let mut previous = Vec::new();
        for n in 0..255_u32 {
            let key = encode(format!("{n:03}").as_bytes(), 1, ValueType::Value);
            builder.add(&previous, &key, b"").unwrap();
            previous = key;
        }
        let block = builder.finish(false).unwrap();
        let footer =
            PackedFooter::decode(u32::from_le_bytes(*block.last_chunk().unwrap())).unwrap();
        assert!(!footer.hash_index);
        assert_eq!(footer.restart_count, 255);
    }

    proptest! {
        #[test]
        fn common_prefixes_are_as_long_as_counted(
            a in prop::collection::vec(0..2_u8, 0..40),
            b in prop::collection::vec(0..2_u8, 0..40),
        ) {
            let counted = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(common_prefix_len(&a, &b), counted);
        }
    }
}
