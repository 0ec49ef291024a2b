//! The parameters of one benchmark: the flags, as modified by the benchmark.

use std::fmt;
use std::sync::Arc;

use koeldb::{IoPriority, ReadOptions, WriteOptions};

use super::flags::Flags;
use super::keys::{KeyBuffer, KeyLayout, ReadNumbers};
use super::values::{ValueShape, ValueSizes, Values};

/// The error that ends a run: a message for standard error; the program then exits with 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// Whether the result line of the benchmark is printed nevertheless.
    pub(crate) after_result: bool,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure {
            message: message.into(),
            after_result: false,
        }
    }

    /// Creates the failure of the operation `what`: the message is `what: error`.
    pub(crate) fn of(what: &str, error: &impl fmt::Display) -> Self {
        Failure::new(format!("{what}: {error}"))
    }
}

pub(crate) type Outcome<T = ()> = std::result::Result<T, Failure>;

/// The keys of an existing database, if these are to be used.
pub(crate) type ExistingKeys = Option<Arc<Vec<Box<[u8]>>>>;

/// The parameters of one benchmark: counts, key and value shapes, read and write options.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The number of keys of a fill: the flag, unless the benchmark reduced it.
    pub(crate) fill_keys: u64,
    /// The number of keys for everything else: always the flag.
    pub(crate) key_count: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) deletes: u64,
    pub(crate) reads_and_writes: u64,
    pub(crate) merge_keys: u64,
    pub(crate) batch: u64,
    pub(crate) stride: u64,
    pub(crate) duration: u64,
    pub(crate) layout: KeyLayout,
    pub(crate) values: ValueShape,
    pub(crate) read_options: ReadOptions,
    pub(crate) write_options: WriteOptions,
    pub(crate) seed: u64,
    pub(crate) skew: f64,
    pub(crate) sine_mix_rate: bool,
    /// Whether the benchmark varies the rates of reads and writes.
    pub(crate) varies_rates: bool,
    pub(crate) existing_keys: ExistingKeys,
}

impl Plan {
    /// Creates the parameters of a benchmark from the flags.
    ///
    /// # Errors
    ///
    /// If flags contradict each other.
    pub(crate) fn new(flags: &Flags, seed: u64, existing_keys: ExistingKeys) -> Outcome<Self> {
        let key_count = match &existing_keys {
            Some(keys) => u64::try_from(keys.len()).unwrap_or(u64::MAX),
            None => count("num", flags.num)?,
        };
        if key_count == 0 {
            return Err(Failure::new("--num must be at least 1"));
        }
        let or_num = |flag: i64| u64::try_from(flag).unwrap_or(key_count);
        let mut read_options = ReadOptions::new();
        set_read_options(&mut read_options, flags)?;
        let mut write_options = WriteOptions::new();
        write_options
            .set_sync(flags.sync)
            .disable_wal(flags.disable_wal);
        if flags.rate_limit_auto_wal_flush {
            write_options.set_rate_limiter_priority(IoPriority::User);
        }
        if flags.rate_limit_user_ops {
            read_options.set_rate_limiter_priority(IoPriority::User);
        }
        Ok(Plan {
            fill_keys: key_count,
            key_count,
            reads: or_num(flags.reads),
            writes: or_num(flags.writes),
            deletes: or_num(flags.deletes),
            reads_and_writes: match (flags.reads, flags.writes) {
                (reads, writes) if reads < 0 && writes < 0 => key_count,
                (reads, writes) => count("reads and writes", reads.max(writes))?,
            },
            merge_keys: or_num(flags.merge_keys).max(1),
            batch: count("batch_size", flags.batch_size)?.max(1),
            stride: count("multiread_stride", flags.multiread_stride)?,
            duration: count("duration", flags.duration.into())?,
            layout: key_layout(flags)?,
            values: value_shape(flags)?,
            read_options,
            write_options,
            seed,
            skew: flags.read_random_exp_range,
            sine_mix_rate: flags.sine_mix_rate,
            varies_rates: false,
            existing_keys,
        })
    }

    /// Creates an encoder for the keys of the run's key space.
    pub(crate) fn key_buffer(&self) -> KeyBuffer {
        self.key_buffer_of(self.key_count)
    }

    /// Creates an encoder for the keys of a key space of `key_count` keys.
    pub(crate) fn key_buffer_of(&self, key_count: u64) -> KeyBuffer {
        KeyBuffer::new(self.layout, key_count, self.existing_keys.clone())
    }

    /// Creates the generator of values.
    pub(crate) fn value_source(&self) -> Values {
        Values::new(self.values, self.seed)
    }

    /// Creates the generator of key numbers for random reads.
    pub(crate) fn read_numbers(&self) -> ReadNumbers {
        ReadNumbers::new(self.key_count, self.skew)
    }
}

/// Converts the value of the flag `name` to an unsigned count; fails if it is negative.
fn count(name: &str, value: i64) -> Outcome<u64> {
    u64::try_from(value).map_err(|_| Failure::new(format!("--{name} must not be negative")))
}

/// Converts the value of the size flag `name`, in bytes; fails if it is negative.
fn bytes(name: &str, value: i32) -> Outcome<u32> {
    u32::try_from(value).map_err(|_| Failure::new(format!("--{name} must not be negative")))
}

/// Builds the key layout from the flags; fails if they contradict each other.
fn key_layout(flags: &Flags) -> Outcome<KeyLayout> {
    let key_bytes = bytes("key_size", flags.key_size)?;
    let prefix_bytes = bytes("prefix_size", flags.prefix_size)?;
    if prefix_bytes > key_bytes {
        return Err(Failure::new("prefix size is larger than key size"));
    }
    if key_bytes == 0 {
        return Err(Failure::new("--key_size must be at least 1"));
    }
    let usize_of = |bytes: u32| koeldb_base::coding::to_usize(bytes.into());
    Ok(KeyLayout {
        key_bytes: usize_of(key_bytes),
        prefix_bytes: usize_of(prefix_bytes),
        keys_per_prefix: count("keys_per_prefix", flags.keys_per_prefix)?,
    })
}

/// Builds the distribution of value sizes and the compressibility from the flags.
fn value_shape(flags: &Flags) -> Outcome<ValueShape> {
    if flags.compression_ratio > 1.0 {
        return Err(Failure::new("compression_ratio should be between 0 and 1"));
    }
    let min = bytes("value_size_min", flags.value_size_min)?;
    let max = bytes("value_size_max", flags.value_size_max)?.max(min);
    Ok(ValueShape {
        sizes: match flags.value_size_distribution_type.as_str() {
            "fixed" => ValueSizes::Fixed(bytes("value_size", flags.value_size)?),
            "uniform" => ValueSizes::Uniform(min, max),
            "normal" => ValueSizes::Normal(min, max),
            other => {
                return Err(Failure::new(format!(
                    "--value_size_distribution_type is fixed, uniform or normal, not '{other}'"
                )));
            }
        },
        compression_ratio: flags.compression_ratio,
        same_value_percent: bytes("same_value_percentage", flags.same_value_percentage)?,
    })
}

/// Sets the read options that have a flag.
fn set_read_options(options: &mut ReadOptions, flags: &Flags) -> Outcome {
    options
        .set_verify_checksums(flags.verify_checksum)
        .set_total_order_seek(flags.total_order_seek)
        .set_prefix_same_as_start(flags.prefix_same_as_start)
        .set_readahead_size(bytes("readahead_size", flags.readahead_size)?.into())
        .set_adaptive_readahead(flags.adaptive_readahead)
        .set_async_io(flags.async_io)
        .set_optimize_multiget_for_io(flags.optimize_multiget_for_io)
        .set_auto_readahead_size(flags.auto_readahead_size);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(flags: &Flags) -> Outcome<Plan> {
        Plan::new(flags, 42, None)
    }

    #[test]
    fn counts_that_are_not_given_are_num() {
        let mut flags = Flags {
            num: 50,
            ..Flags::default()
        };
        let all = plan(&flags).expect("valid");
        assert_eq!(
            (all.reads, all.writes, all.deletes, all.reads_and_writes),
            (50, 50, 50, 50)
        );
        flags.reads = 7;
        let some = plan(&flags).expect("valid");
        assert_eq!((some.reads, some.writes, some.reads_and_writes), (7, 50, 7));
    }

    #[test]
    fn impossible_numbers_are_refused() {
        let bad = [
            Flags {
                num: 0,
                ..Flags::default()
            },
            Flags {
                num: -1,
                ..Flags::default()
            },
            Flags {
                key_size: 0,
                ..Flags::default()
            },
            Flags {
                prefix_size: 17,
                ..Flags::default()
            },
            Flags {
                compression_ratio: 1.5,
                ..Flags::default()
            },
        ];
        for flags in bad {
            assert!(plan(&flags).is_err());
        }
    }
}
