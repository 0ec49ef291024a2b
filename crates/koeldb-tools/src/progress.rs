//! Progress on a terminal: one line on standard error that is written anew.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;

use koeldb::fs::{Clock, SystemClock};

/// Milliseconds between two updates.
const EVERY_MILLIS: u128 = 200;

/// A line of progress; nothing where standard error is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    is_terminal: bool,
    /// When the line was last written, in milliseconds; `None` before the first time.
    written: Mutex<Option<u128>>,
}

impl Progress {
    /// Begins the progress of `what`.
    #[must_use]
    pub(crate) fn new(what: &'static str) -> Self {
        Progress {
            what,
            is_terminal: std::io::stderr().is_terminal(),
            written: Mutex::new(None),
        }
    }

    /// Shows `done` bytes of `all`.
    pub(crate) fn show(&self, done: u64, all: u64) {
        if !self.is_terminal {
            return;
        }
        let mut written = self
            .written
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = SystemClock.now().as_millis();
        if done < all && written.is_some_and(|before| now < before + EVERY_MILLIS) {
            return;
        }
        *written = Some(now);
        // A terminal that cannot be written shows no progress.
        let _ = write!(std::io::stderr(), "\r{}: {}", self.what, line(done, all));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let written = self.written.get_mut();
        if written.is_ok_and(|written| written.is_some()) {
            let _ = writeln!(std::io::stderr());
        }
    }
}

fn line(done: u64, all: u64) -> String {
    let percent = (done.saturating_mul(100)).checked_div(all).unwrap_or(100);
    let mib = |bytes: u64| bytes >> 20;
    format!("{percent:3} %, {} of {} MiB", mib(done), mib(all))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_has_the_share_and_the_sizes() {
        assert_eq!(line(3 << 20, 12 << 20), " 25 %, 3 of 12 MiB");
        assert_eq!(line(0, 0), "100 %, 0 of 0 MiB");
    }
}
