//! Values that are not copied.

use std::marker::PhantomData;
use std::ops::Deref;

use koeldb::PinnedSlice;

/// A value pinned in the block cache or a memtable, read without a copy (`PinnableSlice`).
///
/// The lifetime keeps it from outliving the database, as in the original.
pub struct DBPinnableSlice<'a> {
    value: PinnedSlice,
    label: PhantomData<&'a ()>,
}

impl DBPinnableSlice<'_> {
    pub(crate) fn new(value: PinnedSlice) -> Self {
        DBPinnableSlice {
            value,
            label: PhantomData,
        }
    }
}

impl AsRef<[u8]> for DBPinnableSlice<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for DBPinnableSlice<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.value
    }
}
