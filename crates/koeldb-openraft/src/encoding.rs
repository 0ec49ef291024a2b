//! The bytes of entries, votes and positions.

use koeldb::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A serialization format for the entries, votes and log ids that Raft log and state store keep.
///
/// Each stored value begins with [`Encoding::FORMAT`], so that a change of the encoding is noticed.
pub trait Encoding: Send + Sync + 'static {
    /// The first byte of each value.
    const FORMAT: u8;

    /// Serializes `value` without the format byte and returns `out` with the bytes appended.
    ///
    /// # Errors
    /// If the value has no representation.
    fn write<T: Serialize>(value: &T, out: Vec<u8>) -> Result<Vec<u8>>;

    /// Deserializes a value that takes up all of `bytes`, which have no format byte.
    ///
    /// # Errors
    /// `Corruption` if they are no such value.
    fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T>;

    /// Serializes `value` with the format byte [`Encoding::FORMAT`] in front.
    ///
    /// # Errors
    /// See [`Encoding::write`].
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
        Self::write(value, vec![Self::FORMAT])
    }

    /// Deserializes bytes that [`Encoding::encode`] wrote, and checks the format byte.
    ///
    /// # Errors
    /// `Corruption` if the format byte is another one; see [`Encoding::read`].
    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
        match bytes.split_first() {
            Some((&format, rest)) if format == Self::FORMAT => Self::read(rest),
            first => Err(Error::corruption(format!(
                "a Raft value begins with {:?}, not with format {}",
                first.map(|(format, _)| format),
                Self::FORMAT
            ))),
        }
    }
}

/// The default encoding: [postcard](https://docs.rs/postcard), whose format is stable.
#[derive(Clone, Copy, Debug, Default)]
pub struct Postcard;

impl Encoding for Postcard {
    const FORMAT: u8 = 1;

    fn write<T: Serialize>(value: &T, out: Vec<u8>) -> Result<Vec<u8>> {
        postcard::to_extend(value, out)
            .map_err(|error| Error::new(ErrorKind::InvalidArgument, error))
    }

    fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => Err(Error::corruption(format!(
                "{} bytes behind a Raft value",
                rest.len()
            ))),
            Err(error) => Err(Error::new(ErrorKind::Corruption, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_values_are_corruptions() {
        let bytes = Postcard::encode(&(7_u64, "koel")).unwrap();
        let read: (u64, String) = Postcard::decode(&bytes).unwrap();
        assert_eq!(read, (7, "koel".to_owned()));
        let mut long = bytes.clone();
        long.push(0);
        let mut other = bytes.clone();
        other[0] = 9;
        for damaged in [&long, &other, &bytes[..3].to_vec(), &Vec::new()] {
            let result: Result<(u64, String)> = Postcard::decode(damaged);
            assert!(result.unwrap_err().is_corruption());
        }
    }
}
