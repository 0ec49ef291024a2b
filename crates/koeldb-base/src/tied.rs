//! A value together with the shared object from which it borrows.
//!
//! A cursor keeps the state that it reads alive, and its parts borrow from that state without
//! counting references. Rust has no lifetime for a field that borrows from its neighbour:
//! [`Tied`] stores such a value with the lifetime `'static` and lends it only to closures that
//! accept every lifetime.
//!
//! Invariants:
//!
//! - **T1** `owner` is held as long as the value exists: it is a field that nothing replaces, and
//!   the value is dropped first.
//! - **T2** No reference with the pretended lifetime leaves this module, except as an argument of a
//!   closure that is generic over the lifetime. Such a closure can store the reference only in the
//!   value itself, and its result cannot name the lifetime.
//! - **T3** The value is initialized from the end of [`Tied::new`] until it is dropped. It is a
//!   `MaybeUninit` nevertheless: a function that drops a `Tied` must not promise the compiler that
//!   references inside it stay valid until the function returns.
#![expect(
    unsafe_code,
    reason = "a value that borrows from its neighbour has no lifetime in safe Rust"
)]

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A name for a type with a lifetime parameter, from which [`Tied`] builds the type of its value.
pub trait Borrowing {
    /// The type of values that borrow for `'o`.
    type Of<'o>;
}

/// A value that borrows from an object, and the counted reference that keeps the object alive.
pub struct Tied<O: 'static, B: Borrowing> {
    value: MaybeUninit<B::Of<'static>>,
    owner: Arc<O>,
}

/// Lends the object behind `owner` for a lifetime that the caller chooses.
///
/// # Safety
/// The reference must not be used after `owner`, and its clones, are dropped.
unsafe fn lend<'o, O>(owner: &Arc<O>) -> &'o O {
    // SAFETY: the caller uses the reference only while the object is alive, and an `Arc` lends its
    // object only as shared.
    unsafe { &*Arc::as_ptr(owner) }
}

impl<O, B: Borrowing> Tied<O, B> {
    /// Creates the value by `create` from the object of `owner`, and keeps it with `owner`.
    pub fn new(owner: Arc<O>, create: impl for<'o> FnOnce(&'o O) -> B::Of<'o>) -> Self {
        // SAFETY: T1 and T2: only the value, which is dropped first, can store the reference.
        let lent = unsafe { lend(&owner) };
        Tied {
            value: MaybeUninit::new(create(lent)),
            owner,
        }
    }

    /// The reference that keeps the object alive.
    #[inline]
    #[must_use]
    pub fn owner(&self) -> &Arc<O> {
        &self.owner
    }

    /// Runs `read` on the value.
    #[inline]
    pub fn with<'s, R>(&'s self, read: impl for<'o> FnOnce(&'s B::Of<'o>) -> R) -> R {
        // SAFETY: T3.
        read(unsafe { self.value.assume_init_ref() })
    }

    /// Runs `change` on the object and the value, which may borrow from the object.
    #[inline]
    pub fn with_mut<'s, R>(
        &'s mut self,
        change: impl for<'o> FnOnce(&'o O, &'s mut B::Of<'o>) -> R,
    ) -> R {
        // SAFETY: T1 and T2, as in `new`.
        let lent = unsafe { lend(&self.owner) };
        // SAFETY: T3.
        change(lent, unsafe { self.value.assume_init_mut() })
    }
}

impl<O, B: Borrowing> Drop for Tied<O, B> {
    fn drop(&mut self) {
        // SAFETY: T3: nothing uses the value afterwards, and the owner is dropped after it (T1).
        unsafe { self.value.assume_init_drop() };
    }
}

impl<O: fmt::Debug, B: Borrowing> fmt::Debug for Tied<O, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tied")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;

    use super::*;

    struct Words;

    impl Borrowing for Words {
        type Of<'o> = Vec<&'o str>;
    }

    #[test]
    fn a_value_borrows_from_its_owner_and_moves_with_it() {
        let text = Arc::new(String::from("one two three"));
        let mut tied: Tied<String, Words> = Tied::new(Arc::clone(&text), |text| {
            text.split(' ').collect::<Vec<_>>()
        });
        drop(text);
        tied.with_mut(|text, words| words.push(&text[4..]));
        let moved = std::thread::spawn(move || Box::new(tied)).join().unwrap();
        let last = moved.with(|words| words.last().map(|word| word.len()));
        assert_eq!(last, Some(9));
        assert_eq!(moved.with(|words| words.len()), 4);
        assert_eq!(Arc::strong_count(moved.owner()), 1);
        drop(moved);
    }

    /// A value that looks at its owner when it is dropped.
    struct Reader<'o>(&'o Mutex<Vec<&'static str>>);

    impl Drop for Reader<'_> {
        fn drop(&mut self) {
            self.0.lock().unwrap().push("value");
        }
    }

    struct Readers;

    impl Borrowing for Readers {
        type Of<'o> = Option<Reader<'o>>;
    }

    thread_local! {
        static DROPPED: Cell<usize> = const { Cell::new(0) };
    }

    struct Owner(Mutex<Vec<&'static str>>);

    impl Drop for Owner {
        fn drop(&mut self) {
            DROPPED.set(self.0.get_mut().unwrap().len());
        }
    }

    #[test]
    fn the_value_is_dropped_before_its_owner() {
        let owner = Arc::new(Owner(Mutex::default()));
        let mut tied: Tied<Owner, Readers> = Tied::new(owner, |_| None);
        for _ in 0..3 {
            tied.with_mut(|owner, reader| *reader = Some(Reader(&owner.0)));
        }
        assert_eq!(DROPPED.get(), 0);
        drop(tied);
        assert_eq!(DROPPED.get(), 3);
    }
}
