//! `std::hint`, with spinning that can be held.

use ::std::time::Duration;

pub use ::std::hint::*;

use crate::record;

/// Executes a spin-loop hint, or sleeps for 1 ms while a test holds spinning threads.
///
/// See [`record::hold_spinners`].
#[expect(clippy::disallowed_methods, reason = "a test holds the thread")]
pub fn spin_loop() {
    if record::holds_spinners() {
        record::wait(|| ::std::thread::sleep(Duration::from_millis(1)));
    } else {
        ::std::hint::spin_loop();
    }
}
