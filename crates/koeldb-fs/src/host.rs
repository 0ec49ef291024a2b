//! The name of this computer, and the resources that this process has used.

#[cfg(unix)]
mod usage;

use std::time::Duration;

/// Returns the name of this host; empty where the system does not report it.
#[must_use]
pub fn host_name() -> String {
    #[cfg(unix)]
    {
        let system = rustix::system::uname();
        system.nodename().to_string_lossy().into_owned()
    }
    #[cfg(not(unix))]
    String::new()
}

/// Resources that this process has used since it began, by all its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// The CPU time in user and system mode.
    pub processor: Duration,
    /// The number of context switches, voluntary and involuntary.
    pub switches: u64,
}

impl ProcessUsage {
    /// Returns the usage since `before`.
    #[must_use]
    pub fn since(self, before: ProcessUsage) -> ProcessUsage {
        ProcessUsage {
            processor: self.processor.saturating_sub(before.processor),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}

/// Returns the usage of this process; `None` where the system does not report it.
#[must_use]
pub fn process_usage() -> Option<ProcessUsage> {
    #[cfg(unix)]
    {
        usage::process_usage()
    }
    #[cfg(not(unix))]
    None
}
