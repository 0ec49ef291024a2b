//! Receiving the files of a snapshot.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use koeldb::fs::FileSystem;
use koeldb::fs::file::{Purpose, WriteOptions};
use koeldb::fs::small_file::{create_dir_durably, remove_dir_all};
use tokio::sync::{Mutex, MutexGuard};
use tonic::Streaming;

use super::send::{IDLE_MAX, within};
use super::wire::status_error;
use crate::encoding::{Encoding, Postcard};
use crate::snapshot::{SnapshotDir, SnapshotFile, describe, empty};
use crate::state::StateStore;

/// The receiver of snapshots from the leader; receives one at a time, resumable file by file.
///
/// Files are collected in `incoming/<checksum of the list>`, which survives a broken connection:
/// what is there already is not sent again. A complete one is moved away, and removed when it has
/// been installed.
pub(super) struct Receiver {
    state: StateStore,
    is_receiving: Mutex<()>,
    next: AtomicU64,
}

/// A snapshot that is being received.
pub(super) struct Transfer<'a> {
    receiver: &'a Receiver,
    files: Vec<SnapshotFile>,
    directory: PathBuf,
    /// The numbers of the files that the sender must send, in this order.
    pub(super) missing: Vec<u64>,
    _turn: MutexGuard<'a, ()>,
}

impl Receiver {
    pub(super) fn new(state: StateStore) -> Self {
        Receiver {
            state,
            is_receiving: Mutex::const_new(()),
            next: AtomicU64::new(0),
        }
    }

    /// Finds out which of these files are missing.
    pub(super) async fn begin(&self, files: Vec<SnapshotFile>) -> io::Result<Transfer<'_>> {
        // A sender that gave up may still be noticed as such.
        let turn = async { Ok(self.is_receiving.lock().await) };
        let turn = within(IDLE_MAX, turn).await?;
        check_names(&files)?;
        let fs = Arc::clone(self.state.file_system());
        let list = Postcard::encode(&files)?;
        let incoming = self.state.path().join("incoming");
        let directory = incoming.join(format!("{:08x}", crc32c::crc32c(&list)));
        let missing = {
            let (directory, files) = (directory.clone(), files.clone());
            let find = move || find_missing(&*fs, &incoming, &directory, &files);
            tokio::task::spawn_blocking(find).await??
        };
        Ok(Transfer {
            receiver: self,
            files,
            directory,
            missing,
            _turn: turn,
        })
    }
}

impl Transfer<'_> {
    /// Receives the missing files from `pieces`, and returns the complete snapshot.
    pub(super) async fn receive(self, pieces: &mut Streaming<Bytes>) -> io::Result<SnapshotDir> {
        let state = &self.receiver.state;
        let fs = state.file_system();
        for (number, file) in (0..).zip(&self.files) {
            if self.missing.contains(&number) {
                receive_file(pieces, fs, &self.directory, file).await?;
            }
        }
        let number = self.receiver.next.fetch_add(1, Ordering::Relaxed);
        let complete = state.path().join("snapshots");
        let complete = complete.join(format!("received-{number}"));
        remove_dir_all(&**fs, &complete)?;
        fs.rename(&self.directory, &complete)?;
        let snapshot = SnapshotDir::received(fs, &complete, self.files);
        snapshot.supersede();
        Ok(snapshot)
    }
}

/// The suffix of the name of a file that is not yet complete and durable.
const PART: &str = ".part";

/// Fails unless the names are distinct plain file names, without directories or leading dots.
fn check_names(files: &[SnapshotFile]) -> io::Result<()> {
    let mut names = HashSet::new();
    for name in files.iter().map(|file| file.name.as_str()) {
        let is_name = !name.is_empty()
            && !name.contains(['/', '\\', ':'])
            && !name.starts_with('.')
            && !name.ends_with(PART);
        if !is_name || !names.insert(name) {
            return Err(io::Error::other(format!(
                "{name:?} is no file name, or that of two files"
            )));
        }
    }
    Ok(())
}

/// Returns the indices in `files` of those that `directory` lacks or has with another checksum.
///
/// Removes other directories in `incoming`, and incomplete files.
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
    for part in fs.list(directory)? {
        if part.name.ends_with(PART) {
            fs.remove_file(&directory.join(part.name))?;
        }
    }
    let mut missing = Vec::new();
    for (number, file) in (0..).zip(files) {
        let is_there = describe(fs, directory, &file.name).is_ok_and(|found| found == *file);
        if !is_there {
            missing.push(number);
        }
    }
    Ok(missing)
}

/// Receives one file as `.part`, checks its size and CRC-32C, syncs it, and renames it.
async fn receive_file(
    pieces: &mut Streaming<Bytes>,
    fs: &Arc<dyn FileSystem>,
    directory: &Path,
    file: &SnapshotFile,
) -> io::Result<()> {
    let path: PathBuf = directory.join(&file.name);
    let part = directory.join(format!("{}{PART}", file.name));
    let mut target = fs.create(&part, &WriteOptions::new(Purpose::Checkpoint))?;
    let mut received = empty(&file.name);
    while received.bytes < file.bytes {
        let next = async {
            let piece = pieces.message().await;
            piece.map_err(|status| status_error(&status))
        };
        let piece = within(IDLE_MAX, next).await?;
        let piece = piece.ok_or(io::ErrorKind::UnexpectedEof)?;
        if piece.is_empty() || piece.len() as u64 > file.bytes - received.bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "a piece of {} bytes of a file of which {} are left",
                    piece.len(),
                    file.bytes - received.bytes
                ),
            ));
        }
        received.extend(&piece);
        target.append(&piece)?;
    }
    if received != *file {
        return Err(io::Error::other(format!(
            "received {received:?}, and should have received {file:?}"
        )));
    }
    let fs = Arc::clone(fs);
    let synced = tokio::task::spawn_blocking(move || {
        target.sync_all()?;
        target.close()?;
        fs.rename(&part, &path)
    });
    Ok(synced.await??)
}

#[cfg(test)]
mod tests {
    use koeldb::fs::MemoryFileSystem;
    use koeldb::fs::small_file::write_atomically;

    use super::*;

    #[test]
    fn names_leave_no_directory_and_name_one_file() {
        assert!(check_names(&[empty("1.sst"), empty("CURRENT")]).is_ok());
        for name in ["", "..", "a/b", "a\\b", "c:b", "1.sst.part"] {
            assert!(check_names(&[empty(name)]).is_err(), "{name}");
        }
        assert!(check_names(&[empty("1.sst"), empty("1.sst")]).is_err());
    }

    #[test]
    fn a_file_counts_as_received_once_it_has_its_name() {
        let fs = MemoryFileSystem::new();
        let (incoming, directory) = (Path::new("/incoming"), Path::new("/incoming/list"));
        create_dir_durably(&fs, directory).unwrap();
        let mut files = ["a", "b"].map(empty);
        for (file, name) in files.iter_mut().zip(["a", "b.part"]) {
            file.extend(b"bytes");
            let (from, to) = (directory.join("x"), directory.join(name));
            write_atomically(&fs, &from, &to, b"bytes", Purpose::Other).unwrap();
        }
        let missing = find_missing(&fs, incoming, directory, &files).unwrap();
        assert_eq!(missing, [1]);
        assert_eq!(fs.list(directory).unwrap().len(), 1);
    }
}
