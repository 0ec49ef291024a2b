//! Progress on a terminal: one line on standard error. Nothing is shown where that is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The time between two updates of a line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);

/// Sets the template and the prefix `what` of a progress bar.
fn with_template(bar: ProgressBar, template: &str, what: &'static str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.with_prefix(what)
}

/// Creates a progress bar of `what` in bytes; the total is set later.
pub(crate) fn bytes(what: &'static str) -> ProgressBar {
    let template = "{prefix}: {percent:>3} %, {bytes} of {total_bytes}, {elapsed}";
    with_template(ProgressBar::new(0), template, what)
}

/// Creates and shows a spinner for `what`: the elapsed time and a message.
pub(crate) fn spinner(what: &'static str) -> ProgressBar {
    let bar = idle_spinner(what);
    show(&bar);
    bar
}

/// Creates a spinner that does not tick by itself until [`show`] is called.
pub(crate) fn idle_spinner(what: &'static str) -> ProgressBar {
    let template = "{prefix}: {elapsed} {msg}";
    with_template(ProgressBar::new_spinner(), template, what)
}

/// Draws a spinner until it is finished or dropped.
pub(crate) fn show(spinner: &ProgressBar) {
    spinner.enable_steady_tick(UPDATE_INTERVAL);
}
