//! A file system with slow reads, which simulates slow flash or an object store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koeldb_base::Result;

use crate::clock::Clock;
use crate::file::FileSystem;
use crate::layer::{Call, Layer, Layered, Operation};

/// A file system that delays every read by a fixed time, with unlimited parallelism.
pub type LatencyFileSystem = Layered<Latency>;

/// The [`Layer`] that delays the reads of a [`LatencyFileSystem`].
#[derive(Debug)]
pub struct Latency {
    clock: Arc<dyn Clock>,
    read_nanos: AtomicU64,
}

impl LatencyFileSystem {
    /// Creates a file system over `below` that delays its reads by `read_delay` on `clock`.
    pub fn new(below: Arc<dyn FileSystem>, read_delay: Duration, clock: Arc<dyn Clock>) -> Self {
        let system = Layered::with_layer(
            below,
            Latency {
                clock,
                read_nanos: AtomicU64::new(0),
            },
        );
        system.set_read_delay(read_delay);
        system
    }

    /// Sets the delay of later reads.
    pub fn set_read_delay(&self, delay: Duration) {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.layer().read_nanos.store(nanos, Ordering::Relaxed);
    }
}

impl Layer for Latency {
    fn around<T>(&self, call: &Call<'_>, proceed: impl FnOnce() -> Result<T>) -> Result<T> {
        let nanos = self.read_nanos.load(Ordering::Relaxed);
        if call.operation == Operation::Read && nanos > 0 {
            self.clock.sleep(Duration::from_nanos(nanos));
        }
        proceed()
    }
}
