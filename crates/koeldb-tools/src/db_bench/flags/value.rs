//! The types of flags, and gflags' texts of their values.

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagType {
    Bool,
    I32,
    U32,
    I64,
    U64,
    F64,
    Text,
}

impl FlagType {
    /// Returns gflags' name of the type, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FlagType::Bool => "bool",
            FlagType::I32 => "int32",
            FlagType::U32 => "uint32",
            FlagType::I64 => "int64",
            FlagType::U64 => "uint64",
            FlagType::F64 => "double",
            FlagType::Text => "string",
        }
    }
}

/// A mutable reference to the value of a flag, tagged with its type.
pub(super) enum Slot<'a> {
    Bool(&'a mut bool),
    I32(&'a mut i32),
    U32(&'a mut u32),
    I64(&'a mut i64),
    U64(&'a mut u64),
    F64(&'a mut f64),
    Text(&'a mut String),
}

/// A Rust type that the value of a flag can have.
pub(super) trait FlagValue {
    const TYPE: FlagType;

    /// The type of the default in the table.
    type Written;

    /// Converts the default value from the form in which the flag table has it.
    fn from_written(default: Self::Written) -> Self;

    /// Returns a mutable reference to the value, tagged with its type.
    fn slot(&mut self) -> Slot<'_>;
}

macro_rules! flag_values {
    ($($type:ty, $written:ty => $variant:ident;)*) => {$(
        impl FlagValue for $type {
            const TYPE: FlagType = FlagType::$variant;

            type Written = $written;

            fn from_written(default: $written) -> Self {
                default.into()
            }

            fn slot(&mut self) -> Slot<'_> {
                Slot::$variant(self)
            }
        }
    )*};
}

flag_values! {
    bool, bool => Bool;
    i32, i32 => I32;
    u32, u32 => U32;
    i64, i64 => I64;
    u64, u64 => U64;
    f64, f64 => F64;
    String, &'static str => Text;
}

impl Slot<'_> {
    /// Parses `text` as gflags does and stores the value; `None` if it is invalid.
    pub(super) fn parse(self, text: &str) -> Option<()> {
        match self {
            Slot::Bool(place) => *place = parse_bool(text)?,
            Slot::I32(place) => *place = parse_integer(text)?.try_into().ok()?,
            Slot::U32(place) => *place = parse_integer(text)?.try_into().ok()?,
            Slot::I64(place) => *place = parse_integer(text)?.try_into().ok()?,
            Slot::U64(place) => *place = parse_integer(text)?.try_into().ok()?,
            Slot::F64(place) => *place = text.trim_start().parse().ok()?,
            Slot::Text(place) => text.clone_into(place),
        }
        Some(())
    }

    /// Formats the flag's value as text that [`Slot::parse`] accepts.
    pub(super) fn show(&self) -> String {
        match self {
            Slot::Bool(place) => place.to_string(),
            Slot::I32(place) => place.to_string(),
            Slot::U32(place) => place.to_string(),
            Slot::I64(place) => place.to_string(),
            Slot::U64(place) => place.to_string(),
            Slot::F64(place) => place.to_string(),
            Slot::Text(place) => (*place).clone(),
        }
    }
}

/// Parses a boolean like gflags; `None` if it is none of the accepted words.
fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// Parses a decimal number, or a hexadecimal one after `0x`; there are no suffixes.
fn parse_integer(text: &str) -> Option<i128> {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let magnitude = match hexadecimal {
        Some(digits) => i128::from(u64::from_str_radix(digits, 16).ok()?),
        None => i128::from(digits.parse::<u64>().ok()?),
    };
    Some(if negative { -magnitude } else { magnitude })
}
