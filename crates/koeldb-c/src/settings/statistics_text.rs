//! The text of statistics.

#![expect(unsafe_code, reason = "the options are the caller's")]

use std::ffi::c_char;

use crate::handle::{self, Handle};
use crate::memory;
use crate::settings::options::Options;
use crate::settings::statistics;

/// Returns all figures as a text of C; null without statistics.
///
/// # Safety
/// `options` is that of a getter.
pub(crate) unsafe fn text(options: *mut Handle<Options>) -> *mut c_char {
    // SAFETY: promised by the caller.
    let options = unsafe { handle::exclusive(options, "options") };
    memory::give_optional_text(options.ok().and_then(statistics::text))
}
