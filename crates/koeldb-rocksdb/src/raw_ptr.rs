//! The trait `AsRawPtr`, kept for compatibility; there are no C++ pointers here.

use crate::{DB, Env, Options};

/// The types of which the original hands out a pointer. The trait has no methods here.
pub trait AsRawPtr<T> {}

impl<T> AsRawPtr<T> for DB {}
impl<T> AsRawPtr<T> for Options {}
impl<T> AsRawPtr<T> for Env {}
