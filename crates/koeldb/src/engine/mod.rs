//! An open database: its parts put together, and what it does with several of them.
//!
//! [`inner`] owns the parts. Beside it stand what needs several of them: device reads ([`reads`]),
//! properties, changes of families and options ([`maintenance`]), the reaction to failures ([`resume`]),
//! periodic reports, timers, and the part that follows a primary ([`secondary`]). It may use all storeys
//! below, `commit` and downwards.

pub(crate) mod alarm;
pub(crate) mod inner;
pub(crate) mod maintenance;
pub(crate) mod periodic_reports;
pub(crate) mod property;
pub(crate) mod reads;
pub(crate) mod resume;
pub(crate) mod secondary;
