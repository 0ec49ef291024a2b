//! Environments: files and threads.

use crate::Error;

/// The files and threads of databases, shared by clones.
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
    /// Returns the files of the operating system and the threads that all databases share.
    pub fn new() -> Result<Self, Error> {
        Ok(Env {
            inner: koeldb::Env::default(),
        })
    }

    /// Creates an environment with files in memory.
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
