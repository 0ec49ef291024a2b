//! A JSON writer: objects and arrays that are built in order.

use std::fmt::Write as _;

/// A writer of one JSON object or array, as text.
#[derive(Clone, Debug)]
pub(crate) struct Json {
    text: String,
    close: char,
    empty: bool,
}

/// A value of a JSON document.
pub(crate) enum JsonValue<'a> {
    Text(&'a str),
    /// Bytes, written as a string in lower-case hexadecimal.
    Hex(&'a [u8]),
    Count(u64),
    Integer(i64),
    Number(f64),
    Bool(bool),
    Nested(Json),
}

macro_rules! from {
    ($($type:ty => $variant:ident,)*) => {$(
        impl<'a> From<$type> for JsonValue<'a> {
            fn from(value: $type) -> Self {
                JsonValue::$variant(value.into())
            }
        }
    )*};
}

from! {
    &'a str => Text,
    u64 => Count,
    u32 => Count,
    i64 => Integer,
    i32 => Integer,
    f64 => Number,
    bool => Bool,
    Json => Nested,
}

impl<'a> From<&'a String> for JsonValue<'a> {
    fn from(value: &'a String) -> Self {
        JsonValue::Text(value)
    }
}

impl Json {
    /// Starts a JSON object.
    pub(crate) fn object() -> Self {
        Json {
            text: "{".to_owned(),
            close: '}',
            empty: true,
        }
    }

    /// Starts a JSON array.
    pub(crate) fn array() -> Self {
        Json {
            text: "[".to_owned(),
            close: ']',
            empty: true,
        }
    }

    /// Adds a member to an object.
    pub(crate) fn set<'a>(&mut self, name: &str, value: impl Into<JsonValue<'a>>) -> &mut Self {
        self.separate();
        write_string(&mut self.text, name);
        self.text.push(':');
        self.write(value.into());
        self
    }

    /// Adds an item to an array.
    pub(crate) fn push<'a>(&mut self, value: impl Into<JsonValue<'a>>) -> &mut Self {
        self.separate();
        self.write(value.into());
        self
    }

    /// Closes the object or array and returns its text.
    pub(crate) fn finish(mut self) -> String {
        self.text.push(self.close);
        self.text
    }

    /// Appends a comma unless the object or array is empty.
    fn separate(&mut self) {
        if !std::mem::take(&mut self.empty) {
            self.text.push(',');
        }
    }

    /// Appends the text of a value.
    fn write(&mut self, value: JsonValue<'_>) {
        let out = &mut self.text;
        // Writing to a string cannot fail.
        let _ = match value {
            JsonValue::Text(text) => {
                write_string(out, text);
                Ok(())
            }
            JsonValue::Hex(bytes) => {
                out.push('"');
                let digits = bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"));
                out.push('"');
                digits
            }
            JsonValue::Count(count) => write!(out, "{count}"),
            JsonValue::Integer(integer) => write!(out, "{integer}"),
            JsonValue::Number(number) if number.is_finite() => write!(out, "{number}"),
            JsonValue::Number(_) => write!(out, "null"),
            JsonValue::Bool(bool) => write!(out, "{bool}"),
            JsonValue::Nested(json) => {
                out.push_str(&json.finish());
                Ok(())
            }
        };
    }
}

/// Appends a JSON string with quotes and escapes.
fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_items_are_separated_and_strings_escaped() {
        let mut inner = Json::array();
        inner
            .push(1u64)
            .push(-2i64)
            .push(0.5)
            .push(f64::NAN)
            .push(true);
        let mut json = Json::object();
        json.set("a\"b", "c\\d\n\u{1}").set("list", inner);
        json.set("key", JsonValue::Hex(&[0, 0xff]));
        assert_eq!(
            json.finish(),
            r#"{"a\"b":"c\\d\n\u0001","list":[1,-2,0.5,null,true],"key":"00ff"}"#
        );
    }
}
