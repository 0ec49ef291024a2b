//! Values and their texts: numbers, booleans, strings, lists and enums.
//!
//! RocksDB parses numbers loosely (`1.5G` is 1, `12abc` is 12, an overflow wraps); this parser
//! accepts only digits, one suffix `K`, `M`, `G` or `T`, and an optional `B`.

use super::grammar;
use super::registry::{OptionValue, Reading, Refusal, Style};

/// A type of option values without members, which are read and written as a whole.
pub(crate) trait Scalar: Sized {
    /// The type of the option, for its description in the registry.
    fn kind() -> String;
    /// Parses a value; returns `None` if the text is not valid.
    fn from_text(text: &str) -> Option<Self>;
    /// Returns the text of the value in option strings and OPTIONS files.
    fn to_text(&self) -> String;
    /// The expected form of a value, for messages.
    fn expected() -> String;
}

/// Parses the value of the option `name`; the error names the expected form.
pub(crate) fn read_scalar<T: Scalar>(name: &str, text: &str) -> Result<T, Refusal> {
    let text = grammar::strip_braces(text);
    T::from_text(text).ok_or_else(|| {
        Refusal::invalid(format!(
            "Error parsing {name}: \"{text}\" is not {}",
            T::expected()
        ))
    })
}

macro_rules! scalar_option_values {
    ($($type:ty),*) => {$(
        impl $crate::options::registry::OptionValue for $type {
            fn kind() -> String {
                <$type as $crate::options::value::Scalar>::kind()
            }

            fn read(
                &mut self,
                name: &str,
                text: &str,
                _: &mut $crate::options::registry::Reading,
            ) -> Result<(), $crate::options::registry::Refusal> {
                *self = $crate::options::value::read_scalar(name, text)?;
                Ok(())
            }

            fn write(&self, _: $crate::options::registry::Style) -> Option<String> {
                Some($crate::options::value::Scalar::to_text(self))
            }
        }
    )*};
}

pub(crate) use scalar_option_values;

scalar_option_values!(bool, u8, u32, u64, i32, i64, f64, String, ReadAmpBytes);

impl Scalar for bool {
    fn kind() -> String {
        "bool".to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }

    fn to_text(&self) -> String {
        self.to_string()
    }

    fn expected() -> String {
        "true, false, 1 or 0".to_owned()
    }
}

/// Parses an integer with an optional minus sign and size suffix, such as `64M`.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let end = digits
        .find(|char: char| !char.is_ascii_digit())
        .unwrap_or(digits.len());
    let (number, suffix) = digits.split_at_checked(end)?;
    let shift = match suffix {
        "" => 0,
        "k" | "K" | "kB" | "KB" => 10,
        "m" | "M" | "mB" | "MB" => 20,
        "g" | "G" | "gB" | "GB" => 30,
        "t" | "T" | "tB" | "TB" => 40,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    let value = i128::from(number) << shift;
    Some(if negative { -value } else { value })
}

macro_rules! integer_scalars {
    ($($type:ident)*) => {$(
        impl Scalar for $type {
            fn kind() -> String {
                stringify!($type).to_owned()
            }

            fn from_text(text: &str) -> Option<Self> {
                integer(text).and_then(|value| value.try_into().ok())
            }

            fn to_text(&self) -> String {
                self.to_string()
            }

            fn expected() -> String {
                format!(
                    "a whole number from {} to {}, with or without one of the suffixes K, M, G, T",
                    $type::MIN,
                    $type::MAX
                )
            }
        }
    )*};
}

integer_scalars!(u8 u32 i32 i64);

impl Scalar for u64 {
    fn kind() -> String {
        "u64".to_owned()
    }

    /// Reads a number; -1 means the largest number, as in RocksDB.
    fn from_text(text: &str) -> Option<Self> {
        match integer(text)? {
            -1 => Some(u64::MAX),
            value => value.try_into().ok(),
        }
    }

    fn to_text(&self) -> String {
        self.to_string()
    }

    fn expected() -> String {
        format!(
            "a whole number from 0 to {} (or -1 for that), with or without one of the suffixes K, M, G, T",
            u64::MAX
        )
    }
}

impl Scalar for f64 {
    fn kind() -> String {
        "f64".to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn to_text(&self) -> String {
        if self.is_nan() {
            "nan".to_owned()
        } else {
            format!("{self:.6}")
        }
    }

    fn expected() -> String {
        "a number".to_owned()
    }
}

impl Scalar for String {
    fn kind() -> String {
        "string".to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(grammar::unescape(text))
    }

    fn to_text(&self) -> String {
        grammar::escape(self)
    }

    fn expected() -> String {
        "text".to_owned()
    }
}

/// The option `read_amp_bytes_per_bit`: of 64 bits in old files only the low 32 are meaningful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadAmpBytes(pub(crate) u32);

impl Scalar for ReadAmpBytes {
    fn kind() -> String {
        <u32 as Scalar>::kind()
    }

    fn from_text(text: &str) -> Option<Self> {
        let low = u64::from_text(text)? & u64::from(u32::MAX);
        u32::try_from(low).ok().map(ReadAmpBytes)
    }

    fn to_text(&self) -> String {
        self.0.to_string()
    }

    fn expected() -> String {
        u32::expected()
    }
}

/// The option `rate_limiter_bytes_per_sec`, which is never written to OPTIONS files.
///
/// RocksDB would create a blocking limiter from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateLimit(pub(crate) u64);

impl OptionValue for RateLimit {
    fn kind() -> String {
        <u64 as Scalar>::kind()
    }

    fn read(&mut self, name: &str, text: &str, _: &mut Reading) -> Result<(), Refusal> {
        self.0 = read_scalar(name, text)?;
        Ok(())
    }

    fn write(&self, _: Style) -> Option<String> {
        None
    }
}

/// A list; its elements are separated by `:`, scalars or structs.
impl<T: OptionValue + Default> OptionValue for Vec<T> {
    fn kind() -> String {
        format!("list of {}", T::kind())
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal> {
        let mut list = Vec::new();
        for element in grammar::elements(name, grammar::strip_braces(text))? {
            let mut value = T::default();
            value.read(name, element, reading)?;
            list.push(value);
        }
        *self = list;
        Ok(())
    }

    fn write(&self, style: Style) -> Option<String> {
        let texts: Option<Vec<String>> = self.iter().map(|value| value.write(style)).collect();
        let texts = texts?;
        let list = texts.join(":");
        if texts.iter().any(|text| text.starts_with('{')) {
            Some(format!("{{{list}}}"))
        } else {
            Some(list)
        }
    }
}

/// Defines the texts of the values of an enum.
macro_rules! enum_texts {
    ($Type:ty { $($variant:path = $text:literal),* $(,)? }) => {
        impl $crate::options::value::Scalar for $Type {
            fn kind() -> String {
                format!("enum{{{}}}", [$($text),*].join("|"))
            }

            fn from_text(text: &str) -> Option<Self> {
                match text {
                    $($text => Some($variant),)*
                    _ => None,
                }
            }

            fn to_text(&self) -> String {
                match self {
                    $($variant => $text,)*
                }
                .to_owned()
            }

            fn expected() -> String {
                format!("one of {}", [$($text),*].join(", "))
            }
        }

        $crate::options::value::scalar_option_values!($Type);
    };
}

/// Declares an enum whose values have texts; the first is the default.
macro_rules! option_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $Type:ident {
            $(#[$first_meta:meta])* $First:ident = $first_text:literal,
            $($(#[$variant_meta:meta])* $Variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        $vis enum $Type {
            $(#[$first_meta])*
            #[default]
            $First,
            $($(#[$variant_meta])* $Variant,)*
        }

        $crate::options::value::enum_texts!($Type {
            $Type::$First = $first_text,
            $($Type::$Variant = $text,)*
        });
    };
}

pub(crate) use {enum_texts, option_enum};
