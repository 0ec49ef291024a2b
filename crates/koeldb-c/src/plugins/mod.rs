//! Plug-ins in C: comparators, merge operators, filters, prefix extractors, loggers, listeners, and
//! services for remote compaction.
//!
//! Each object owns the state of its callbacks ([`callbacks::State`]) behind an `Arc`, which
//! options and open databases share: the destructor of the state runs once, after the last use.

pub(crate) mod attached;
pub(crate) mod callbacks;
pub(crate) mod compaction_filter;
pub(crate) mod compaction_info;
pub(crate) mod compaction_service;
pub(crate) mod comparator;
pub(crate) mod components;
pub(crate) mod job_info;
pub(crate) mod listener;
pub(crate) mod logger;
pub(crate) mod merge_operator;
pub(crate) mod remote;
pub(crate) mod slice_transform;
pub(crate) mod table_properties;
pub(crate) mod wal_filter;
