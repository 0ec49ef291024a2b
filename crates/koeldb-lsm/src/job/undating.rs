//! The memtables of a flush to an undated table: all versions of a key count as of timestamp 0.

use koeldb_base::key::{InternalKey, encode_into, pack};
use koeldb_base::timestamp::{MIN_TIMESTAMP, join_into, split};
use koeldb_base::{
    Blocking, Cursor, Error, Fault, KeyOrder, PinnedSlice, Result, SeqNo, ValueType,
};

/// A cursor that shows the versions of each key at timestamp 0, newest first; it moves forwards only.
///
/// The timestamps of a key must not fall, and the versions are then in this order already. If they
/// did fall, only the sequence numbers tell which version is the newest.
pub struct Undating<C> {
    inner: C,
    order: KeyOrder,
    /// The versions of the key that are still to be shown, the newest last.
    versions: Vec<Version>,
    /// The user key of the versions, with timestamp 0.
    user_key: Vec<u8>,
    /// The internal key that is shown.
    key: Vec<u8>,
}

/// A version of a key.
struct Version {
    seqno: SeqNo,
    value_type: ValueType,
    value: PinnedSlice,
}

impl<C: Cursor<Suspend = Blocking>> Undating<C> {
    /// Creates an unpositioned cursor over the entries of `inner`.
    #[must_use]
    pub fn new(inner: C, order: KeyOrder) -> Self {
        Undating {
            inner,
            order,
            versions: Vec::new(),
            user_key: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Takes all versions of the key at the inner cursor, and moves that to the next key.
    fn take_versions(&mut self) -> Result<()> {
        self.versions.clear();
        while self.inner.valid() {
            let entry = InternalKey::parse(self.inner.key())?;
            if self.versions.is_empty() {
                join_into(&mut self.user_key, split(entry.user_key).0, &MIN_TIMESTAMP);
            } else if !(self.order).equal_without_timestamps(entry.user_key, &self.user_key) {
                break;
            }
            self.versions.push(Version {
                seqno: entry.seqno,
                value_type: entry.value_type,
                value: self.inner.pinned_value(),
            });
            self.inner.next()?;
        }
        // Equal entries stay in their order.
        self.versions.reverse();
        (self.versions).sort_by_key(|version| pack(version.seqno, version.value_type));
        self.show();
        Ok(())
    }

    /// Shows the newest of the remaining versions, if there is one.
    fn show(&mut self) {
        if let Some(version) = self.versions.last() {
            let (seqno, value_type) = (version.seqno, version.value_type);
            encode_into(&mut self.key, &self.user_key, seqno, value_type);
        }
    }
}

/// Creates the error of a movement that a flush does not make.
#[cold]
fn only_forwards() -> Fault<Blocking> {
    Error::not_supported("the memtables of a flush are read from first to last").into()
}

impl<C: Cursor<Suspend = Blocking>> Cursor for Undating<C> {
    type Suspend = Blocking;

    fn valid(&self) -> bool {
        !self.versions.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
        self.inner.seek_to_first()?;
        Ok(self.take_versions()?)
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
        Err(only_forwards())
    }

    fn seek(&mut self, _target: &[u8]) -> Result<(), Fault<Blocking>> {
        Err(only_forwards())
    }

    fn seek_for_prev(&mut self, _target: &[u8]) -> Result<(), Fault<Blocking>> {
        Err(only_forwards())
    }

    fn next(&mut self) -> Result<(), Fault<Blocking>> {
        self.versions.pop();
        match self.versions.is_empty() {
            true => self.take_versions()?,
            false => self.show(),
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<(), Fault<Blocking>> {
        Err(only_forwards())
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn value(&self) -> &[u8] {
        self.versions.last().map_or(&[], |version| &version.value)
    }

    fn pinned_value(&self) -> PinnedSlice {
        let version = self.versions.last();
        version.map_or_else(PinnedSlice::default, |version| version.value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koeldb_base::key::encode;
    use koeldb_base::timestamp::{BytewiseComparatorWithU64Ts, join};

    /// A cursor over a list.
    struct Entries(Vec<(Vec<u8>, Vec<u8>)>);

    impl Cursor for Entries {
        type Suspend = Blocking;

        fn valid(&self) -> bool {
            !self.0.is_empty()
        }
        fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
            Ok(())
        }
        fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
            Err(only_forwards())
        }
        fn seek(&mut self, _target: &[u8]) -> Result<(), Fault<Blocking>> {
            Err(only_forwards())
        }
        fn seek_for_prev(&mut self, _target: &[u8]) -> Result<(), Fault<Blocking>> {
            Err(only_forwards())
        }
        fn next(&mut self) -> Result<(), Fault<Blocking>> {
            self.0.remove(0);
            Ok(())
        }
        fn prev(&mut self) -> Result<(), Fault<Blocking>> {
            Err(only_forwards())
        }
        fn key(&self) -> &[u8] {
            &self.0[0].0
        }
        fn value(&self) -> &[u8] {
            &self.0[0].1
        }
    }

    #[test]
    fn the_newest_write_comes_first_even_if_timestamps_fell() {
        let order = KeyOrder::new(BytewiseComparatorWithU64Ts);
        let at = |key: &str, time: u64| join(key.as_bytes(), &time.to_le_bytes());
        let entry =
            |key: &str, time, seqno| (encode(&at(key, time), seqno, ValueType::Value), vec![]);
        // Sorted by timestamp, newest first.
        let entries = vec![entry("a", 9, 3), entry("a", 4, 5), entry("b", 1, 4)];
        let mut cursor = Undating::new(Entries(entries), order);
        cursor.seek_to_first().unwrap();
        let mut seen = Vec::new();
        while cursor.valid() {
            seen.push(cursor.key().to_vec());
            cursor.next().unwrap();
        }
        let expected = [("a", 5), ("a", 3), ("b", 4)];
        let expected = expected.map(|(key, seqno)| encode(&at(key, 0), seqno, ValueType::Value));
        assert_eq!(seen, expected);
    }
}
