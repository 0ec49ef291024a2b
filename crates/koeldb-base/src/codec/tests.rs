use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;

const NO_LIMIT: usize = 1 << 24;

fn available() -> impl Iterator<Item = Compression> {
    Compression::ALL
        .into_iter()
        .filter(|codec| codec.is_available() && *codec != Compression::None)
}

fn compressor(codec: Compression, dictionary: Option<&[u8]>) -> Compressor {
    Compressor::new(codec, &CompressionOptions::default(), dictionary).unwrap()
}

fn stored(codec: Compression, raw: &[u8], dictionary: Option<&[u8]>) -> Vec<u8> {
    let mut out = b"left over".to_vec();
    assert!(
        compressor(codec, dictionary)
            .compress(raw, raw.len() * 2 + 1024, &mut out)
            .unwrap(),
        "{codec:?} of {} bytes",
        raw.len()
    );
    out
}

fn decompressor(dictionary: Option<&[u8]>) -> Decompressor {
    Decompressor::new(dictionary.map(Arc::from))
}

/// Text rows that resemble the content of a table.
fn rows(count: usize, salt: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|i| {
            format!(
                "{{\"id\":{},\"name\":\"user{}\",\"city\":\"Delft\"}}\n",
                i * 7919 + salt,
                i % 13
            )
            .into_bytes()
        })
        .collect()
}

/// A sequence of random runs and runs of one repeated byte.
fn data() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            (any::<u8>(), 0..4000_usize).prop_map(|(byte, count)| vec![byte; count]),
            (1..60_usize, 0..50_usize).prop_map(|(count, salt)| rows(count, salt)),
        ],
        0..4,
    )
    .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_codec_round_trips(raw in data(), dictionary in prop::option::of(data())) {
        for codec in available() {
            let dictionary = dictionary.as_deref();
            let stored = stored(codec, &raw, dictionary);
            let back = decompressor(dictionary).decompress(codec, &stored, NO_LIMIT).unwrap();
            prop_assert!(back == raw, "{:?}", codec);
        }
    }

    #[test]
    fn damaged_blocks_are_errors_or_values_of_the_declared_size(
        raw in data(),
        dictionary in prop::option::of(data()),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        for codec in available() {
            let dictionary = dictionary.as_deref();
            let mut stored = stored(codec, &raw, dictionary);
            for (at, value) in &flips {
                let at = at.index(stored.len());
                stored[at] ^= value;
            }
            let decompressor = decompressor(dictionary);
            for bytes in [stored.as_slice(), &stored[..cut.index(stored.len())]] {
                match decompressor.decompress(codec, bytes, 1 << 16) {
                    Ok(back) => prop_assert!(back.len() <= 1 << 16),
                    Err(error) => prop_assert!(error.is_corruption(), "{:?}: {}", codec, error),
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_a_block_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for codec in available() {
            if let Err(error) = Decompressor::default().decompress(codec, &bytes, 1 << 16) {
                prop_assert!(error.is_corruption());
            }
        }
    }
}

#[test]
fn one_compressor_writes_many_blocks() {
    let dictionary = rows(100, 0);
    for codec in available() {
        for dictionary in [None, Some(dictionary.as_slice())] {
            let mut compressor = compressor(codec, dictionary);
            let decompressor = decompressor(dictionary);
            let mut out = Vec::new();
            for salt in 0..5 {
                let raw = rows(60, salt);
                assert!(
                    compressor
                        .compress(&raw, raw.len() * 7 / 8, &mut out)
                        .unwrap()
                );
                let back = decompressor.decompress(codec, &out, NO_LIMIT).unwrap();
                assert_eq!(back, raw, "{codec:?}");
                assert!(
                    !compressor.compress(&raw, 8, &mut out).unwrap(),
                    "{codec:?}"
                );
                assert!(out.is_empty());
            }
        }
    }
}

#[test]
fn a_dictionary_makes_small_blocks_smaller() {
    let dictionary = rows(100, 0);
    let raw = rows(4, 5);
    for codec in available().filter(|codec| codec.uses_dictionary()) {
        let alone = stored(codec, &raw, None);
        let under = stored(codec, &raw, Some(&dictionary));
        assert!(under.len() < alone.len(), "{codec:?}");
        let without = Decompressor::default().decompress(codec, &under, NO_LIMIT);
        assert!(without.is_err() || without.unwrap() != raw, "{codec:?}");
    }
}

#[test]
fn nothing_is_left_as_it_is() {
    let mut out = vec![1];
    assert!(
        !compressor(Compression::None, None)
            .compress(b"abc", 100, &mut out)
            .unwrap()
    );
    assert!(out.is_empty());
    let decompressor = Decompressor::default();
    assert_eq!(
        decompressor
            .decompress(Compression::None, b"abc", 3)
            .unwrap(),
        b"abc"
    );
    assert!(
        decompressor
            .decompress(Compression::None, b"abc", 2)
            .is_err()
    );
    let error = decompressor
        .decompress(Compression::Xpress, b"abc", 9)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}

#[test]
fn declared_sizes_are_bounded_before_memory_is_taken() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
    for codec in available() {
        for max_bytes in [100, usize::MAX] {
            let stored = [&huge[..], &[0; 40]].concat();
            let error = Decompressor::default()
                .decompress(codec, &stored, max_bytes)
                .unwrap_err();
            let refused = [ErrorKind::Corruption, ErrorKind::MemoryLimit];
            assert!(refused.contains(&error.kind()), "{codec:?}: {error}");
        }
        let honest = stored(codec, &rows(40, 0), None);
        assert!(
            Decompressor::default()
                .decompress(codec, &honest, 100)
                .is_err()
        );
    }
}

/// Zeros reach the densest ratio of a zstd block, and decompression accepts it.
#[test]
#[cfg(feature = "zstd")]
fn zeros_are_as_dense_as_a_zstd_block_gets() {
    let raw = vec![0; NO_LIMIT];
    let dense = &stored(Compression::Zstd, &raw, None)[..];
    let restored = decompressor(None).decompress(Compression::Zstd, dense, NO_LIMIT);
    assert!(restored.unwrap() == raw);
    // Puts a size in front of the frame that no frame of this length can have.
    let (_, frame) = dense.split_at(4);
    let mut lying = Vec::new();
    crate::coding::put_varint32(&mut lying, u32::MAX);
    lying.extend_from_slice(frame);
    let refused = decompressor(None).decompress(Compression::Zstd, &lying, usize::MAX);
    let error = refused.unwrap_err();
    assert!(error.to_string().contains("are allowed"), "{error}");
}

#[test]
fn the_declared_size_is_exact() {
    let raw = rows(40, 0);
    for codec in available().filter(|codec| *codec != Compression::Snappy) {
        let mut stored = stored(codec, &raw, None);
        for change in [1, 0xff] {
            stored[0] = stored[0].wrapping_add(change) | 0x80;
            assert!(
                Decompressor::default()
                    .decompress(codec, &stored, NO_LIMIT)
                    .is_err(),
                "{codec:?}"
            );
            stored[0] = stored[0].wrapping_sub(change) | 0x80;
        }
        assert_eq!(
            Decompressor::default()
                .decompress(codec, &stored, NO_LIMIT)
                .unwrap(),
            raw
        );
    }
}

#[test]
fn blocks_of_megabytes_round_trip() {
    let raw = rows(60_000, 0);
    assert!(raw.len() > 2 << 20);
    for codec in available() {
        let stored = stored(codec, &raw, None);
        let back = Decompressor::default()
            .decompress(codec, &stored, NO_LIMIT)
            .unwrap();
        assert!(back == raw, "{codec:?}");
    }
}

#[cfg(feature = "zstd")]
mod streams {
    use super::*;

    #[test]
    fn records_survive_any_fragments() {
        let mut compressor = StreamCompressor::new().unwrap();
        let mut decompressor = StreamDecompressor::new().unwrap();
        for (record, fragment_bytes) in [(rows(3000, 1), 32761), (rows(10, 2), 1), (rows(1, 3), 9)]
        {
            let mut frame = Vec::new();
            compressor.compress(&record, &mut frame).unwrap();
            assert_eq!(frame[..4], [0x28, 0xb5, 0x2f, 0xfd]);
            assert_eq!(frame[4] & 4, 4, "a content checksum");
            decompressor.reset().unwrap();
            let mut back = Vec::new();
            for fragment in frame.chunks(fragment_bytes) {
                decompressor
                    .decompress(fragment, record.len(), &mut back)
                    .unwrap();
            }
            assert!(decompressor.is_complete());
            assert_eq!(back, record);
        }
    }

    #[test]
    fn an_empty_record_has_no_frame() {
        let mut frame = Vec::new();
        StreamCompressor::new()
            .unwrap()
            .compress(b"", &mut frame)
            .unwrap();
        assert!(frame.is_empty());
        let mut decompressor = StreamDecompressor::new().unwrap();
        decompressor.reset().unwrap();
        decompressor.decompress(b"", 10, &mut frame).unwrap();
        assert!(decompressor.is_complete() && frame.is_empty());
    }

    #[test]
    fn cut_damaged_long_and_trailing_frames_are_seen() {
        let record = rows(100, 1);
        let mut frame = Vec::new();
        StreamCompressor::new()
            .unwrap()
            .compress(&record, &mut frame)
            .unwrap();
        let mut decompressor = StreamDecompressor::new().unwrap();
        let mut back = Vec::new();

        decompressor
            .decompress(&frame[..frame.len() - 1], NO_LIMIT, &mut back)
            .unwrap();
        assert!(!decompressor.is_complete());

        decompressor.reset().unwrap();
        back.clear();
        assert!(
            decompressor
                .decompress(&frame, record.len() - 1, &mut back)
                .is_err()
        );

        for at in 0..frame.len() {
            decompressor.reset().unwrap();
            back.clear();
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            let result = decompressor.decompress(&damaged, NO_LIMIT, &mut back);
            assert!(
                result.is_err() || !decompressor.is_complete() || back == record,
                "byte {at}"
            );
        }

        decompressor.reset().unwrap();
        back.clear();
        frame.push(0);
        assert!(
            decompressor
                .decompress(&frame, NO_LIMIT, &mut back)
                .is_err()
        );
    }

    #[test]
    fn the_log_reads_small_windows_only() {
        // A frame header that asks for a window of 2^27 bytes, and one raw block.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3, 0x09, 0, 0, b'x'];
        let mut decompressor = StreamDecompressor::new().unwrap();
        let mut back = Vec::new();
        let error = decompressor
            .decompress(&frame, NO_LIMIT, &mut back)
            .unwrap_err();
        assert!(error.is_corruption(), "{error}");
    }

    #[test]
    fn a_trained_dictionary_serves() {
        let samples: Vec<Vec<u8>> = (0..400).map(|salt| rows(8, salt * 31)).collect();
        let lens: Vec<usize> = samples.iter().map(Vec::len).collect();
        let dictionary = train_dictionary(&samples.concat(), &lens, 4096).unwrap();
        assert!(dictionary.len() <= 4096);
        let raw = rows(8, 77);
        let under = stored(Compression::Zstd, &raw, Some(&dictionary));
        assert!(under.len() < stored(Compression::Zstd, &raw, None).len());
        let decompressor = decompressor(Some(&dictionary));
        assert_eq!(
            decompressor
                .decompress(Compression::Zstd, &under, NO_LIMIT)
                .unwrap(),
            raw
        );
        assert!(train_dictionary(b"ab", &[1, 1], 100).is_none());
    }
}

#[test]
fn a_block_that_did_not_fit_leaves_nothing_behind_for_the_next_one() {
    for codec in available() {
        let mut compressor = compressor(codec, None);
        let mut out = Vec::new();
        let mut state = 1_u64;
        for number in 0..400_usize {
            // Hardly compressible, of many lengths.
            let raw: Vec<u8> = (0..500 + number * 37 % 9000)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    u8::try_from((state >> 33) % 97).unwrap()
                })
                .collect();
            let fits = compressor.compress(&raw, raw.len() / 4, &mut out).unwrap();
            assert!(!fits, "{codec:?}, block {number}");
            if number % 199 != 198 {
                continue;
            }
            let fits = compressor.compress(&raw, NO_LIMIT, &mut out).unwrap();
            assert!(fits, "{codec:?}, block {number}");
            let found = decompressor(None)
                .decompress(codec, &out, NO_LIMIT)
                .unwrap();
            assert_eq!(found, raw, "{codec:?}, block {number}");
        }
    }
}
