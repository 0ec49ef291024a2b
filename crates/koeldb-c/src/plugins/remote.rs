//! The worker of a remote compaction.

#![expect(unsafe_code, reason = "shares a flag and objects with the caller")]

use std::ffi::CStr;
use std::sync::Arc;

use koeldb::Db;

use crate::boundary::{Failure, needed};
use crate::data::cancel_flag::{self, CancelFlag};
use crate::memory::path;
use crate::settings::option_text::Named;
use crate::settings::options::Options;

use super::callbacks::given;
use super::compaction_filter::{self, CompactionFilter, Factory};
use super::comparator::{self, Comparator};
use super::components::{self, ChecksumFactory, CollectorFactory, PartitionerFactory};
use super::listener::{self, Listener};
use super::logger::{self, Logger};
use super::merge_operator::{self, MergeOperator};
use super::slice_transform::{self, SliceTransform};

/// The options that a worker sets itself (`rocksdb_compaction_service_options_override_t`).
///
/// The engine takes the environment, listeners, comparator, merge operator, filters and prefix
/// extractor from it; all else comes from the primary.
#[derive(Default)]
pub(crate) struct Override(Options);

impl Override {
    /// Copies the objects of options; null without them.
    pub(crate) fn of(options: Option<&Options>) -> Option<Self> {
        options.cloned().map(Override)
    }

    pub(crate) fn set_comparator(&mut self, comparator: Option<&Comparator>) {
        if let Some(comparator) = comparator {
            comparator::set(&mut self.0, comparator);
        }
    }

    pub(crate) fn set_compaction_filter(&mut self, filter: Option<&CompactionFilter>) {
        if filter.is_some() {
            compaction_filter::set(&mut self.0, filter);
        }
    }

    /// Sets the environment of the files of the job and of its database.
    pub(crate) fn set_env(&mut self, env: Option<&koeldb::Env>) {
        crate::settings::objects::set_env(&mut self.0, env);
    }

    pub(crate) fn set_logger(&mut self, logger: Option<&Logger>) {
        logger::set(&mut self.0, logger);
    }

    /// Sets an option by its name; a value that is refused fails the compaction.
    pub(crate) fn set_option(&mut self, name: Option<&CStr>, value: Option<&CStr>) {
        if let (Some(name), Some(value)) = (name, value) {
            self.0
                .set_text(&name.to_string_lossy(), &value.to_string_lossy());
        }
    }

    pub(crate) fn set_checksum_generator(&mut self, factory: Option<&ChecksumFactory>) {
        components::set_checksum_generator(&mut self.0, factory);
    }

    pub(crate) fn set_partitioner(&mut self, factory: Option<&PartitionerFactory>) {
        components::set_partitioner(&mut self.0, factory);
    }

    pub(crate) fn add_collector(&mut self, factory: Option<&CollectorFactory>) {
        components::add_collector(&mut self.0, factory);
    }
}

given! {
    /// Gives a merge operator; null changes nothing.
    set_merge_operator(Override, MergeOperator) = |target, operator| if operator.is_some() {
        merge_operator::apply(&mut target.0, operator);
    }
}

given! {
    /// Gives a factory of compaction filters; null changes nothing.
    set_filter_factory(Override, Factory) = |target, factory| if factory.is_some() {
        compaction_filter::apply_factory(&mut target.0, factory);
    }
}

given! {
    /// Gives a prefix extractor; null changes nothing.
    set_prefix_extractor(Override, SliceTransform) = |target, extractor| if extractor.is_some() {
        slice_transform::apply(&mut target.0, extractor);
    }
}

given! {
    /// Gives a listener; null adds none.
    add_listener(Override, Listener) = |target, listener| listener::apply(&mut target.0, listener)
}

/// Options of the call that runs a job (`rocksdb_open_and_compact_options_t`).
#[derive(Default)]
pub(crate) struct CallOptions {
    canceled: Option<Arc<CancelFlag>>,
    allow_resumption: bool,
}

impl CallOptions {
    /// Sets whether a call resumes an earlier one. Without effect: the engine begins each job anew.
    pub(crate) fn set_allow_resumption(&mut self, on: bool) {
        self.allow_resumption = on;
    }

    pub(crate) fn allow_resumption(&self) -> bool {
        self.allow_resumption
    }

    /// Fails if the job is cancelled.
    fn check(&self) -> Result<(), Failure> {
        match &self.canceled {
            Some(flag) if flag.token().is_canceled() => Err(Failure::Text(
                "Result incomplete: Manual compaction paused".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

/// Sets the flag that cancels the job; null for none.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn set_canceled(options: *mut crate::handle::Handle<CallOptions>, flag: *mut u8) {
    // SAFETY: promised by the caller.
    let options = needed(unsafe { crate::handle::exclusive(options, "options") });
    // SAFETY: promised by the caller.
    options.canceled = unsafe { cancel_flag::share(flag) };
}

/// Runs the job of a primary, and returns the message for it.
pub(crate) fn open_and_compact(
    db_path: &CStr,
    output_directory: &CStr,
    input: &[u8],
    overrides: &Override,
) -> Result<Option<Vec<u8>>, Failure> {
    let options = overrides.0.checked()?;
    let directory = path(output_directory);
    let result = Db::open_and_compact(options, path(db_path), directory, input)?;
    Ok(Some(result))
}

/// Runs the job of a primary unless it is cancelled.
///
/// If the flag is set during the job, the call fails at its end.
pub(crate) fn open_and_compact_with(
    options: &CallOptions,
    db_path: &CStr,
    output_directory: &CStr,
    input: &[u8],
    overrides: &Override,
) -> Result<Option<Vec<u8>>, Failure> {
    options.check()?;
    let result = open_and_compact(db_path, output_directory, input, overrides)?;
    options.check()?;
    Ok(result)
}
