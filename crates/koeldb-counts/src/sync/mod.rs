//! `std::sync`, counted.

mod arc;
pub mod atomic;
mod lock;
mod once;

pub use ::std::sync::*;

pub use arc::{Arc, Weak};
pub use lock::{Condvar, Mutex, RwLock};
pub use once::OnceLock;
