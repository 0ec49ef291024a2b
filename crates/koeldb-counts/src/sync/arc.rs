//! Counted references.

use ::std::borrow::Borrow;
use ::std::clone::CloneToUninit;
use ::std::cmp::Ordering;
use ::std::error::Error;
use ::std::fmt;
use ::std::hash::{Hash, Hasher};
use ::std::marker::Unsize;
use ::std::mem;
use ::std::ops::{CoerceUnsized, Deref, DispatchFromDyn};
use ::std::sync;

use crate::record::{self, Event, Site};

/// An `Arc` that records changes of its count, at the address of its value.
#[repr(transparent)]
pub struct Arc<T: ?Sized>(sync::Arc<T>);

/// A `Weak` that records changes of its count, at the address of its value.
#[repr(transparent)]
pub struct Weak<T: ?Sized>(sync::Weak<T>);

impl<T: ?Sized + Unsize<U>, U: ?Sized> CoerceUnsized<Arc<U>> for Arc<T> {}
impl<T: ?Sized + Unsize<U>, U: ?Sized> DispatchFromDyn<Arc<U>> for Arc<T> {}
impl<T: ?Sized + Unsize<U>, U: ?Sized> CoerceUnsized<Weak<U>> for Weak<T> {}

/// The methods of `std::sync::Arc`.
#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "the standard library's"
)]
impl<T> Arc<T> {
    pub fn new(value: T) -> Self {
        Arc(sync::Arc::new(value))
    }

    pub fn new_cyclic<F: FnOnce(&Weak<T>) -> T>(value: F) -> Self {
        Arc(sync::Arc::new_cyclic(|weak| value(&Weak(weak.clone()))))
    }

    #[track_caller]
    pub fn into_inner(this: Self) -> Option<T> {
        record::add_rmw(Arc::as_ptr(&this));
        sync::Arc::into_inner(this.into_std())
    }

    #[track_caller]
    pub fn try_unwrap(this: Self) -> Result<T, Self> {
        record::add_rmw(Arc::as_ptr(&this));
        sync::Arc::try_unwrap(this.into_std()).map_err(Arc)
    }

    /// Unwraps the standard library's `Arc`, without recording a change of its count.
    #[expect(unsafe_code, reason = "a type with a destructor cannot be taken apart")]
    fn into_std(self) -> sync::Arc<T> {
        // SAFETY: the original is forgotten, so the reference is not dropped twice.
        let inner = unsafe { ::std::ptr::read(&raw const self.0) };
        mem::forget(self);
        inner
    }
}

/// The methods of `std::sync::Arc`.
#[allow(missing_docs, reason = "the standard library's")]
impl<T: ?Sized> Arc<T> {
    #[must_use]
    pub fn as_ptr(this: &Self) -> *const T {
        sync::Arc::as_ptr(&this.0)
    }

    #[must_use]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        sync::Arc::ptr_eq(&this.0, &other.0)
    }

    #[must_use]
    pub fn strong_count(this: &Self) -> usize {
        sync::Arc::strong_count(&this.0)
    }

    #[must_use]
    pub fn weak_count(this: &Self) -> usize {
        sync::Arc::weak_count(&this.0)
    }

    #[must_use]
    #[track_caller]
    pub fn downgrade(this: &Self) -> Weak<T> {
        record::add_rmw(Arc::as_ptr(this));
        Weak(sync::Arc::downgrade(&this.0))
    }

    #[track_caller]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        record::add_rmw(Arc::as_ptr(this));
        sync::Arc::get_mut(&mut this.0)
    }
}

impl<T: ?Sized + CloneToUninit> Arc<T> {
    /// Borrows the value mutably, after cloning it if it is shared; records a read-modify-write.
    #[track_caller]
    pub fn make_mut(this: &mut Self) -> &mut T {
        record::add_rmw(Arc::as_ptr(this));
        sync::Arc::make_mut(&mut this.0)
    }
}

/// The methods of `std::sync::Weak`.
#[allow(missing_docs, reason = "the standard library's")]
impl<T> Weak<T> {
    #[must_use]
    pub const fn new() -> Self {
        Weak(sync::Weak::new())
    }
}

/// The methods of `std::sync::Weak`.
#[allow(missing_docs, reason = "the standard library's")]
impl<T: ?Sized> Weak<T> {
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.0.as_ptr()
    }

    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    #[must_use]
    pub fn strong_count(&self) -> usize {
        self.0.strong_count()
    }

    #[must_use]
    #[track_caller]
    pub fn upgrade(&self) -> Option<Arc<T>> {
        record::add_rmw(self.as_ptr());
        self.0.upgrade().map(Arc)
    }
}

impl<T: ?Sized> Clone for Arc<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        record::add_clone(Arc::as_ptr(self));
        Arc(sync::Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Clone for Weak<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        record::add_clone(self.as_ptr());
        Weak(sync::Weak::clone(&self.0))
    }
}

/// Records the read-modify-write of a reference count by the drop of a reference to `value`.
fn add_drop<T: ?Sized>(value: *const T) {
    let event = Event::Rmw(value.cast::<()>().addr());
    record::add(event, Site::Drop(::std::any::type_name::<T>()));
}

impl<T: ?Sized> Drop for Arc<T> {
    fn drop(&mut self) {
        add_drop(Arc::as_ptr(self));
        // The last reference drops the weak one that all of them share.
        if Arc::strong_count(self) == 1 {
            add_drop(Arc::as_ptr(self));
        }
    }
}

impl<T: ?Sized> Drop for Weak<T> {
    fn drop(&mut self) {
        add_drop(self.as_ptr());
    }
}

impl<T: ?Sized> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> AsRef<T> for Arc<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: ?Sized> Borrow<T> for Arc<T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Arc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for Arc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized> fmt::Debug for Weak<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(Weak)")
    }
}

impl<T: ?Sized + PartialEq> PartialEq for Arc<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T: ?Sized + Eq> Eq for Arc<T> {}

impl<T: ?Sized + PartialOrd> PartialOrd for Arc<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: ?Sized + Ord> Ord for Arc<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: ?Sized + Hash> Hash for Arc<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: ?Sized + Error> Error for Arc<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        (**self).source()
    }
}

impl<T: ?Sized> Default for Arc<T>
where
    sync::Arc<T>: Default,
{
    fn default() -> Self {
        Arc(sync::Arc::default())
    }
}

impl<T> Default for Weak<T> {
    fn default() -> Self {
        Weak::new()
    }
}

impl<T> From<T> for Arc<T> {
    fn from(value: T) -> Self {
        Arc::new(value)
    }
}

impl<T: ?Sized> From<Box<T>> for Arc<T> {
    fn from(value: Box<T>) -> Self {
        Arc(sync::Arc::from(value))
    }
}

impl<T> From<Vec<T>> for Arc<[T]> {
    fn from(values: Vec<T>) -> Self {
        Arc(sync::Arc::from(values))
    }
}

impl<T: Clone> From<&[T]> for Arc<[T]> {
    fn from(values: &[T]) -> Self {
        Arc(sync::Arc::from(values))
    }
}

impl From<&str> for Arc<str> {
    fn from(text: &str) -> Self {
        Arc(sync::Arc::from(text))
    }
}

impl From<String> for Arc<str> {
    fn from(text: String) -> Self {
        Arc(sync::Arc::from(text))
    }
}

impl<T> FromIterator<T> for Arc<[T]> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Arc(values.into_iter().collect())
    }
}
