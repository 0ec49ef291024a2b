//! The trait `AsRawPtr`, kept for compatibility; there are no C++ pointers here.

use crate::{DB, Env, Options};

/// A marker of types for which the `rocksdb` crate hands out a C pointer; has no methods here.
pub trait AsRawPtr<T> {}

impl<T> AsRawPtr<T> for DB {}
impl<T> AsRawPtr<T> for Options {}
impl<T> AsRawPtr<T> for Env {}
