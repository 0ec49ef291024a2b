//! Environments: files and threads.

use crate::Error;

/// An environment: the file system and background threads that databases use.
///
/// Clones share it.
#[derive(Clone)]
pub struct Env {
    pub(crate) inner: koeldb::Env,
}

/// Declares setters of thread pools.
macro_rules! without_effect {
    ($($name:ident($($argument:ident: $type:ty)?);)*) => {$(
        /// No effect: threads start as they are needed and end when idle.
        pub fn $name(&mut self $(, $argument: $type)?) {
            $(let _ = $argument;)?
        }
    )*};
}

impl Env {
    /// Returns the default environment: the operating system's files and the shared thread pool.
    pub fn new() -> Result<Self, Error> {
        Ok(Env {
            inner: koeldb::Env::default(),
        })
    }

    /// Creates an environment with an in-memory file system (`NewMemEnv`).
    pub fn mem_env() -> Result<Self, Error> {
        Ok(Env {
            inner: koeldb::Env::mem_env(),
        })
    }

    without_effect! {
        set_background_threads(num_threads: i32);
        set_high_priority_background_threads(n: i32);
        set_low_priority_background_threads(n: i32);
        set_bottom_priority_background_threads(n: i32);
        join_all_threads();
        lower_thread_pool_io_priority();
        lower_high_priority_thread_pool_io_priority();
        lower_thread_pool_cpu_priority();
        lower_high_priority_thread_pool_cpu_priority();
    }
}
