//! Numbers of background threads by priority. The databases of the engine have as many as their
//! options say: these are kept without effect, for all environments as in RocksDB.

use std::sync::atomic::{AtomicI32, Ordering};

use koeldb::Env;

static BOTTOM: AtomicI32 = AtomicI32::new(0);
static LOW: AtomicI32 = AtomicI32::new(0);
static HIGH: AtomicI32 = AtomicI32::new(0);

pub(crate) fn set_bottom(_: &Env, count: i32) {
    BOTTOM.store(count.max(0), Ordering::Relaxed);
}

pub(crate) fn get_bottom(_: &Env) -> i32 {
    BOTTOM.load(Ordering::Relaxed)
}

pub(crate) fn set_low(_: &Env, count: i32) {
    LOW.store(count.max(0), Ordering::Relaxed);
}

pub(crate) fn get_low(_: &Env) -> i32 {
    LOW.load(Ordering::Relaxed)
}

pub(crate) fn set_high(_: &Env, count: i32) {
    HIGH.store(count.max(0), Ordering::Relaxed);
}

pub(crate) fn get_high(_: &Env) -> i32 {
    HIGH.load(Ordering::Relaxed)
}
