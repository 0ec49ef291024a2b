//! The order and the prefixes of RocksDict's directories, by their names there.

use std::cmp::Ordering;

use koeldb::{Comparator, PrefixExtractor};

/// The first byte of an integer's key.
const INTEGER: u8 = 3;

/// `rocksdict`: integers by their value, all other keys by their bytes.
///
/// An integer's key is the byte 3 and the number in two's complement, the most significant byte
/// first, in as few bytes as it needs. Keys of one number in more bytes are ordered by their
/// length, so that equal keys have equal bytes.
pub(crate) struct TypedOrder;

impl TypedOrder {
    pub(crate) const NAME: &'static str = "rocksdict";
}

/// Compares two numbers in two's complement, the most significant byte first; without a byte it is
/// 0.
fn compare_numbers(a: &[u8], b: &[u8]) -> Ordering {
    let is_negative = |number: &[u8]| number.first().is_some_and(|byte| byte & 0x80 != 0);
    match (is_negative(a), is_negative(b)) {
        (true, false) => return Ordering::Less,
        (false, true) => return Ordering::Greater,
        _ => {}
    }
    let fill = if is_negative(a) { 0xff } else { 0 };
    let padding = |own: usize, other: usize| std::iter::repeat_n(fill, other.saturating_sub(own));
    let wide = |number: &[u8], other: &[u8]| padding(number.len(), other.len());
    wide(a, b)
        .chain(a.iter().copied())
        .cmp(wide(b, a).chain(b.iter().copied()))
}

impl Comparator for TypedOrder {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match (a, b) {
            ([INTEGER, a @ ..], [INTEGER, b @ ..]) if a.len() == b.len() => {
                // Of one length only the first byte has a sign.
                let sign = |number: &[u8]| number.first().map(|byte| byte ^ 0x80);
                sign(a).cmp(&sign(b)).then_with(|| a.cmp(b))
            }
            ([INTEGER, a @ ..], [INTEGER, b @ ..]) => {
                compare_numbers(a, b).then(a.len().cmp(&b.len()))
            }
            _ => a.cmp(b),
        }
    }

    fn permits_hashes(&self) -> bool {
        // Equal keys have equal bytes.
        true
    }
}

/// `max_len`: the first bytes of a key, or all of a shorter one. The name has no length.
pub(crate) struct MaxLenPrefix(pub(crate) usize);

impl MaxLenPrefix {
    /// Reads the text of an option: `max_len:8`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let length = text.strip_prefix("max_len:")?.parse().ok()?;
        (length > 0).then_some(MaxLenPrefix(length))
    }
}

impl PrefixExtractor for MaxLenPrefix {
    fn name(&self) -> &str {
        "max_len"
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        Some(&key[..self.0.min(key.len())])
    }

    fn is_leading(&self, prefix: &[u8]) -> bool {
        prefix.len() == self.0
    }
}
