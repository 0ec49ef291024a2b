//! Names: arguments that the original passes to C.

use std::ffi::{CStr, CString, NulError};
use std::fmt::{Debug, Display};
use std::ops::Deref;

/// A string argument without NUL bytes: the name of a property, merge operator or comparator.
pub trait CStrLike {
    /// The borrowed or owned form.
    type Baked: Deref<Target = CStr>;
    /// The error for a value with a NUL byte.
    type Error: Debug + Display;

    /// Converts the value to a C string, borrowed where possible.
    fn bake(self) -> Result<Self::Baked, Self::Error>;

    /// Converts the value to an owned C string.
    fn into_c_string(self) -> Result<CString, Self::Error>;
}

macro_rules! copied {
    ($($type:ty),*) => {$(
        impl CStrLike for $type {
            type Baked = CString;
            type Error = NulError;

            fn bake(self) -> Result<CString, NulError> {
                CString::new(self.as_bytes())
            }

            fn into_c_string(self) -> Result<CString, NulError> {
                CString::new(self.as_bytes())
            }
        }
    )*};
}

copied!(&str, &String);

/// Implements the trait for types that cannot have inner NUL bytes.
macro_rules! infallible {
    ($($type:ty as $baked:ty: $value:ident, $borrow:expr, $own:expr $(, for $life:lifetime)?;)*) => {$(
        impl$(<$life>)? CStrLike for $type {
            type Baked = $baked;
            type Error = std::convert::Infallible;

            fn bake(self) -> Result<$baked, Self::Error> {
                let $value = self;
                Ok($borrow)
            }

            fn into_c_string(self) -> Result<CString, Self::Error> {
                let $value = self;
                Ok($own)
            }
        }
    )*};
}
pub(crate) use infallible;

infallible! {
    &CStr as Self: value, value, value.to_owned();
    CString as CString: value, value, value;
    &'a CString as &'a CStr: value, value, value.clone(), for 'a;
}

/// Converts a name argument to a `String`; replaces invalid UTF-8.
///
/// # Panics
///
/// If the value has a NUL byte, as the original does.
pub(crate) fn text(value: impl CStrLike) -> String {
    match value.bake() {
        Ok(baked) => baked.to_string_lossy().into_owned(),
        Err(error) => panic!("a name must not have NUL bytes: {error}"),
    }
}

/// The value that [`DBCommon::key_may_exist_cf_opt_value`](crate::DBCommon) found in memory.
pub struct CSlice(pub(crate) koeldb::PinnedSlice);

impl AsRef<[u8]> for CSlice {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
