//! The methods of databases, transactions and snapshots, with the original's signatures.

/// Declares the methods that read `$source`, without and with options.
macro_rules! read_methods {
    () => {
        $crate::methods::read_methods! { self, self;
            readopts: &$crate::ReadOptions = &$crate::ReadOptions::DEFAULT, readopts
        }
    };
    ($self:ident, $source:expr; $readopts:ident: $Options:ty = $default:expr, $options:expr) => {
        $crate::access::read_opt_forms! { [pub] $self, $source; $readopts: $Options, $options }

        $crate::access::key_plain_forms! {
            /// Returns the value of `key`.
            get, get_opt, get_cf, get_cf_opt($self; $default) -> $crate::access::Value;
            /// Returns the value of `key` without a copy.
            get_pinned, get_pinned_opt, get_pinned_cf, get_pinned_cf_opt($self; $default)
                -> $crate::access::Pinned<'_>;
        }

        /// Reads `keys` of the default column family; returns one result per key.
        pub fn multi_get<K, I>(&$self, keys: I) -> Vec<$crate::access::Value>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = K>,
        {
            $self.multi_get_opt(keys, $default)
        }

        /// Reads the values of keys of several column families, all at one snapshot.
        pub fn multi_get_cf<'b, K, I, W>(&$self, keys: I) -> Vec<$crate::access::Value>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = (&'b W, K)>,
            W: $crate::AsColumnFamilyRef + 'b,
        {
            $self.multi_get_cf_opt(keys, $default)
        }
    };
}
pub(crate) use read_methods;

/// Declares the methods that create iterators of `$source`, which yields entries of `$D`.
macro_rules! iterator_methods {
    ($self:ident, $source:expr, $D:ty, $life:lifetime; $readopts:ident, $options:expr) => {
        /// Returns an iterator over the default column family, with a start and a direction.
        pub fn iterator(
            &$self,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<$life, $D> {
            $self.iterator_opt(mode, $crate::ReadOptions::default())
        }

        /// Returns an iterator over the default column family, with read options.
        pub fn iterator_opt(
            &$self,
            mode: $crate::IteratorMode,
            $readopts: $crate::ReadOptions,
        ) -> $crate::DBIteratorWithThreadMode<$life, $D> {
            $crate::DBIteratorWithThreadMode::new($source, None, $options, mode)
        }

        /// Returns an iterator over a column family, with a start and a direction.
        pub fn iterator_cf(
            &$self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<$life, $D> {
            $self.iterator_cf_opt(cf_handle, $crate::ReadOptions::default(), mode)
        }

        /// Returns an iterator over a column family, with read options.
        pub fn iterator_cf_opt(
            &$self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            $readopts: $crate::ReadOptions,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<$life, $D> {
            let family = Some(cf_handle.family());
            $crate::DBIteratorWithThreadMode::new($source, family, $options, mode)
        }

        /// Creates a raw iterator over the default column family, without a position.
        pub fn raw_iterator(&$self) -> $crate::DBRawIteratorWithThreadMode<$life, $D> {
            $self.raw_iterator_opt($crate::ReadOptions::default())
        }

        /// Creates a raw iterator over a column family, without a position.
        pub fn raw_iterator_cf(
            &$self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
        ) -> $crate::DBRawIteratorWithThreadMode<$life, $D> {
            $self.raw_iterator_cf_opt(cf_handle, $crate::ReadOptions::default())
        }

        /// Creates a raw iterator over the default column family, with read options.
        pub fn raw_iterator_opt(
            &$self,
            $readopts: $crate::ReadOptions,
        ) -> $crate::DBRawIteratorWithThreadMode<$life, $D> {
            $crate::DBRawIteratorWithThreadMode::new($source, None, $options)
        }

        /// Creates a raw iterator over a column family, with read options.
        pub fn raw_iterator_cf_opt(
            &$self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            $readopts: $crate::ReadOptions,
        ) -> $crate::DBRawIteratorWithThreadMode<$life, $D> {
            let family = Some(cf_handle.family());
            $crate::DBRawIteratorWithThreadMode::new($source, family, $options)
        }
    };
    () => {
        $crate::methods::iterator_methods! { self, self, Self, '_; readopts, &readopts }

        /// Returns an iterator over all prefixes (`total_order_seek`).
        pub fn full_iterator(
            &self,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<'_, Self> {
            self.iterator_opt(mode, $crate::ReadOptions::total_order())
        }

        /// Returns an iterator over all prefixes of a column family (`total_order_seek`).
        pub fn full_iterator_cf(
            &self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<'_, Self> {
            self.iterator_cf_opt(cf_handle, $crate::ReadOptions::total_order(), mode)
        }

        /// Returns an iterator from `prefix` on, with `prefix_same_as_start`.
        ///
        /// Without a prefix extractor, and for a `prefix` that differs in length from the extracted
        /// one, further keys follow: see
        /// [`ReadOptions::set_iterate_range`](crate::ReadOptions::set_iterate_range) for exact
        /// limits.
        pub fn prefix_iterator<P: AsRef<[u8]>>(
            &self,
            prefix: P,
        ) -> $crate::DBIteratorWithThreadMode<'_, Self> {
            let mode = $crate::IteratorMode::From(prefix.as_ref(), $crate::Direction::Forward);
            self.iterator_opt(mode, $crate::ReadOptions::one_prefix())
        }

        /// Returns an iterator from `prefix` on in a column family, with `prefix_same_as_start`.
        pub fn prefix_iterator_cf<P: AsRef<[u8]>>(
            &self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            prefix: P,
        ) -> $crate::DBIteratorWithThreadMode<'_, Self> {
            let mode = $crate::IteratorMode::From(prefix.as_ref(), $crate::Direction::Forward);
            self.iterator_cf_opt(cf_handle, $crate::ReadOptions::one_prefix(), mode)
        }
    };
}
pub(crate) use iterator_methods;

/// Declares the four forms of a verb that writes.
macro_rules! write_forms {
    ($self:ident: $db:expr; $($(#[doc = $doc:literal])+
        $verb:ident($($argument:ident: $kind:ident),+),
        $plain:ident, $plain_opt:ident, $cf:ident, $cf_opt:ident;)*) => {$(
        $(#[doc = $doc])+
        pub fn $plain<$($kind: AsRef<[u8]>),+>(
            &$self,
            $($argument: $kind),+
        ) -> Result<(), $crate::Error> {
            Ok($db.default_cf().$verb($($argument,)+ &koeldb::WriteOptions::new())?)
        }

        #[doc = concat!("Like `", stringify!($plain), "`, with options.")]
        pub fn $plain_opt<$($kind: AsRef<[u8]>),+>(
            &$self,
            $($argument: $kind,)+
            writeopts: &$crate::WriteOptions,
        ) -> Result<(), $crate::Error> {
            Ok($db.default_cf().$verb($($argument,)+ &writeopts.inner)?)
        }

        #[doc = concat!("Like `", stringify!($plain), "`, in a column family.")]
        pub fn $cf<$($kind: AsRef<[u8]>),+>(
            &$self,
            cf: &impl $crate::AsColumnFamilyRef,
            $($argument: $kind),+
        ) -> Result<(), $crate::Error> {
            Ok(cf.family().$verb($($argument,)+ &koeldb::WriteOptions::new())?)
        }

        #[doc = concat!("Like `", stringify!($plain), "`, in a column family, with options.")]
        pub fn $cf_opt<$($kind: AsRef<[u8]>),+>(
            &$self,
            cf: &impl $crate::AsColumnFamilyRef,
            $($argument: $kind,)+
            writeopts: &$crate::WriteOptions,
        ) -> Result<(), $crate::Error> {
            Ok(cf.family().$verb($($argument,)+ &writeopts.inner)?)
        }
    )*};
}
pub(crate) use write_forms;

/// Declares a method of the default column family, and its form for another one.
macro_rules! family_forms {
    ($self:ident, $family:ident; $(
        $(#[doc = $doc:literal])+
        $plain:ident, $cf:ident $(<$($G:ident: $Bound:path),+>)?($($argument:ident: $type:ty),*)
            $(-> $Value:ty)? { $run:expr }
    )*) => {$(
        $(#[doc = $doc])+
        pub fn $plain$(<$($G: $Bound),+>)?(&$self, $($argument: $type),*) $(-> $Value)? {
            let $family = $self.db().default_cf();
            $run
        }

        #[doc = concat!("Like `", stringify!($plain), "`, in a column family.")]
        pub fn $cf$(<$($G: $Bound),+>)?(
            &$self,
            cf: &impl $crate::AsColumnFamilyRef,
            $($argument: $type),*
        ) $(-> $Value)? {
            let $family = cf.family();
            $run
        }
    )*};
}
pub(crate) use family_forms;

/// Declares the methods on directories and flushes.
macro_rules! flush_methods {
    () => {
        /// Lists the names of the column families of the database at `path`, which may be open.
        pub fn list_cf<P: AsRef<std::path::Path>>(
            opts: &$crate::Options,
            path: P,
        ) -> Result<Vec<String>, $crate::Error> {
            Ok(koeldb::Db::list_cf(opts.checked()?, path)?)
        }

        /// Deletes the files of the database at `path`, which must be closed (`DestroyDB`).
        pub fn destroy<P: AsRef<std::path::Path>>(
            opts: &$crate::Options,
            path: P,
        ) -> Result<(), $crate::Error> {
            Ok(koeldb::Db::destroy(opts.checked()?, path)?)
        }

        /// Rebuilds the MANIFEST of the database at `path` from its SST and WAL files (`RepairDB`).
        pub fn repair<P: AsRef<std::path::Path>>(
            opts: &$crate::Options,
            path: P,
        ) -> Result<(), $crate::Error> {
            koeldb::Db::repair(opts.checked()?, path)?;
            Ok(())
        }

        /// Returns the directory of the database.
        pub fn path(&self) -> &std::path::Path {
            &self.path
        }

        /// Writes the buffered WAL to the operating system, and syncs it if `sync` (`FlushWAL`).
        pub fn flush_wal(&self, sync: bool) -> Result<(), $crate::Error> {
            Ok(self.db().flush_wal(sync)?)
        }

        $crate::methods::family_forms! { self, family;
            /// Flushes the **default** column family.
            flush, flush_cf() -> Result<(), $crate::Error> { Ok(family.flush()?) }

            /// Flushes the **default** column family, with options.
            flush_opt, flush_cf_opt(flushopts: &$crate::FlushOptions) -> Result<(), $crate::Error> {
                Ok(family.flush_opt(&flushopts.inner)?)
            }
        }

        /// Flushes the memtables of several column families.
        pub fn flush_cfs_opt(
            &self,
            cfs: &[&impl $crate::AsColumnFamilyRef],
            opts: &$crate::FlushOptions,
        ) -> Result<(), $crate::Error> {
            let families = cfs.iter().map(|cf| cf.family());
            Ok(self.db().flush_cfs(families, &opts.inner)?)
        }

        /// Takes a snapshot of the latest state.
        pub fn snapshot(&self) -> $crate::SnapshotWithThreadMode<'_, Self> {
            $crate::SnapshotWithThreadMode::new(self)
        }
    };
}
pub(crate) use flush_methods;

/// Declares the writes of batches.
macro_rules! batch_methods {
    ($Batch:ty) => {
        /// Writes a batch atomically, with default write options.
        pub fn write(&self, batch: $Batch) -> Result<(), $crate::Error> {
            self.write_opt(batch, &$crate::WriteOptions::default())
        }

        /// Writes a batch atomically, with write options.
        pub fn write_opt(
            &self,
            batch: $Batch,
            writeopts: &$crate::WriteOptions,
        ) -> Result<(), $crate::Error> {
            Ok(self.db().write_opt(batch.checked()?, &writeopts.inner)?)
        }
    };
}
pub(crate) use batch_methods;

/// Declares the writes that locks of keys do not permit.
macro_rules! unlocked_methods {
    ($Batch:ty) => {
        /// Writes a batch without the WAL; it is durable only after its memtables are flushed.
        pub fn write_without_wal(&self, batch: $Batch) -> Result<(), $crate::Error> {
            let mut options = $crate::WriteOptions::new();
            options.disable_wal(true);
            self.write_opt(batch, &options)
        }

        /// Adds a range deletion of `from..to` in a column family.
        ///
        /// Optimistic transactions do not see it as a conflict.
        pub fn delete_range_cf<K: AsRef<[u8]>>(
            &self,
            cf: &impl $crate::AsColumnFamilyRef,
            from: K,
            to: K,
        ) -> Result<(), $crate::Error> {
            Ok(cf.family().delete_range(from, to)?)
        }

        /// Adds a range deletion of `from..to` in a column family, with write options.
        pub fn delete_range_cf_opt<K: AsRef<[u8]>>(
            &self,
            cf: &impl $crate::AsColumnFamilyRef,
            from: K,
            to: K,
            writeopts: &$crate::WriteOptions,
        ) -> Result<(), $crate::Error> {
            Ok(cf.family().delete_range_opt(from, to, &writeopts.inner)?)
        }
    };
}
pub(crate) use unlocked_methods;

/// Declares `put`, `merge` and `delete`.
macro_rules! write_methods {
    ($self:ident: $db:expr) => {
        $crate::methods::write_forms! { $self: $db;
            /// Sets the value of `key`.
            put_opt(key: K, value: V), put, put_opt, put_cf, put_cf_opt;
            /// Adds a merge operand to `key`; fails without a merge operator.
            merge_opt(key: K, value: V), merge, merge_opt, merge_cf, merge_cf_opt;
            /// Deletes `key`, which need not exist.
            delete_opt(key: K), delete, delete_opt, delete_cf, delete_cf_opt;
        }
    };
}
pub(crate) use write_methods;
