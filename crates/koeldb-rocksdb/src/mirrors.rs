//! Enums that mirror the engine's.

/// Declares enums with the variants of the engine's.
macro_rules! mirrors {
    ($($(#[$meta:meta])* pub enum $Type:ident = $Engine:ty {
        $($(#[$note:meta])+ $Variant:ident $(= $number:literal)?,)*
    })*) => {$(
        $(#[$meta])*
        pub enum $Type {
            $($(#[$note])+ $Variant $(= $number)?,)*
        }

        impl $Type {
            /// Converts to the engine's enum.
            pub(crate) fn engine(self) -> $Engine {
                match self {
                    $($Type::$Variant => <$Engine>::$Variant,)*
                }
            }
        }
    )*};
}
pub(crate) use mirrors;
