//! The delivery of events to the listeners of a database.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::info_log::InfoLog;
use crate::listener::{Event, EventListener};

/// The listeners of a database.
pub(crate) struct Listeners {
    all: Vec<Arc<dyn EventListener>>,
    info_log: Arc<InfoLog>,
}

impl Listeners {
    pub(crate) fn new(all: Vec<Arc<dyn EventListener>>, info_log: Arc<InfoLog>) -> Self {
        Listeners { all, info_log }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Reports an event; must be called without locks.
    pub(crate) fn notify(&self, event: &Event<'_>) {
        for listener in &self.all {
            if catch_unwind(AssertUnwindSafe(|| listener.on_event(event))).is_err() {
                self.info_log
                    .warn(format_args!("an event listener panicked"));
            }
        }
    }
}
