//! Checksums and codecs alone, on blocks of `block_size` bytes.
//!
//! The amounts are those of RocksDB's program; `--duration` ends a run earlier.

use std::hint::black_box;

use koeldb_base::checksum::{ChecksumKind, crc32c, whole_checksum, xxh3_64};
use koeldb_base::codec::{Compression, CompressionOptions, Compressor, Decompressor};

use crate::db_bench::flags::Flags;
use crate::db_bench::options;
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::tally::OpKind;
use crate::db_bench::worker::Worker;

const GIB: u64 = 1 << 30;

/// Runs the benchmark `crc32c`: computes CRC-32C checksums of blocks.
pub(crate) fn checksum_crc32c(worker: &mut Worker<'_>) -> Outcome {
    checksum(worker, OpKind::Crc, |block| crc32c(block).into())
}

/// Runs the benchmark `xxhash`: computes XXH32 checksums of blocks.
pub(crate) fn checksum_xxhash(worker: &mut Worker<'_>) -> Outcome {
    checksum(worker, OpKind::Hash, |block| {
        whole_checksum(ChecksumKind::XxHash32, block).into()
    })
}

/// Runs the benchmark `xxhash64`: computes XXH64 checksums of blocks.
pub(crate) fn checksum_xxhash64(worker: &mut Worker<'_>) -> Outcome {
    checksum(worker, OpKind::Hash, |block| {
        whole_checksum(ChecksumKind::XxHash64, block).into()
    })
}

/// Runs the benchmark `xxh3`: computes XXH3 checksums of blocks.
pub(crate) fn checksum_xxh3(worker: &mut Worker<'_>) -> Outcome {
    checksum(worker, OpKind::Hash, xxh3_64)
}

/// Measures the checksum function `sum` on 5000 MiB of blocks, or for the run's duration.
fn checksum(worker: &mut Worker<'_>, kind: OpKind, sum: fn(&[u8]) -> u64) -> Outcome {
    let block = vec![b'x'; block_bytes(worker.flags())?];
    let label = format!("({} per op)", block.len());
    worker.tally.add_message(&label);
    repeat(worker, kind, block.len(), 5000 << 20, || {
        black_box(sum(black_box(&block)));
        Ok(())
    })
}

/// Repeats `step`, an operation on `block` bytes, for `total` bytes or the run's duration.
fn repeat(
    worker: &mut Worker<'_>,
    kind: OpKind,
    block: usize,
    total: u64,
    mut step: impl FnMut() -> Outcome,
) -> Outcome {
    let block = u64::try_from(block).unwrap_or(u64::MAX);
    let mut limit = worker.limit(worker.plan().duration, total.div_ceil(block));
    let mut bytes = 0;
    while bytes < total && !limit.done(1) {
        step()?;
        bytes += block;
        worker.finished(1, kind);
    }
    worker.tally.bytes += bytes;
    Ok(())
}

/// Returns `--block_size`, which must be positive.
fn block_bytes(flags: &Flags) -> Outcome<usize> {
    match usize::try_from(flags.block_size) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(Failure::new("--block_size must be at least 1")),
    }
}

/// Prepares a compressor and a block; `None`, with a message, if the compression is unsupported.
fn prepare(worker: &mut Worker<'_>) -> Outcome<Option<(Compressor, Vec<u8>)>> {
    let flags = worker.flags();
    let bytes = block_bytes(flags)?;
    let block = worker.plan().value_source().take_bytes(bytes).to_vec();
    let options = CompressionOptions {
        level: flags.compression_level,
        ..CompressionOptions::default()
    };
    let codec = options::codec(&flags.compression_type);
    let codec = codec.filter(|&codec| codec != Compression::None && codec.is_available());
    let Some(codec) = codec else {
        worker.tally.add_message("(compression type not supported)");
        return Ok(None);
    };
    let compressor = Compressor::new(codec, &options, None);
    let compressor = compressor.map_err(|error| Failure::of("compression failure", &error))?;
    Ok(Some((compressor, block)))
}

/// Compresses `block` into `out`; returns `false` if the result exceeds `max` bytes.
fn compress_once(
    compressor: &mut Compressor,
    block: &[u8],
    max: usize,
    out: &mut Vec<u8>,
) -> Outcome<bool> {
    let made = compressor.compress(black_box(block), max, out);
    made.map_err(|error| Failure::of("compression failure", &error))
}

/// Runs the benchmark `compress`: compresses a block repeatedly.
pub(crate) fn compress(worker: &mut Worker<'_>) -> Outcome {
    let Some((mut compressor, block)) = prepare(worker)? else {
        return Ok(());
    };
    let mut out = Vec::new();
    if !compress_once(&mut compressor, &block, block.len() - 1, &mut out)? {
        let message = "(compression failure: the block does not become smaller)";
        worker.tally.add_message(message);
        return Ok(());
    }
    worker.tally.add_message(&format!(
        "(output: {:.1}%)",
        percent(out.len(), block.len())
    ));
    repeat(worker, OpKind::Compress, block.len(), 3 * GIB, || {
        compress_once(&mut compressor, &block, block.len() - 1, &mut out).map(drop)
    })
}

/// Runs the benchmark `compressreject`: compresses into an output buffer that is too small.
pub(crate) fn compress_reject(worker: &mut Worker<'_>) -> Outcome {
    let Some((mut compressor, block)) = prepare(worker)? else {
        return Ok(());
    };
    let percent_max = (worker.flags().compression_ratio - 0.1).max(0.0) * 100.0;
    let max = (1..block.len())
        .rev()
        .find(|&max| percent(max, block.len()) <= percent_max);
    let max = max.unwrap_or(1);
    worker.tally.add_message(&format!(
        "(rejected; output buffer {:.1}% of input)",
        percent(max, block.len())
    ));
    let mut out = Vec::new();
    repeat(
        worker,
        OpKind::Compress,
        block.len(),
        3 * GIB,
        || match compress_once(&mut compressor, &block, max, &mut out)? {
            false => Ok(()),
            true => Err(Failure::new(
                "Compression unexpectedly not rejected; try a smaller compression_ratio",
            )),
        },
    )
}

/// Runs the benchmark `uncompress`: decompresses a block repeatedly.
pub(crate) fn uncompress(worker: &mut Worker<'_>) -> Outcome {
    let Some((mut compressor, block)) = prepare(worker)? else {
        return Ok(());
    };
    let mut stored = Vec::new();
    if !compress_once(&mut compressor, &block, block.len() - 1, &mut stored)? {
        worker
            .tally
            .add_message("(failed to compress smaller than input)");
        return Ok(());
    }
    let decompressor = Decompressor::new(None);
    let codec = compressor.compression();
    repeat(worker, OpKind::Uncompress, block.len(), 20 * GIB, || {
        let raw = decompressor.decompress(codec, black_box(&stored), block.len());
        let raw = raw.map_err(|error| Failure::of("decompression failure", &error))?;
        black_box(raw);
        Ok(())
    })
}

#[expect(clippy::cast_precision_loss, reason = "a share is an approximation")]
fn percent(part: usize, whole: usize) -> f64 {
    part as f64 * 100.0 / whole as f64
}
