//! Opening databases.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use super::{DBCommon, DBInner, DBWithThreadMode};
use crate::{
    ColumnFamilyDescriptor, ColumnFamilyTtl, DEFAULT_COLUMN_FAMILY_NAME, Error, Options, ThreadMode,
};

/// The mode in which a database is opened: read-write, read-only, secondary or TTL.
pub(crate) enum Access<'a> {
    ReadWrite,
    ReadOnly {
        error_if_log_file_exist: bool,
    },
    /// As a secondary, with this directory of its own.
    Secondary(&'a Path),
    /// For reading and writing, as a TTL database.
    WithTtl(Duration),
}

/// The result of opening: the engine's database and the column families opened by name.
pub(crate) struct Opened {
    pub(crate) db: koeldb::Db,
    pub(crate) families: BTreeMap<String, koeldb::ColumnFamily>,
}

/// Opens the engine's database with column families, in the mode `access`.
///
/// COMPAT: without names, the default column family has the options of the database and no handle;
/// with names, it has default options unless it is among them.
pub(crate) fn open(
    options: &Options,
    path: &Path,
    families: impl IntoIterator<Item = ColumnFamilyDescriptor>,
    access: Access<'_>,
) -> Result<Opened, Error> {
    let mut builder = koeldb::Db::builder(options.checked()?);
    let mut names = Vec::new();
    for family in families {
        let own = family.options.checked()?.cf_options().clone();
        builder.column_family((family.name.clone(), own));
        if let Access::WithTtl(db_ttl) = access {
            let ttl = match family.ttl {
                ColumnFamilyTtl::Disabled => Duration::ZERO,
                ColumnFamilyTtl::Duration(ttl) => ttl,
                ColumnFamilyTtl::SameAsDb => db_ttl,
            };
            builder.column_family_ttl(family.name.clone(), ttl);
        }
        names.push(family.name);
    }
    if !names.is_empty() && !names.iter().any(|name| name == DEFAULT_COLUMN_FAMILY_NAME) {
        let own = Options::default().inner.cf_options().clone();
        builder.column_family((DEFAULT_COLUMN_FAMILY_NAME, own));
        names.push(DEFAULT_COLUMN_FAMILY_NAME.to_owned());
    }
    match access {
        Access::ReadWrite => {}
        Access::ReadOnly {
            error_if_log_file_exist: true,
        } => {
            return Err(Error::refused(
                "error_if_log_file_exist",
                "a read-only database reads the logs; pass false",
            ));
        }
        Access::ReadOnly { .. } => {
            builder.read_only();
        }
        Access::Secondary(own) => {
            builder.secondary(own);
        }
        Access::WithTtl(ttl) => {
            builder.ttl(ttl);
        }
    }
    let db = builder.open(path)?;
    let mut families = BTreeMap::new();
    for name in names {
        let family = db
            .cf_handle(&name)
            .ok_or_else(|| Error::invalid(format_args!("Column family not found: {name}")))?;
        families.insert(name, family);
    }
    Ok(Opened { db, families })
}

/// Makes a column family descriptor with default options for each name.
pub(crate) fn named<N: AsRef<str>>(
    names: impl IntoIterator<Item = N>,
) -> impl Iterator<Item = ColumnFamilyDescriptor> {
    let descriptor = |name: N| ColumnFamilyDescriptor::new(name.as_ref(), Options::default());
    names.into_iter().map(descriptor)
}

/// Makes a column family descriptor for each pair of name and options.
fn with_options<N: AsRef<str>>(
    families: impl IntoIterator<Item = (N, Options)>,
) -> impl Iterator<Item = ColumnFamilyDescriptor> {
    let descriptor =
        |(name, options): (N, Options)| ColumnFamilyDescriptor::new(name.as_ref(), options);
    families.into_iter().map(descriptor)
}

/// Returns the given column family descriptors unchanged, for the methods that `opens!` declares.
fn described(
    families: impl IntoIterator<Item = ColumnFamilyDescriptor>,
) -> impl Iterator<Item = ColumnFamilyDescriptor> {
    families.into_iter()
}

/// Declares the methods that open a database with column families: their arguments, the function
/// that describes the column families, and the access.
macro_rules! opens {
    ($(
        $(#[doc = $doc:literal])+
        $open:ident $(<$N:ident: $Name:path>)?(
            $([$before:ident])? cfs: $Item:ty $(, $after:ident: $After:ty)?
        ) = $describe:ident, $access:expr;
    )*) => {$(
        $(#[doc = $doc])+
        pub fn $open<P, I $(, $N)?>(
            opts: &Options,
            path: P,
            $($before: P,)?
            cfs: I
            $(, $after: $After)?
        ) -> Result<Self, Error>
        where
            P: AsRef<Path>,
            I: IntoIterator<Item = $Item>,
            $($N: $Name,)?
        {
            Self::open_as(opts, path.as_ref(), $describe(cfs), $access)
        }
    )*};
}

impl<T: ThreadMode, D: DBInner> DBCommon<T, D> {
    /// Opens the engine's database in mode `access` and wraps it with its column family handles.
    fn open_as(
        options: &Options,
        path: &Path,
        families: impl IntoIterator<Item = ColumnFamilyDescriptor>,
        access: Access<'_>,
    ) -> Result<Self, Error> {
        let opened = open(options, path, families, access)?;
        Ok(DBCommon {
            families: T::new_cf_map_internal(opened.families),
            inner: D::of(opened.db),
            path: path.to_path_buf(),
            deletions_disabled: Mutex::default(),
        })
    }

    /// Opens or creates a database with default options.
    pub fn open_default<P: AsRef<Path>>(path: P) -> Result<Self, Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Self::open(&options, path)
    }

    /// Opens a database with only the default column family.
    pub fn open<P: AsRef<Path>>(opts: &Options, path: P) -> Result<Self, Error> {
        Self::open_as(opts, path.as_ref(), [], Access::ReadWrite)
    }

    opens! {
        /// Opens a database with these column families, which get **default** options.
        ///
        /// So does the default column family, unless there are no names. `open_cf_with_opts` and
        /// `open_cf_descriptors` give each its own.
        open_cf<N: AsRef<str>>(cfs: N) = named, Access::ReadWrite;
        /// Opens a database with these column families.
        open_cf_descriptors(cfs: ColumnFamilyDescriptor) = described, Access::ReadWrite;
    }
}

impl<T: ThreadMode> DBWithThreadMode<T> {
    /// Opens a database read-only, as of the moment it is opened (`OpenForReadOnly`).
    ///
    /// `error_if_log_file_exist` must be false.
    pub fn open_for_read_only<P: AsRef<Path>>(
        opts: &Options,
        path: P,
        error_if_log_file_exist: bool,
    ) -> Result<Self, Error> {
        let access = Access::ReadOnly {
            error_if_log_file_exist,
        };
        Self::open_as(opts, path.as_ref(), [], access)
    }

    /// Opens a secondary instance, which follows a database that another process may write.
    ///
    /// The secondary has a directory of its own.
    ///
    /// `try_catch_up_with_primary` moves the view forward.
    pub fn open_as_secondary<P: AsRef<Path>>(
        opts: &Options,
        primary_path: P,
        secondary_path: P,
    ) -> Result<Self, Error> {
        let access = Access::Secondary(secondary_path.as_ref());
        Self::open_as(opts, primary_path.as_ref(), [], access)
    }

    /// Opens a TTL database that has only the default column family.
    ///
    /// Compactions remove values that were written more than `ttl` ago. Until then, reads return
    /// them. Fractions of seconds are cut off; zero keeps all values.
    ///
    /// Values carry the time of their write on disk, and nothing else marks the directory: always
    /// open it with a time to live. Otherwise reads return values with the 4 bytes of the time. In
    /// a TTL database, values without a time are an error, or lose 4 bytes that look like one.
    pub fn open_with_ttl<P: AsRef<Path>>(
        opts: &Options,
        path: P,
        ttl: Duration,
    ) -> Result<Self, Error> {
        Self::open_cf_descriptors_with_ttl(opts, path, [], ttl)
    }

    opens! {
        /// Opens a database with these column families.
        open_cf_with_opts<N: AsRef<str>>(cfs: (N, Options)) = with_options, Access::ReadWrite;
        /// Like `open_with_ttl`, with these column families, **default** options and one time to
        /// live.
        open_cf_with_ttl<N: AsRef<str>>(cfs: N, ttl: Duration) = named, Access::WithTtl(ttl);
        /// Like `open_with_ttl`, with these column families, each with its own time to live.
        ///
        /// `ttl` is that of the default column family, unless it is among them, and of those with
        /// `ColumnFamilyTtl::SameAsDb`. Column families that are created later keep all values.
        open_cf_descriptors_with_ttl(cfs: ColumnFamilyDescriptor, ttl: Duration) =
            described, Access::WithTtl(ttl);
        /// Opens a database and some of its column families for reading, with default options.
        open_cf_for_read_only<N: AsRef<str>>(cfs: N, error_if_log_file_exist: bool) =
            named, Access::ReadOnly { error_if_log_file_exist };
        /// Opens a database and some of its column families for reading.
        open_cf_with_opts_for_read_only<N: AsRef<str>>(
            cfs: (N, Options), error_if_log_file_exist: bool
        ) = with_options, Access::ReadOnly { error_if_log_file_exist };
        /// Opens a database and some of its column families for reading.
        open_cf_descriptors_read_only(cfs: ColumnFamilyDescriptor, error_if_log_file_exist: bool) =
            described, Access::ReadOnly { error_if_log_file_exist };
        /// Like `open_as_secondary`, with these column families and default options.
        open_cf_as_secondary<N: AsRef<str>>([secondary_path] cfs: N) =
            named, Access::Secondary(secondary_path.as_ref());
        /// Like `open_as_secondary`, with these column families.
        open_cf_descriptors_as_secondary([secondary_path] cfs: ColumnFamilyDescriptor) =
            described, Access::Secondary(secondary_path.as_ref());
    }
}
