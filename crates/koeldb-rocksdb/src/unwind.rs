//! Types that may cross `catch_unwind`, as those of some release of the original.
//!
//! The engine's state is consistent after a panic: a plug-in that panics fails its operation.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::backup::{BackupEngine, BackupEngineOptions, RestoreOptions};
use crate::checkpoint::{Checkpoint, TransactionDBCheckpoint};
use crate::db::DBInner;
use crate::perf::MemoryUsageBuilder;
use crate::{
    BoundColumnFamily, ColumnFamily, ColumnFamilyDescriptor, DBAccess, DBCommon,
    DBIteratorWithThreadMode, DBPinnableSlice, DBRawIteratorWithThreadMode, DBWALIterator, Env,
    InfoLogger, Options, ReadOptions, SingleThreaded, SnapshotWithThreadMode, SstFileWriter,
    ThreadMode, Transaction, TransactionDB,
};

macro_rules! unwind_safe {
    ($($({$($generics:tt)*})? $Type:ty;)*) => {$(
        impl $(<$($generics)*>)? UnwindSafe for $Type {}
        impl $(<$($generics)*>)? RefUnwindSafe for $Type {}
    )*};
}

unwind_safe! {
    BackupEngine;
    BackupEngineOptions;
    BoundColumnFamily<'_>;
    Checkpoint<'_>;
    ColumnFamily;
    ColumnFamilyDescriptor;
    {T: ThreadMode, D: DBInner} DBCommon<T, D>;
    DBPinnableSlice<'_>;
    {D: DBAccess} DBIteratorWithThreadMode<'_, D>;
    {D: DBAccess} DBRawIteratorWithThreadMode<'_, D>;
    DBWALIterator;
    Env;
    InfoLogger;
    Options;
    MemoryUsageBuilder<'_>;
    ReadOptions;
    RestoreOptions;
    SingleThreaded;
    {D: DBAccess} SnapshotWithThreadMode<'_, D>;
    SstFileWriter<'_>;
    {DB} Transaction<'_, DB>;
    {T: ThreadMode} TransactionDB<T>;
    TransactionDBCheckpoint<'_>;
}
