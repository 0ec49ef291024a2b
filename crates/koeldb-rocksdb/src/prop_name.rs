//! Names of properties.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::ffi::{CStr, CString};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use crate::CStrLike;
use crate::c_str::infallible;

/// A borrowed name of a database property; constants are in [`properties`](crate::properties).
pub struct PropName(Cow<'static, CStr>);

impl PropName {
    /// Creates a property name from a constant C string.
    pub(crate) const fn of(name: &'static CStr) -> Self {
        PropName(Cow::Borrowed(name))
    }

    /// Returns the name as a C string.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        &self.0
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

/// An owned name of a database property.
pub struct PropertyName(PropName);

impl PropertyName {
    /// Returns the name of a per-level property: `prefix` and the level number.
    pub(crate) fn of_level(prefix: &str, level: usize) -> Self {
        let name = CString::new(format!("rocksdb.{prefix}{level}"));
        PropertyName(PropName(Cow::Owned(name.unwrap_or_default())))
    }

    /// Returns the name as a C string.
    #[must_use]
    pub fn into_c_string(self) -> CString {
        self.0.0.into_owned()
    }

    /// Returns the name.
    #[must_use]
    pub fn into_string(self) -> String {
        self.as_str().to_owned()
    }
}

impl Deref for PropName {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        &self.0
    }
}

impl Deref for PropertyName {
    type Target = PropName;

    fn deref(&self) -> &PropName {
        &self.0
    }
}

impl Borrow<PropName> for PropertyName {
    fn borrow(&self) -> &PropName {
        &self.0
    }
}

impl ToOwned for PropName {
    type Owned = PropertyName;

    fn to_owned(&self) -> PropertyName {
        PropertyName(PropName(self.0.clone()))
    }
}

macro_rules! shared {
    ($($Type:ty),*) => {$(
        impl AsRef<CStr> for $Type {
            fn as_ref(&self) -> &CStr {
                self.as_c_str()
            }
        }

        impl AsRef<str> for $Type {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Display for $Type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl fmt::Debug for $Type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }
    )*};
}

shared!(PropName, PropertyName);

macro_rules! equal {
    ($($A:ty, $B:ty: $a:ident, $b:ident, $equal:expr;)*) => {$(
        impl PartialEq<$B> for $A {
            fn eq(&self, other: &$B) -> bool {
                let ($a, $b) = (self, other);
                $equal
            }
        }

        impl PartialEq<$A> for $B {
            fn eq(&self, other: &$A) -> bool {
                let ($a, $b) = (other, self);
                $equal
            }
        }
    )*};
}

macro_rules! compared {
    ($($Type:ty),*) => {$(
        impl PartialEq for $Type {
            fn eq(&self, other: &Self) -> bool {
                self.as_c_str() == other.as_c_str()
            }
        }

        impl Eq for $Type {}

        impl PartialOrd for $Type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $Type {
            fn cmp(&self, other: &Self) -> Ordering {
                self.as_c_str().cmp(other.as_c_str())
            }
        }

        impl Hash for $Type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.as_c_str().hash(state);
            }
        }
    )*};
}

compared!(PropName, PropertyName);

equal! {
    PropName, CStr: name, text, name.as_c_str() == text;
    PropName, str: name, text, name.as_str() == text;
    PropertyName, CString: name, text, name.as_c_str() == text.as_c_str();
    PropertyName, String: name, text, name.as_str() == text.as_str();
}

infallible! {
    PropertyName as CString: name, name.into_c_string(), name.into_c_string();
    &'a PropName as &'a CStr: name, name.as_c_str(), name.as_c_str().to_owned(), for 'a;
    &'a PropertyName as &'a CStr: name, name.as_c_str(), name.as_c_str().to_owned(), for 'a;
}
