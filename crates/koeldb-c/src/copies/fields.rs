//! Option structs whose values are kept until a call uses them.

/// Defines a struct of plain values with defaults, and for each value its setter and getter.
macro_rules! plain_options {
    ($(#[$doc:meta])* $Type:ident { $($field:ident: $type:ty = $default:expr, $setter:ident;)* }) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub(crate) struct $Type {
            $(pub(crate) $field: $type,)*
        }

        impl Default for $Type {
            fn default() -> Self {
                $Type { $($field: $default,)* }
            }
        }

        impl $Type {
            $(
                pub(crate) fn $setter(&mut self, value: $type) {
                    self.$field = value;
                }

                pub(crate) fn $field(&self) -> $type {
                    self.$field
                }
            )*
        }
    };
}

pub(crate) use plain_options;
