//! The memory of databases and caches.

use koeldb::{Cache, Db};

/// The databases and caches to measure (`rocksdb_memory_consumers_t`).
#[derive(Default)]
pub(crate) struct Consumers {
    databases: Vec<Db>,
    /// Caches, and the addresses of their objects: each counts once.
    caches: Vec<(*const Cache, Cache)>,
}

impl Consumers {
    pub(crate) fn add_db(&mut self, db: &Db) {
        self.databases.push(db.clone());
    }

    pub(crate) fn add_cache(&mut self, cache: &Cache) {
        let address = std::ptr::from_ref(cache);
        if self.caches.iter().all(|(known, _)| *known != address) {
            self.caches.push((address, cache.clone()));
        }
    }
}

/// Bytes in use (`rocksdb_memory_usage_t`).
pub(crate) struct Usage {
    total: u64,
    unflushed: u64,
    readers: u64,
    caches: u64,
}

/// Measures the memory.
pub(crate) fn measure(consumers: &mut Consumers) -> koeldb::Result<Usage> {
    let mut usage = Usage {
        total: 0,
        unflushed: 0,
        readers: 0,
        caches: 0,
    };
    for db in &consumers.databases {
        let report = db.memory_report();
        usage.total += report.memtables + report.held_memtables;
        usage.unflushed += report.memtables;
        usage.readers += report.table_readers;
    }
    let caches = consumers.caches.iter();
    usage.caches = caches.map(|(_, cache)| cache.get_usage()).sum();
    Ok(usage)
}

impl Usage {
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn unflushed(&self) -> u64 {
        self.unflushed
    }

    pub(crate) fn readers(&self) -> u64 {
        self.readers
    }

    pub(crate) fn caches(&self) -> u64 {
        self.caches
    }
}
