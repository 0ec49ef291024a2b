//! Column families: descriptors and handles.

mod thread_mode;

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koeldb::ConfigOptions;

use crate::options::Cache;
use crate::{Env, Error, Options};

pub use thread_mode::{MultiThreaded, SingleThreaded, ThreadMode};

/// The name of the column family that every database has.
pub const DEFAULT_COLUMN_FAMILY_NAME: &str = "default";

/// The name, options and time to live (TTL) of a column family to open or create.
pub struct ColumnFamilyDescriptor {
    pub(crate) name: String,
    pub(crate) options: Options,
    pub(crate) ttl: ColumnFamilyTtl,
}

impl ColumnFamilyDescriptor {
    /// Creates a descriptor with the TTL of the database, if that has one (`SameAsDb`).
    pub fn new<S: Into<String>>(name: S, options: Options) -> Self {
        Self::new_with_ttl(name, options, ColumnFamilyTtl::SameAsDb)
    }

    /// Creates a descriptor with a TTL, for databases opened with one.
    pub fn new_with_ttl<S: Into<String>>(name: S, options: Options, ttl: ColumnFamilyTtl) -> Self {
        ColumnFamilyDescriptor {
            name: name.into(),
            options,
            ttl,
        }
    }

    /// Sets the TTL of the column family, for databases opened with a TTL.
    pub fn set_ttl(&mut self, ttl: ColumnFamilyTtl) {
        self.ttl = ttl;
    }

    /// Returns the name of the column family.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the TTL of the column family.
    #[must_use]
    pub fn ttl(&self) -> ColumnFamilyTtl {
        self.ttl
    }
}

/// The time to live (TTL) of a column family in a TTL database.
///
/// See [`open_cf_descriptors_with_ttl`](crate::DB::open_cf_descriptors_with_ttl).
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

/// A column family handle of a single-threaded database, which hands it out by reference.
pub struct ColumnFamily {
    pub(crate) family: koeldb::ColumnFamily,
}

/// A reference-counted column family handle of a multi-threaded database.
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

/// A column family handle, of a single-threaded or a multi-threaded database.
///
/// The original's `inner` returns a C++ object and does not exist here.
pub trait AsColumnFamilyRef {
    /// Returns the engine's column family.
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

impl Options {
    /// Loads options and column family descriptors from the latest OPTIONS file of the database.
    ///
    /// `cache` becomes the block cache of all column families. The file has no times to live: those
    /// of the descriptors are disabled.
    pub fn load_latest<P: AsRef<Path>>(
        path: P,
        env: Env,
        ignore_unknown_options: bool,
        cache: Cache,
    ) -> Result<(Options, Vec<ColumnFamilyDescriptor>), Error> {
        let mut how = ConfigOptions::new();
        how.set_ignore_unknown_options(ignore_unknown_options);
        // As in the original: the caller sets comparators and other objects of its own again.
        how.set_ignore_unsupported_options(true);
        let loaded = koeldb::Options::load_latest_in(&env.inner, path, &how)?;
        let mut options = Options::of_engine(loaded.options);
        options.set_env(&env);
        options.use_cache(&cache);
        let families = loaded.column_families.into_iter().map(|(name, family)| {
            let mut inner = koeldb::Options::new();
            *inner.cf_options_mut() = family;
            let mut options = Options::of_engine(inner);
            options.use_cache(&cache);
            ColumnFamilyDescriptor::new_with_ttl(name, options, ColumnFamilyTtl::Disabled)
        });
        Ok((options, families.collect()))
    }
}
