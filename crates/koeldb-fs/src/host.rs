//! The name of this computer.

/// Returns the name of this host; empty where the system does not tell.
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
