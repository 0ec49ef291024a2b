//! The change feed: the batches of the write-ahead log, in order, from a sequence number on.
//!
//! - `logs`: the logs of the database and of the archive.
//!
//! An iterator pins its log and all later ones, so that no update is lost between two calls. It
//! shows only batches that readers can see. At the end of the open log it waits for nothing: the
//! next call goes on where the last one ended, also in later logs.
//!
//! A prepared transaction appears where it is committed. Every log repeats the sections of undecided
//! transactions, and the feed reads a log from its beginning: it meets a section before its commit.

pub(crate) mod logs;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_base::stats::Ticker;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_log::{Problem, RecordReader};

use self::logs::{
    ArchivedLog, Start, gone, live_logs, log_reader, log_with, next_log_reader, open_log,
};
use crate::api::db::Db;
use crate::batch::{HEADER_BYTES, WriteBatch, header};
use crate::commit::protocol::CommitPipeline;
use crate::commit::two_phase::{self, Piece, Section};
use crate::tree::Tree;
use crate::wal::WalSet;

/// A guard that keeps a log and all later ones in place.
struct LogPin {
    wals: Arc<WalSet>,
    tree: Arc<Tree>,
    number: FileNumber,
}

impl LogPin {
    fn new(commit: &CommitPipeline, number: FileNumber) -> Self {
        commit.wals.pinned.pin(number);
        LogPin {
            wals: Arc::clone(&commit.wals),
            tree: Arc::clone(&commit.tree),
            number,
        }
    }
}

impl Drop for LogPin {
    fn drop(&mut self) {
        self.wals.pinned.unpin(self.number);
        self.tree.remove_after_holds();
    }
}

/// A write batch from the write-ahead log with its sequence number (RocksDB: `BatchResult`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpdateBatch {
    /// The sequence number of the first operation of the batch; the others follow.
    pub sequence_number: SeqNo,
    /// The operations of the batch.
    pub batch: WriteBatch,
}

impl UpdateBatch {
    /// Returns the sequence number of the last operation.
    fn last(&self) -> SeqNo {
        self.sequence_number + SeqNo::from(self.batch.count()) - 1
    }
}

/// Options of an [`UpdateIterator`] over the batches of the write-ahead log.
#[derive(Clone, Copy, Debug)]
pub struct TailOptions {
    strict: bool,
    begins_later: bool,
}

impl Default for TailOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl TailOptions {
    /// Creates the defaults: a gap of sequence numbers is an error.
    #[must_use]
    pub const fn new() -> Self {
        TailOptions {
            strict: true,
            begins_later: false,
        }
    }

    /// Sets whether a gap of sequence numbers that are in no log is an error; on by default.
    ///
    /// The error is reported once. When off, gaps are skipped silently.
    ///
    /// Such sequence numbers are of ingested files, of writes with the log disabled, or of prepared
    /// transactions whose commit took effect in a resume because its log had failed.
    pub fn set_strict(&mut self, strict: bool) -> &mut Self {
        self.strict = strict;
        self
    }

    /// Sets whether the iterator may begin after the sequence number; off by default.
    ///
    /// When on, it begins with the first batch at or after the number that is in a log, as in RocksDB,
    /// even if earlier batches were removed with their logs. The caller must compare the sequence
    /// number of the first batch. When off, a removed log is an error.
    pub fn set_begins_later(&mut self, begins_later: bool) -> &mut Self {
        self.begins_later = begins_later;
        self
    }
}

/// An iterator over the write-ahead log from a sequence number (`TransactionLogIterator`).
///
/// `None` means that all visible batches were returned; a later call goes on. After an error of kind
/// `Incomplete`, which reports a gap of sequence numbers, the next call goes on behind it.
///
/// The operations of a prepared transaction come with the batch that commits it, with its sequence
/// numbers. Transactions that are undecided or rolled back never appear.
pub struct UpdateIterator {
    db: Db,
    pin: LogPin,
    reader: RecordReader,
    /// Whether no more records will be appended to the log of the reader.
    is_whole: bool,
    /// Whether the log was read again after its last record, without finding another one.
    is_reread: bool,
    /// The sequence number after the last record that was read of the log, if each of its
    /// operations took one.
    read_to: SeqNo,
    /// The sequence number after the last operation of the reader's log, if it is archived.
    end: Option<SeqNo>,
    /// The archived logs after it, oldest first.
    archived: VecDeque<ArchivedLog>,
    /// A batch that was read, but not returned yet.
    held: Option<UpdateBatch>,
    /// The prepared sections read so far that are undecided, by name.
    sections: BTreeMap<Box<[u8]>, Section>,
    next_seqno: SeqNo,
    strict: bool,
    /// Whether the next batch may begin anywhere after `next_seqno`.
    begins_later: bool,
}

impl Db {
    /// Returns the batches from `seqno` on, from the write-ahead log (RocksDB's `GetUpdatesSince`).
    ///
    /// With `WAL_ttl_seconds` or `WAL_size_limit_MB`, obsolete logs stay in an archive, which is read
    /// too: a replica can go on after an interruption or a restart. The archive is read back to the
    /// logs of the previous open, as long as each log names its predecessor; not beyond a recovery
    /// that dropped records.
    ///
    /// The first one is the batch that contains `seqno`, or the next. The iterator keeps its log
    /// and later ones in place, and the database open. The batches of
    /// [`latest_sequence_number`](Db::latest_sequence_number)` + 1` are those of later writes.
    ///
    /// ```
    /// # fn main() -> koeldb::Result<()> {
    /// let db = koeldb::Db::temporary()?;
    /// let copy = koeldb::Db::temporary()?;
    /// let next = db.latest_sequence_number() + 1;
    /// db.put("koel", "Eudynamys")?;
    /// for update in db.get_updates_since(next)? {
    ///     copy.write(&update?.batch)?;
    /// }
    /// assert_eq!(copy.get("koel")?.as_deref(), Some(&b"Eudynamys"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if the log of `seqno` is gone, so that a copy must begin with a checkpoint, or if
    /// `seqno` is later than the next write; errors of the file system.
    pub fn get_updates_since(&self, seqno: SeqNo) -> Result<UpdateIterator> {
        self.get_updates_since_opt(seqno, &TailOptions::new())
    }

    /// Like [`Db::get_updates_since`], with `options`.
    ///
    /// # Errors
    /// See [`Db::get_updates_since`]. With [`TailOptions::set_begins_later`] a removed log is no error.
    pub fn get_updates_since_opt(
        &self,
        seqno: SeqNo,
        options: &TailOptions,
    ) -> Result<UpdateIterator> {
        let inner = self.inner();
        inner.health.check_open()?;
        inner.context.count(Ticker::GetUpdatesSinceCalls, 1);
        let wanted = seqno.max(1);
        let latest = inner.visibility.seqno();
        if wanted > latest + 1 {
            return Err(Error::with_kind(
                ErrorKind::NotFound,
                format!("sequence number {wanted} is not written yet: the latest is {latest}"),
            ));
        }
        // Until the log is found, all of them are kept.
        let all = LogPin::new(&inner.commit, 0);
        let Start {
            number,
            reader,
            end,
            archived,
        } = log_with(&inner.commit, wanted, options.begins_later)?;
        let pin = LogPin::new(&inner.commit, number);
        drop(all);
        Ok(UpdateIterator {
            db: self.clone(),
            pin,
            reader,
            is_whole: false,
            is_reread: false,
            read_to: 0,
            end,
            archived,
            held: None,
            sections: BTreeMap::new(),
            next_seqno: wanted,
            strict: options.strict,
            begins_later: options.begins_later,
        })
    }
}

impl UpdateIterator {
    /// The sequence number of the next operation, as far as it is known.
    #[must_use]
    pub fn next_sequence_number(&self) -> SeqNo {
        self.next_seqno
    }

    /// Reads the next batch of the log that ends at or after the wanted sequence number.
    fn read(&mut self) -> Result<Option<UpdateBatch>> {
        loop {
            let Some(record) = self.reader.next_record()? else {
                // A record that is being written may look like damage.
                if self.is_whole
                    && let Some(problem) = self.damage()
                {
                    return Err(problem.to_error(&**self.reader.file()));
                }
                match self.go_on()? {
                    true => continue,
                    false => return Ok(None),
                }
            };
            self.is_reread = false;
            let (first, _) = header(record)?;
            let families = &self.db.inner().commit.families;
            let batch = applied(record, &mut self.sections, |cf| families.has_timestamps(cf))?;
            // The operations before took fewer numbers than one each.
            if first < self.read_to && !batch.is_empty() {
                return Err(shared_seqnos_error());
            }
            self.read_to = first + SeqNo::from(batch.count());
            if batch.is_empty() || first + SeqNo::from(batch.count()) <= self.next_seqno {
                continue;
            }
            return Ok(Some(UpdateBatch {
                sequence_number: first,
                batch,
            }));
        }
    }

    /// Returns the corruption at which the read of a complete log ended, if there is any.
    fn damage(&mut self) -> Option<Problem> {
        let pinned = &self.db.inner().wals.pinned;
        // The end of an archived log is known, and a failed write may have left a part of a record.
        let may_be_torn = self.end.is_some() || pinned.was_abandoned(self.pin.number);
        let torn = self.reader.tolerated_tail().filter(|_| !may_be_torn);
        let torn = torn.cloned();
        self.reader.take_problem().or(torn)
    }

    /// At the end of a log, prepares to read new records of it or the next log; `false` if none.
    fn go_on(&mut self) -> Result<bool> {
        let inner = Arc::clone(self.db.inner());
        let next = match self.archived.front() {
            Some(log) => Some(log.number),
            None => {
                let mut later = live_logs(&inner.commit).into_iter();
                later.find(|&number| number > self.pin.number)
            }
        };
        if let (Some(next), true) = (next, self.is_whole) {
            if let Some(end) = self.end.filter(|end| *end != self.read_to) {
                return Err(gone(format!(
                    "the archived log {:06} ends before {}, and the next one begins at {end}",
                    self.pin.number, self.read_to
                )));
            }
            self.reader = next_log_reader(&inner.context, next)?;
            self.end = self.archived.pop_front().map(|log| log.end);
            self.read_to = 0;
            self.pin = LogPin::new(&inner.commit, next);
            self.is_whole = false;
            self.is_reread = false;
            return Ok(true);
        }
        // With a later log, this one is not written any more: from here on all of it is there.
        self.is_whole = next.is_some();
        let file = open_log(&inner.context, self.pin.number)?;
        let has_more = file.len() > self.reader.last_record().end;
        let has_grown = file.len() > self.reader.file().len();
        // A recycled log has new records without growing.
        let was_reread = std::mem::take(&mut self.is_reread);
        if !has_more || !(has_grown || self.is_whole || !was_reread) {
            return Ok(self.is_whole);
        }
        self.is_reread = true;
        if self.reader.last_record().is_empty() {
            self.reader = log_reader(&inner.context, self.pin.number)?;
        } else {
            self.reader.resume(file)?;
        }
        Ok(true)
    }

    /// Returns the next batch of the requested range; `None` at the end of the published writes.
    fn advance(&mut self) -> Result<Option<UpdateBatch>> {
        loop {
            let update = match self.held.take() {
                Some(held) => held,
                None => match self.read()? {
                    Some(update) => update,
                    None => return Ok(None),
                },
            };
            let inner = self.db.inner();
            let first = update.sequence_number;
            // Later batches may publish the numbers of an abandoned one, at once or never: those
            // published are read first, and compared only if it is not abandoned.
            let visible = inner.visibility.seqno();
            if inner.wals.pinned.is_abandoned(self.pin.number, first) {
                continue;
            }
            if update.last() > visible {
                self.held = Some(update);
                return Ok(None);
            }
            let expected = self.next_seqno;
            if first > expected {
                self.next_seqno = first;
                if self.strict && !self.begins_later {
                    self.held = Some(update);
                    return Err(Error::with_kind(
                        ErrorKind::Incomplete,
                        format!(
                            "sequence numbers {expected} to {} are in no log: of ingested files, of \
                             writes with the log disabled, or of commits in a failed log",
                            first - 1
                        ),
                    ));
                }
            }
            self.next_seqno = update.last() + 1;
            self.begins_later = false;
            return Ok(Some(update));
        }
    }
}

/// Returns the error for a log whose operations share sequence numbers (WritePrepared).
fn shared_seqnos_error() -> Error {
    Error::not_supported(
        "the log has batches whose operations share a sequence number, as of transactions under the \
         write policy write-prepared: start over from a checkpoint",
    )
}

/// Returns the operations that a log record applies, with the prepared sections it commits.
///
/// Sections that it prepares are added to `sections`, and decided ones removed.
///
/// # Errors
/// `Incomplete` if the section of a commit was not read; `NotSupported` if sections are applied at
/// their position.
fn applied(
    record: &[u8],
    sections: &mut BTreeMap<Box<[u8]>, Section>,
    has_timestamps: impl Fn(u32) -> bool,
) -> Result<WriteBatch> {
    let pieces = two_phase::pieces(record)?;
    if pieces.has_applied() {
        return Err(shared_seqnos_error());
    }
    if matches!(pieces.list[..], [] | [Piece::Plain(..)]) {
        return WriteBatch::from_data(record);
    }
    let mut data = record[..HEADER_BYTES].to_vec();
    let mut total = 0_u32;
    let mut missing = None;
    for piece in pieces.list {
        match piece {
            // Its operations would share numbers.
            Piece::Applied(..) => {}
            Piece::Plain(records, count) => {
                data.extend_from_slice(records);
                total += count;
            }
            Piece::Prepare(section) => {
                sections.insert(section.name.clone(), section);
            }
            Piece::Commit(name, timestamp) => match sections.remove(name) {
                Some(section) => {
                    let records = section.records_at(timestamp, &has_timestamps)?;
                    data.extend_from_slice(&records);
                    total += section.count;
                }
                None => missing = missing.or(Some(name)),
            },
            Piece::Rollback(name) => {
                sections.remove(name);
            }
        }
    }
    if let Some(name) = missing {
        return Err(Error::with_kind(
            ErrorKind::Incomplete,
            format!(
                "transaction '{}' is committed, but the log that prepared it was removed: start over \
                 from a checkpoint",
                name.escape_ascii()
            ),
        ));
    }
    data[8..HEADER_BYTES].copy_from_slice(&total.to_le_bytes());
    WriteBatch::from_data(data)
}

impl Iterator for UpdateIterator {
    type Item = Result<UpdateBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

impl fmt::Debug for UpdateIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpdateIterator(from {})", self.next_seqno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use koeldb_fs::{Clock, MemoryFileSystem, SystemClock};

    use crate::env::Env;
    use crate::options::Options;

    #[test]
    fn a_log_that_becomes_obsolete_is_always_in_a_list() {
        let env = Env::new(Arc::new(MemoryFileSystem::new()), Arc::new(SystemClock));
        let mut options = Options::new();
        options.create_if_missing(true).set_env(&env);
        let db = Db::open(&options, "/db").unwrap();
        let other = db.create_cf("other", &db.default_cf().options()).unwrap();
        let _pin = LogPin::new(&db.inner().commit, 0);
        db.put("a", "1").unwrap();
        other.put("b", "1").unwrap();
        other.flush().unwrap();
        let closed = db.inner().wals.closed();
        assert_eq!(closed.len(), 1, "the default column family needs it");
        // The log cannot become a pinned one yet, and must be a closed one until then.
        let held = db.inner().wals.pinned.hold();
        std::thread::scope(|scope| {
            let wals = &db.inner().wals;
            let removal = scope.spawn(|| wals.remove_before(closed[0].0 + 1));
            let (seen, sees) = channel();
            scope.spawn(move || {
                while seen.send(wals.closed().len()).is_ok() {
                    SystemClock.sleep(Duration::from_millis(1));
                }
            });
            let until = SystemClock.now() + Duration::from_millis(200);
            let left = || until.saturating_sub(SystemClock.now());
            let mut is_lost = false;
            while let Ok(count) = sees.recv_timeout(left()) {
                is_lost |= count == 0;
            }
            drop((held, sees));
            removal.join().unwrap();
            assert!(!is_lost, "the log is in no list");
        });
        assert_eq!(db.inner().wals.pinned.logs(), closed);
    }
}
