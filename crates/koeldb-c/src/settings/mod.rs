//! Settings: options, caches, environments and other objects that options refer to.

pub(crate) mod option_text;
pub(crate) mod options;
pub(crate) mod read;
