//! References to shared objects that are counted only where nothing else keeps the object alive.

use std::ops::Deref;
use std::sync::Arc;

/// A reference to an `Arc<T>`: a clone of its own, or a borrow for `'o` that changes no count.
///
/// A reader whose owner outlives it borrows. It then changes no reference count, whose line all
/// readers of the object would share.
#[derive(Debug)]
pub enum ArcRef<'o, T> {
    /// A reference that an owner keeps alive.
    Borrowed(&'o Arc<T>),
    /// A counted reference, which keeps the object alive itself.
    Counted(Arc<T>),
}

impl<T> ArcRef<'_, T> {
    /// Returns a reference with a clone of the `Arc`, which may outlive the owner.
    #[must_use]
    pub fn detached<'a>(&self) -> ArcRef<'a, T> {
        ArcRef::Counted(Arc::clone(self))
    }

    /// Returns the `Arc`, cloning it if it was only borrowed.
    #[must_use]
    pub fn into_counted(self) -> Arc<T> {
        match self {
            ArcRef::Borrowed(object) => Arc::clone(object),
            ArcRef::Counted(object) => object,
        }
    }
}

impl<T> Clone for ArcRef<'_, T> {
    fn clone(&self) -> Self {
        match self {
            ArcRef::Borrowed(object) => ArcRef::Borrowed(object),
            ArcRef::Counted(object) => ArcRef::Counted(Arc::clone(object)),
        }
    }
}

impl<T> Deref for ArcRef<'_, T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        match self {
            ArcRef::Borrowed(object) => object,
            ArcRef::Counted(object) => object,
        }
    }
}

impl<T> From<Arc<T>> for ArcRef<'_, T> {
    fn from(object: Arc<T>) -> Self {
        ArcRef::Counted(object)
    }
}

impl<'o, T> From<&'o Arc<T>> for ArcRef<'o, T> {
    fn from(object: &'o Arc<T>) -> Self {
        ArcRef::Borrowed(object)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn only_counted_references_change_the_count() {
        let object = Arc::new(1);
        let borrowed = ArcRef::from(&object);
        let clone = borrowed.clone();
        assert_eq!(Arc::strong_count(&object), 1);
        let detached: ArcRef<'static, _> = clone.detached();
        assert_eq!(Arc::strong_count(&object), 2);
        let counted = ArcRef::Counted(detached.clone().into_counted());
        assert_eq!(Arc::strong_count(&object), 3);
        assert_eq!([**borrowed, **detached, **counted], [1; 3]);
        drop((detached, counted));
        assert_eq!(Arc::strong_count(&object), 1);
    }
}
