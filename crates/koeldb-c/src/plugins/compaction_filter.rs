//! Compaction filters of functions, and their factories.

#![expect(unsafe_code, reason = "calls functions of the caller")]

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;

use koeldb::{CompactionFilterContext, Decision};

use crate::boundary::needed;
use crate::handle::{self, Handle};
use crate::memory::{self, ToC};
use crate::settings::options::Options;

use super::callbacks::{Destructor, Name, State, given};
use super::components;

type FilterFunction = unsafe extern "C" fn(
    *mut c_void,
    i32,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
    *mut usize,
    *mut u8,
) -> u8;

type CreateFunction = unsafe extern "C" fn(
    *mut c_void,
    *mut Handle<CompactionFilterContext>,
) -> *mut Handle<CompactionFilter>;

/// A compaction filter (`rocksdb_compactionfilter_t`), which all compactions share.
#[derive(Clone)]
pub(crate) struct CompactionFilter(Arc<Functions>);

struct Functions {
    state: State,
    name: String,
    filter: Option<FilterFunction>,
}

impl koeldb::CompactionFilter for CompactionFilter {
    fn filter(&mut self, level: u32, key: &[u8], value: &[u8]) -> Decision {
        let Some(filter) = self.0.filter else {
            return Decision::Keep;
        };
        let (mut new_value, mut new_length, mut is_changed) = (ptr::null_mut(), 0, 0);
        // SAFETY: the function takes this state and bytes, as the caller promises.
        let removes = unsafe {
            filter(
                self.0.state.get(),
                level.to_c(),
                memory::pointer(key),
                key.len(),
                memory::pointer(value),
                value.len(),
                &raw mut new_value,
                &raw mut new_length,
                &raw mut is_changed,
            )
        };
        if removes != 0 {
            return Decision::Remove;
        }
        if is_changed == 0 {
            return Decision::Keep;
        }
        // SAFETY: the function has set so many bytes, which stay its own.
        let new_value = needed(unsafe { memory::bytes(new_value, new_length, "new_value") });
        Decision::Change(new_value.to_vec())
    }
}

/// A factory of filters (`rocksdb_compactionfilterfactory_t`).
#[derive(Clone)]
pub(crate) struct Factory(Arc<FactoryFunctions>);

struct FactoryFunctions {
    state: State,
    name: String,
    create: Option<CreateFunction>,
}

impl koeldb::CompactionFilterFactory for Factory {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn create(
        &self,
        context: &CompactionFilterContext,
    ) -> Option<Box<dyn koeldb::CompactionFilter>> {
        let create = self.0.create?;
        let mut context = Handle::new(context.clone());
        // SAFETY: the function takes this state and borrows the context, as the caller promises.
        let filter = unsafe { create(self.0.state.get(), &raw mut context) };
        // SAFETY: the function gives the filter away.
        let filter = unsafe { handle::take_optional(filter) }?;
        Some(Box::new(filter))
    }
}

/// A factory that hands out one filter.
struct Single(CompactionFilter);

impl koeldb::CompactionFilterFactory for Single {
    fn name(&self) -> &str {
        &self.0.0.name
    }

    fn create(&self, _: &CompactionFilterContext) -> Option<Box<dyn koeldb::CompactionFilter>> {
        Some(Box::new(self.0.clone()))
    }
}

/// The filter and the factory of options. A filter takes precedence, as in RocksDB.
#[derive(Clone, Default)]
pub(crate) struct Filters {
    single: Option<CompactionFilter>,
    factory: Option<Factory>,
}

/// Sets the filter or the factory that compactions use.
fn apply(options: &mut Options) {
    let filters = options.attached.filters.clone();
    match (filters.single, filters.factory) {
        (Some(single), _) => {
            options.inner.set_compaction_filter_factory(Single(single));
        }
        (None, Some(factory)) => {
            options.inner.set_compaction_filter_factory(factory);
        }
        (None, None) => components::remove(options, "compaction_filter_factory"),
    }
}

/// Creates a filter.
pub(crate) fn create(
    state: *mut c_void,
    destructor: Destructor,
    filter: Option<FilterFunction>,
    name: Name,
) -> *mut Handle<CompactionFilter> {
    let state = State::new(state, destructor);
    handle::give(CompactionFilter(Arc::new(Functions {
        name: state.name(name),
        state,
        filter,
    })))
}

/// Creates a factory.
pub(crate) fn create_factory(
    state: *mut c_void,
    destructor: Destructor,
    create: Option<CreateFunction>,
    name: Name,
) -> *mut Handle<Factory> {
    let state = State::new(state, destructor);
    handle::give(Factory(Arc::new(FactoryFunctions {
        name: state.name(name),
        state,
        create,
    })))
}

/// Sets the filter of options; null removes theirs.
pub(crate) fn set(options: &mut Options, filter: Option<&CompactionFilter>) {
    options.attached.filters.single = filter.cloned();
    apply(options);
}

/// Sets the factory of options; `None` removes theirs.
pub(super) fn apply_factory(options: &mut Options, factory: Option<Factory>) {
    options.attached.filters.factory = factory;
    apply(options);
}

given! {
    /// Gives options a factory; null removes theirs.
    set_factory(Options, Factory) = |options, factory| apply_factory(options, factory)
}

/// Returns whether all data of the column family takes part.
pub(crate) fn is_full(context: &CompactionFilterContext) -> bool {
    context.is_full_compaction
}

/// Returns whether a call requested the compaction.
pub(crate) fn is_manual(context: &CompactionFilterContext) -> bool {
    context.is_manual_compaction
}
