//! Frames: a length and a message.

use std::future::Future;
use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::encoding::{Encoding, Postcard};

/// The largest message. A batch of entries is far below.
const FRAME_BYTES_MAX: u32 = 256 << 20;

/// Serializes a message and writes it to the stream as one frame.
pub(super) async fn write<T: Serialize>(stream: &mut TcpStream, message: &T) -> io::Result<()> {
    let mut frame = Postcard::write(message, vec![0; 4])?;
    let bytes = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    if bytes > FRAME_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a message of {bytes} bytes"),
        ));
    }
    frame[..4].copy_from_slice(&bytes.to_le_bytes());
    stream.write_all(&frame).await
}

/// Reads a frame and deserializes the message; `None` if the peer has closed the connection.
pub(super) async fn read<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<Option<T>> {
    let sized = read_sized(stream).await?;
    Ok(sized.map(|(message, _)| message))
}

/// Reads a message and returns it with its size in bytes; `None` if the peer has closed.
pub(super) async fn read_sized<T: DeserializeOwned>(
    stream: &mut TcpStream,
) -> io::Result<Option<(T, u32)>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let bytes = u32::from_le_bytes(length);
    if bytes > FRAME_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {bytes} bytes"),
        ));
    }
    // The buffer grows with what arrives, not with what is announced.
    let mut message = Vec::new();
    let mut announced = stream.take(u64::from(bytes));
    if announced.read_to_end(&mut message).await? < usize::try_from(bytes).unwrap_or(usize::MAX) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((Postcard::read(&message)?, bytes)))
}

/// The longest time without progress in the transfer of a snapshot: a peer may vanish without a word.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(10);

/// Awaits `step`; fails with `TimedOut` if it takes longer than `limit`.
pub(super) async fn within<T>(
    limit: Duration,
    step: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match tokio::time::timeout(limit, step).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Sends a message and reads the answer; fails if the peer closes the connection.
pub(super) async fn call<T: Serialize, R: DeserializeOwned>(
    stream: &mut TcpStream,
    message: &T,
) -> io::Result<R> {
    write(stream, message).await?;
    let answer = read(stream).await?;
    answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
