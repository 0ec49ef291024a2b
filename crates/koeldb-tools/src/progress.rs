//! Progress on a terminal: one line on standard error. Nothing is shown where that is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The time between two updates of a line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);

fn with_template(bar: ProgressBar, template: &str, what: &'static str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.with_prefix(what)
}

/// Begins the progress of `what` in bytes, whose total becomes known later.
pub(crate) fn bytes(what: &'static str) -> ProgressBar {
    let template = "{prefix}: {percent:>3} %, {bytes} of {total_bytes}, {elapsed}";
    with_template(ProgressBar::new(0), template, what)
}

/// Begins the progress of `what`, whose end is unknown: the elapsed time and a message.
pub(crate) fn spinner(what: &'static str) -> ProgressBar {
    let bar = idle_spinner(what);
    show(&bar);
    bar
}

/// Creates a spinner for [`show`], which must not be called before other lines are printed.
pub(crate) fn idle_spinner(what: &'static str) -> ProgressBar {
    let template = "{prefix}: {elapsed} {msg}";
    with_template(ProgressBar::new_spinner(), template, what)
}

/// Shows a spinner until it is finished or dropped.
pub(crate) fn show(spinner: &ProgressBar) {
    spinner.enable_steady_tick(UPDATE_INTERVAL);
}
