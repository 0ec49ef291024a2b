//! Receiving the files of a snapshot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::fs::FileSystem;
use koeldb::fs::file::{Purpose, WriteOptions};
use koeldb::fs::small_file::create_dir_durably;
use openraft::async_runtime::AsyncRuntime;
use openraft_rt_tokio::TokioRuntime;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::frame;
use crate::encoding::{Encoding, Postcard};
use crate::snapshot::{PIECE_BYTES, SnapshotDir, SnapshotFile, describe, empty, remove_dir_all};
use crate::state::StateStore;

/// Receives snapshots into the directory of a state, one at a time.
///
/// Files are collected in `incoming/<checksum of the list>`, which survives a broken connection:
/// what is there already is not sent again. A complete one is moved away, and removed when it has
/// been installed.
pub(super) struct Receiver {
    state: StateStore,
    is_receiving: Mutex<()>,
    next: AtomicU64,
}

impl Receiver {
    pub(super) fn new(state: StateStore) -> Self {
        Receiver {
            state,
            is_receiving: Mutex::const_new(()),
            next: AtomicU64::new(0),
        }
    }

    /// Receives what is missing of a snapshot with these files.
    pub(super) async fn receive(
        &self,
        stream: &mut TcpStream,
        files: Vec<SnapshotFile>,
    ) -> io::Result<SnapshotDir> {
        let _turn = self.is_receiving.lock().await;
        let fs = Arc::clone(self.state.file_system());
        let list = Postcard::encode(&files)?;
        let incoming = self.state.path().join("incoming");
        let directory = incoming.join(format!("{:08x}", crc32c::crc32c(&list)));

        let missing = {
            let (fs, directory, files) = (Arc::clone(&fs), directory.clone(), files.clone());
            let find = move || find_missing(&*fs, &incoming, &directory, &files);
            TokioRuntime::spawn_blocking(find).await??
        };
        frame::write(stream, &Ok::<_, String>(&missing)).await?;
        for (number, file) in (0..).zip(&files) {
            if missing.contains(&number) {
                receive_file(stream, &fs, &directory, file).await?;
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let snapshots = self.state.path().join("snapshots");
        let complete = snapshots.join(format!("received-{number}"));
        remove_dir_all(&*fs, &complete)?;
        fs.rename(&directory, &complete)?;
        let snapshot = SnapshotDir::received(&fs, &complete, files);
        snapshot.supersede();
        Ok(snapshot)
    }
}

/// Returns the numbers of the files that are not complete in `directory`, and removes other ones.
fn find_missing(
    fs: &dyn FileSystem,
    incoming: &Path,
    directory: &Path,
    files: &[SnapshotFile],
) -> io::Result<Vec<u64>> {
    create_dir_durably(fs, directory)?;
    for other in fs.list(incoming)? {
        let other = incoming.join(other.name);
        if other != directory {
            remove_dir_all(fs, &other)?;
        }
    }
    let mut missing = Vec::new();
    for (number, file) in (0..).zip(files) {
        if file.name.contains(['/', '\\']) || file.name.starts_with('.') || file.name.is_empty() {
            return Err(io::Error::other(format!("{:?} is no file name", file.name)));
        }
        let is_there = describe(fs, directory, &file.name).is_ok_and(|found| found == *file);
        if !is_there {
            missing.push(number);
        }
    }
    Ok(missing)
}

async fn receive_file(
    stream: &mut TcpStream,
    fs: &Arc<dyn FileSystem>,
    directory: &Path,
    file: &SnapshotFile,
) -> io::Result<()> {
    let path: PathBuf = directory.join(&file.name);
    let mut target = fs.create(&path, &WriteOptions::new(Purpose::Checkpoint))?;
    let mut received = empty(&file.name);
    let mut buffer = vec![0; PIECE_BYTES];
    while received.bytes < file.bytes {
        let rest = usize::try_from(file.bytes - received.bytes).unwrap_or(PIECE_BYTES);
        let piece = &mut buffer[..rest.min(PIECE_BYTES)];
        let read = stream.read(piece).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        received.extend(&piece[..read]);
        target.append(&piece[..read])?;
    }
    if received != *file {
        return Err(io::Error::other(format!(
            "received {received:?}, and should have received {file:?}"
        )));
    }
    let synced = TokioRuntime::spawn_blocking(move || {
        target.sync_all()?;
        target.close()
    });
    Ok(synced.await??)
}
