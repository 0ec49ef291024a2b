//! Column families: descriptors and handles.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::{MultiThreaded, Options};

/// The name of the column family that every database has.
pub const DEFAULT_COLUMN_FAMILY_NAME: &str = "default";

/// A column family to open or create: its name, options and time to live.
pub struct ColumnFamilyDescriptor {
    pub(crate) name: String,
    pub(crate) options: Options,
    pub(crate) ttl: ColumnFamilyTtl,
}

impl ColumnFamilyDescriptor {
    /// Creates a descriptor with the time to live of the database, if it has one.
    pub fn new<S: Into<String>>(name: S, options: Options) -> Self {
        Self::new_with_ttl(name, options, ColumnFamilyTtl::SameAsDb)
    }

    /// Creates a descriptor with a time to live, for databases opened with one.
    pub fn new_with_ttl<S: Into<String>>(name: S, options: Options, ttl: ColumnFamilyTtl) -> Self {
        ColumnFamilyDescriptor {
            name: name.into(),
            options,
            ttl,
        }
    }

    /// Sets the time to live, for databases opened with one.
    pub fn set_ttl(&mut self, ttl: ColumnFamilyTtl) {
        self.ttl = ttl;
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time to live.
    #[must_use]
    pub fn ttl(&self) -> ColumnFamilyTtl {
        self.ttl
    }
}

/// The time to live of a column family, in a TTL database: see
/// [`open_cf_descriptors_with_ttl`](crate::DB::open_cf_descriptors_with_ttl).
#[derive(Clone, Copy, Debug, Default)]
pub enum ColumnFamilyTtl {
    /// None: values do not expire.
    #[default]
    Disabled,
    /// This time.
    Duration(Duration),
    /// That of the database.
    SameAsDb,
}

/// A column family of a single-threaded database, which lends it.
pub struct ColumnFamily {
    pub(crate) family: koeldb::ColumnFamily,
}

/// A column family of a multi-threaded database.
pub struct BoundColumnFamily<'a> {
    pub(crate) family: koeldb::ColumnFamily,
    pub(crate) label: PhantomData<&'a MultiThreaded>,
}

/// The type of `cf_handle` of [`DB`](crate::DB).
#[cfg(not(feature = "multi-threaded-cf"))]
pub type ColumnFamilyRef<'a> = &'a ColumnFamily;

/// The type of `cf_handle` of [`DB`](crate::DB).
#[cfg(feature = "multi-threaded-cf")]
pub type ColumnFamilyRef<'a> = Arc<BoundColumnFamily<'a>>;

/// The handles of column families.
///
/// The original's `inner` returns a C++ object and does not exist here.
pub trait AsColumnFamilyRef {
    #[doc(hidden)]
    fn family(&self) -> &koeldb::ColumnFamily;
}

impl AsColumnFamilyRef for ColumnFamily {
    fn family(&self) -> &koeldb::ColumnFamily {
        &self.family
    }
}

impl AsColumnFamilyRef for &'_ ColumnFamily {
    fn family(&self) -> &koeldb::ColumnFamily {
        &self.family
    }
}

impl AsColumnFamilyRef for Arc<BoundColumnFamily<'_>> {
    fn family(&self) -> &koeldb::ColumnFamily {
        &self.family
    }
}
