//! Sending the files of a snapshot.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use openraft::raft::SnapshotResponse;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::network::Client;
use super::wire::{decode, status_error};
use crate::snapshot::{PIECE_BYTES, SnapshotDir, SnapshotFile};

/// The longest time without progress in the transfer of a snapshot.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(10);

/// The number of pieces of a snapshot that wait to be sent.
const PIECES: usize = 4;

/// Returns the timeout for an answer about a snapshot of `bytes` bytes: grows with its size.
fn patience(bytes: u64) -> Duration {
    IDLE_MAX + Duration::from_secs(bytes >> 22)
}

/// Offers a snapshot to a node, sends the files that it lacks, and returns its response.
pub(super) async fn send_snapshot(
    client: &mut Client,
    offer: Bytes,
    snapshot: &SnapshotDir,
    files: &[SnapshotFile],
) -> io::Result<SnapshotResponse<u64>> {
    let patience = patience(files.iter().map(|file| file.bytes).sum());
    let (pieces, queue) = mpsc::channel(PIECES);
    send(&pieces, offer).await?;
    let called = async {
        let called = client.snapshot(ReceiverStream::new(queue)).await;
        called.map_err(|status| status_error(&status))
    };
    let mut answers = within(IDLE_MAX, called).await?.into_inner();
    let missing: Vec<u64> = within(patience, next(&mut answers)).await?;
    for (number, file) in (0..).zip(files) {
        if missing.contains(&number) {
            send_file(&pieces, snapshot, file).await?;
        }
    }
    within(patience, next(&mut answers)).await
}

/// Queues a piece; fails if none was taken for a while, or the call has ended.
async fn send(pieces: &mpsc::Sender<Bytes>, piece: Bytes) -> io::Result<()> {
    let sending = async {
        let sent = pieces.send(piece).await;
        sent.map_err(|_| io::ErrorKind::ConnectionReset.into())
    };
    within(IDLE_MAX, sending).await
}

/// Sends a file in pieces.
async fn send_file(
    pieces: &mpsc::Sender<Bytes>,
    snapshot: &SnapshotDir,
    file: &SnapshotFile,
) -> io::Result<()> {
    let source = snapshot.open(&file.name)?;
    let mut offset = 0;
    while offset < file.bytes {
        let rest = usize::try_from(file.bytes - offset).unwrap_or(PIECE_BYTES);
        let mut piece = vec![0; rest.min(PIECE_BYTES)];
        let read = source.read_at(offset, &mut piece)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        piece.truncate(read);
        offset += read as u64;
        send(pieces, piece.into()).await?;
    }
    Ok(())
}

/// Reads an answer of the receiver.
async fn next<T: DeserializeOwned>(answers: &mut Streaming<Bytes>) -> io::Result<T> {
    match answers.message().await {
        Ok(Some(answer)) => decode(&answer),
        Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(status) => Err(status_error(&status)),
    }
}

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
