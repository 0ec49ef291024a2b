//! An open database: its parts put together, and what it does with several of them.
//!
//! [`inner`] owns the parts. Beside it stand the operations that need several: properties, the
//! reaction to failures ([`resume`]), periodic reports, timers, and the part that follows a primary
//! ([`secondary`]).

pub(crate) mod alarm;
pub(crate) mod inner;
pub(crate) mod maintenance;
pub(crate) mod periodic_reports;
pub(crate) mod property;
pub(crate) mod reads;
pub(crate) mod resume;
pub(crate) mod secondary;
