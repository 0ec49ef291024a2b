//! Declares setters and getters of plain fields, for options that have no text form.

macro_rules! accessors {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty, $setter:ident, $getter:ident;)*) => {$(
        $(#[doc = $doc])+
        pub fn $setter(&mut self, value: $type) -> &mut Self {
            self.$field = value;
            self
        }

        #[doc = concat!("The option `", stringify!($field), "`.")]
        #[must_use]
        pub const fn $getter(&self) -> $type {
            self.$field
        }
    )*};
}

pub(crate) use accessors;
