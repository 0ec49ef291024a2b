//! Conversion between bytes and hexadecimal text, and escapes of XML.

/// Parses hexadecimal text, with or without the prefix `0x`.
///
/// # Errors
///
/// A sentence if it is not hexadecimal or has an odd number of digits.
pub(crate) fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text)
        .as_bytes();
    if !digits.len().is_multiple_of(2) {
        return Err(format!("'{text}' has an odd number of hexadecimal digits"));
    }
    let digit = |byte: u8| {
        let value = char::from(byte)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok());
        value.ok_or_else(|| format!("'{text}' is not hexadecimal"))
    };
    digits
        .chunks_exact(2)
        .map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

/// Formats bytes in upper-case hexadecimal, like RocksDB's tools.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Escapes a text for the contents of an XML or HTML element.
pub(crate) fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_both_ways() {
        assert_eq!(parse_hex("0x00fF10"), Ok(vec![0, 0xff, 0x10]));
        assert_eq!(parse_hex(""), Ok(vec![]));
        assert_eq!(hex(&[0, 0xff, 0x10]), "00FF10");
        assert!(parse_hex("0x123").is_err() && parse_hex("0xzz").is_err());
    }
}
