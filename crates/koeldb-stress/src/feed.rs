//! The change feed of a thread, compared with the writes of the thread to its own keys.

use std::collections::BTreeMap;
use std::ops::Range;

use koeldb::{BatchEntry, Columns, ErrorKind, TailOptions, UpdateIterator, WriteBatch};

use crate::worker::{Life, key, number_of};

/// A change feed over the WAL, with the values of one thread's keys after the batches read so far.
pub(crate) struct Feed {
    updates: UpdateIterator,
    /// By the id of the column family and the number of the key; deleted keys are absent.
    values: BTreeMap<(u32, u64), Vec<u8>>,
}

/// Returns a key of a batch without its timestamp, if it has one: all keys have one length.
fn undated(of_batch: &[u8]) -> &[u8] {
    of_batch.get(..key(0).len()).unwrap_or(of_batch)
}

impl Feed {
    /// Applies a write batch to the values; puts only if their keys are in `own`.
    fn apply(&mut self, batch: &WriteBatch, own: &Range<u64>) -> koeldb::Result<()> {
        for entry in batch.iter() {
            match entry? {
                BatchEntry::Put { cf, key, value }
                | BatchEntry::Merge {
                    cf,
                    key,
                    operand: value,
                } => {
                    let number = number_of(undated(key));
                    if let Some(number) = number.filter(|number| own.contains(number)) {
                        self.values.insert((cf, number), value.to_vec());
                    }
                }
                BatchEntry::PutEntity { cf, key, entity } => {
                    if let Some(number) = number_of(key).filter(|number| own.contains(number)) {
                        let value = Columns::of_entity(entity)?.default_value().to_vec();
                        self.values.insert((cf, number), value);
                    }
                }
                BatchEntry::Delete { cf, key } | BatchEntry::SingleDelete { cf, key } => {
                    if let Some(number) = number_of(undated(key)) {
                        self.values.remove(&(cf, number));
                    }
                }
                BatchEntry::DeleteRange { cf, from, to } => {
                    let (from, to) = (undated(from), undated(to));
                    self.values.retain(|(family, number), _| {
                        *family != cf || !(from..to).contains(&&*key(*number))
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Life {
    /// Opens the change feed, or reads it to its end and checks the values of the thread's keys.
    ///
    /// Keys whose last version was not logged are left out.
    pub(crate) fn follow(&self, thread: u64, feed: &mut Option<Feed>) -> Result<bool, String> {
        let own = self.own(thread);
        let Some(current) = feed else {
            *feed = self.begin_feed(thread)?;
            return Ok(true);
        };
        // Records may wait for it in the buffer of the log.
        let flushed = self.db.flush_wal(false);
        if flushed.is_err() {
            *feed = None;
            return self.tolerate(flushed);
        }
        while let Some(update) = current.updates.next() {
            let applied = update.and_then(|update| current.apply(&update.batch, &own));
            if applied.is_err() {
                *feed = None;
                return self.tolerate(applied);
            }
        }
        for family in &self.families {
            for number in own.clone() {
                if self.expected.is_unlogged(number) {
                    continue;
                }
                let shown = current.values.get(&(family.id(), number));
                if shown != self.expected.acknowledged(number).value(number).as_ref() {
                    return Err(format!(
                        "the feed up to {} has {:?} for key {number} of {:?}: {}",
                        current.updates.next_sequence_number(),
                        shown.map(|value| String::from_utf8_lossy(value)),
                        family.name(),
                        self.expected.describe(number)
                    ));
                }
            }
        }
        Ok(true)
    }

    /// Opens a change feed after the latest write; `None` if its WAL is gone or a fault occurred.
    fn begin_feed(&self, thread: u64) -> Result<Option<Feed>, String> {
        let mut how = TailOptions::new();
        how.set_strict(false);
        let first = self.db.latest_sequence_number() + 1;
        let updates = match self.db.get_updates_since_opt(first, &how) {
            Ok(updates) => updates,
            // Other threads may have written, and a flush may have removed the log, since.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return self.tolerate(Err(error)).map(|_| None),
        };
        let mut values = BTreeMap::new();
        for family in &self.families {
            for (number, version) in self.own(thread).zip(self.versions_of(thread)) {
                let value = version.value(number);
                values.extend(value.map(|value| ((family.id(), number), value)));
            }
        }
        Ok(Some(Feed { updates, values }))
    }
}
