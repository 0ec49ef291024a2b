//! Hexadecimal text of bytes, in files and in LOG.

use std::fmt::Write as _;

/// Encodes `bytes` as upper-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// Decodes hexadecimal digits of either case; `None` for any other text.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pairs_of_digits_are_bytes() {
        assert_eq!(unhex("00fFa9"), Some(vec![0, 255, 0xa9]));
        assert_eq!(hex(&[0, 255, 0xa9]), "00FFA9");
        for text in ["f", "+f", "0x", "g0", "é"] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }
}
