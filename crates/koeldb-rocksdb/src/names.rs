//! Enums of RocksDB's names.

use std::fmt;

/// The error of parsing a ticker or histogram name that is unknown.
#[derive(Clone, Debug)]
pub struct NameParseError;

impl fmt::Display for NameParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unrecognized name")
    }
}

impl std::error::Error for NameParseError {}

/// Declares an enum of names.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $Type:ident { $($Variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Type {$(
            #[doc = concat!("`", $name, "`.")]
            $Variant,
        )*}

        impl $Type {
            /// RocksDB's name.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $($Type::$Variant => $name,)*
                }
            }

            /// All of them.
            pub fn iter() -> std::slice::Iter<'static, $Type> {
                const ALL: &[$Type] = &[$($Type::$Variant,)*];
                ALL.iter()
            }
        }

        impl std::str::FromStr for $Type {
            type Err = $crate::names::NameParseError;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let found = Self::iter().find(|known| known.name() == name);
                found.copied().ok_or($crate::names::NameParseError)
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use named;
