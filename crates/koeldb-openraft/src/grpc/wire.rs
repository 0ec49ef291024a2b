//! How messages travel: as bytes that [`Postcard`] encoded.

use std::io;

use bytes::{Buf, BufMut, Bytes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::encoding::{Encoding, Postcard};

/// The size in bytes of the largest message. A batch of entries is far below.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// The size in bytes of the largest request of a client. Entries travel between nodes in messages of
/// limited size.
pub(crate) const REQUEST_BYTES_MAX: usize = 32 << 20;

/// The codec of the services: it takes and gives bytes as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opaque;

impl Codec for Opaque {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Opaque
    }

    fn decoder(&mut self) -> Self {
        Opaque
    }
}

impl Encoder for Opaque {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, target: &mut EncodeBuf<'_>) -> Result<(), Status> {
        target.put(message);
        Ok(())
    }
}

impl Decoder for Opaque {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}

/// Serializes a message.
pub(super) fn encode<T: Serialize>(message: &T) -> io::Result<Bytes> {
    let bytes = Postcard::encode(message)?;
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a message of {} bytes; {MESSAGE_BYTES_MAX} are allowed",
                bytes.len()
            ),
        ));
    }
    Ok(bytes.into())
}

/// Deserializes a message.
pub(super) fn decode<T: DeserializeOwned>(message: &Bytes) -> io::Result<T> {
    Ok(Postcard::decode(message)?)
}

/// The status of a call that a node could not carry out, with the error's text.
pub(super) fn failed(error: impl std::fmt::Display) -> Status {
    Status::unknown(error.to_string())
}

/// The error of a call whose answer was this status.
pub(super) fn status_error(status: &Status) -> io::Error {
    let kind = match status.code() {
        tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => {
            io::ErrorKind::PermissionDenied
        }
        tonic::Code::InvalidArgument | tonic::Code::OutOfRange => io::ErrorKind::InvalidInput,
        tonic::Code::Unimplemented => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, status.message().to_owned())
}
