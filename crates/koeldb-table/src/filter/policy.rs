//! The filter policy option, its textual form, and the algorithm it selects for a table.

use std::fmt;

use super::bloom::{cache_local_false_positive_rate, probes_for};

/// The largest effective number of bits per key, in thousandths.
const MILLIBITS_MAX: u32 = 100_000;

/// The filter policy of new tables (RocksDB: `FilterPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FilterPolicy {
    /// No filter is written; stored ones are read.
    #[default]
    None,
    /// A Bloom filter.
    Bloom {
        /// Thousandths of a bit per key; 0 writes no filter.
        millibits: u32,
    },
    /// A Ribbon filter: as accurate as a Bloom filter of the same setting and about 30 % smaller,
    /// but slower to build.
    Ribbon {
        /// Thousandths of a bit per key of a Bloom filter of the same accuracy; 0 writes no filter.
        millibits: u32,
        /// Levels below this number get a Bloom filter; a flush counts as level −1.
        bloom_before_level: i32,
    },
    /// Stored filters are read, none is written: `rocksdb.BuiltinBloomFilter`.
    ReadOnly,
}

/// The filter algorithm of one table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FilterAlgorithm {
    /// Cache-local Bloom, format version 5 and later.
    FastLocalBloom { millibits: u32 },
    /// Standard128 Ribbon, with the Bloom setting of its fallback.
    Ribbon {
        millibits: u32,
        one_in_false_positives: f64,
    },
    /// The Bloom filter of format versions before 5.
    LegacyBloom { bits_per_key: u32 },
}

impl FilterPolicy {
    /// Creates a Bloom filter policy with `bits_per_key`; below 0.5 no filter is written.
    ///
    /// Other values are limited to 1 to 100, and rounded to thousandths.
    #[must_use]
    pub fn bloom(bits_per_key: f64) -> Self {
        FilterPolicy::Bloom {
            millibits: to_millibits(bits_per_key),
        }
    }

    /// Creates a Ribbon policy with the accuracy of a Bloom filter of `bits_per_key`.
    #[must_use]
    pub fn ribbon(bits_per_key: f64, bloom_before_level: i32) -> Self {
        FilterPolicy::Ribbon {
            millibits: to_millibits(bits_per_key),
            bloom_before_level,
        }
    }

    /// Parses a filter policy in RocksDB's textual form; `None` if it is invalid.
    ///
    /// Examples are `bloomfilter:10:false`, `ribbonfilter:10:0`,
    /// `{id=ribbonfilter:10;bloom_before_level=1;}`, `nullptr`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            return Self::parse_members(inner);
        }
        if text == "nullptr" {
            return Some(FilterPolicy::None);
        }
        if text == READ_ONLY_ID {
            return Some(FilterPolicy::ReadOnly);
        }
        let mut parts = text.split(':');
        let name = parts.next()?;
        let bits: f64 = parts.next()?.parse().ok()?;
        let argument = parts.next();
        if parts.next().is_some() {
            return None;
        }
        match name {
            "bloomfilter" | "rocksdb.BloomFilter" => match argument {
                None | Some("true" | "false") => Some(Self::bloom(bits)),
                Some(_) => None,
            },
            "ribbonfilter" | "rocksdb.RibbonFilter" => {
                Some(Self::ribbon(bits, argument.unwrap_or("0").parse().ok()?))
            }
            _ => None,
        }
    }

    /// Parses a policy from the members `id` and `bloom_before_level`, separated by semicolons.
    fn parse_members(members: &str) -> Option<Self> {
        let mut policy = None;
        let mut level = None;
        for member in members.split(';').map(str::trim).filter(|m| !m.is_empty()) {
            match member.split_once('=') {
                Some(("id", id)) => policy = Some(Self::parse(id)?),
                Some(("bloom_before_level", value)) => level = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        match (policy?, level) {
            (FilterPolicy::Ribbon { millibits, .. }, Some(bloom_before_level)) => {
                Some(FilterPolicy::Ribbon {
                    millibits,
                    bloom_before_level,
                })
            }
            (policy, None) => Some(policy),
            _ => None,
        }
    }

    /// The policy's name, for the property `rocksdb.filter.policy`; empty for `FilterPolicy::None`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FilterPolicy::None => "",
            FilterPolicy::Bloom { .. } => "bloomfilter",
            FilterPolicy::Ribbon { .. } => "ribbonfilter",
            FilterPolicy::ReadOnly => READ_ONLY_ID,
        }
    }

    /// Selects the algorithm for a table of `format_version` at `level`; `None` for no filter.
    ///
    /// The level is −1 for a flush, `None` where levels are meaningless.
    pub(crate) fn algorithm(
        self,
        format_version: u32,
        level: Option<i32>,
    ) -> Option<FilterAlgorithm> {
        match self {
            FilterPolicy::None | FilterPolicy::ReadOnly => None,
            FilterPolicy::Bloom { millibits: 0 } | FilterPolicy::Ribbon { millibits: 0, .. } => {
                None
            }
            FilterPolicy::Bloom { millibits } if format_version < 5 => {
                Some(FilterAlgorithm::LegacyBloom {
                    bits_per_key: millibits.saturating_add(500) / 1000,
                })
            }
            FilterPolicy::Bloom { millibits } => {
                Some(FilterAlgorithm::FastLocalBloom { millibits })
            }
            FilterPolicy::Ribbon {
                millibits,
                bloom_before_level,
            } => {
                if level.unwrap_or(i32::MAX - 1) < bloom_before_level {
                    return Some(FilterAlgorithm::FastLocalBloom { millibits });
                }
                let rate = cache_local_false_positive_rate(
                    f64::from(millibits) / 1000.0,
                    probes_for(millibits),
                );
                Some(FilterAlgorithm::Ribbon {
                    millibits,
                    one_in_false_positives: 1.0 / rate,
                })
            }
        }
    }
}

const READ_ONLY_ID: &str = "rocksdb.BuiltinBloomFilter";

/// Converts bits per key to thousandths, with RocksDB's limits and rounding.
fn to_millibits(bits_per_key: f64) -> u32 {
    if bits_per_key < 0.5 {
        return 0;
    }
    let bits = bits_per_key.clamp(1.0, f64::from(MILLIBITS_MAX) / 1000.0);
    if bits.is_nan() {
        return MILLIBITS_MAX;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1000 and 100 000; a nudge makes three written digits exact"
    )]
    let millibits = (bits * 1000.0 + 0.500_001) as u32;
    millibits
}

/// Formats the policy as in an OPTIONS file.
impl fmt::Display for FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FilterPolicy::None => f.write_str("nullptr"),
            FilterPolicy::ReadOnly => f.write_str(READ_ONLY_ID),
            FilterPolicy::Bloom { millibits } => {
                write!(f, "bloomfilter:{}:false", Thousandths(millibits))
            }
            FilterPolicy::Ribbon {
                millibits,
                bloom_before_level: level,
            } => write!(
                f,
                "{{id=ribbonfilter:{}:{level};bloom_before_level={level};}}",
                Thousandths(millibits)
            ),
        }
    }
}

/// A number of thousandths, displayed as a decimal without trailing zeros.
struct Thousandths(u32);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / 1000)?;
        let fraction = format!("{:03}", self.0 % 1000);
        match fraction.trim_end_matches('0') {
            "" => Ok(()),
            digits => write!(f, ".{digits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_rocksdb_reads_them_and_written_as_it_writes_them() {
        for (text, written) in [
            ("bloomfilter:10", "bloomfilter:10:false"),
            ("rocksdb.BloomFilter:9.5:true", "bloomfilter:9.5:false"),
            ("bloomfilter:9.1234", "bloomfilter:9.123:false"),
            ("bloomfilter:0.7", "bloomfilter:1:false"),
            ("bloomfilter:-3", "bloomfilter:0:false"),
            ("bloomfilter:300", "bloomfilter:100:false"),
            (
                "ribbonfilter:10",
                "{id=ribbonfilter:10:0;bloom_before_level=0;}",
            ),
            (
                "{id=ribbonfilter:10:0;bloom_before_level=-1;}",
                "{id=ribbonfilter:10:-1;bloom_before_level=-1;}",
            ),
            ("rocksdb.BuiltinBloomFilter", "rocksdb.BuiltinBloomFilter"),
            ("nullptr", "nullptr"),
        ] {
            let policy = FilterPolicy::parse(text).unwrap();
            assert_eq!(policy.to_string(), written, "{text}");
            assert_eq!(FilterPolicy::parse(written), Some(policy));
        }
        for unknown in ["bloomfilter", "bloomfilter:x", "cuckoofilter:10", ""] {
            assert_eq!(FilterPolicy::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn ribbon_policies_write_bloom_filters_above_their_level() {
        let policy = FilterPolicy::ribbon(10.0, 0);
        let is_ribbon = |policy: FilterPolicy, level| {
            matches!(
                policy.algorithm(6, level),
                Some(FilterAlgorithm::Ribbon { .. })
            )
        };
        assert!(!is_ribbon(policy, Some(-1)), "a flush");
        assert!(is_ribbon(policy, Some(0)));
        assert!(is_ribbon(policy, None));
        assert!(is_ribbon(FilterPolicy::ribbon(10.0, -1), Some(-1)));
        assert!(!is_ribbon(FilterPolicy::ribbon(10.0, i32::MAX), None));
        assert_eq!(
            FilterPolicy::bloom(9.5).algorithm(4, None),
            Some(FilterAlgorithm::LegacyBloom { bits_per_key: 10 })
        );
    }
}
