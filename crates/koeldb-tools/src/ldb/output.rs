//! Parses keys and values of the command line, and prints results.

use std::io::{self, BufWriter, Stdout, Write};

use koeldb::Columns;

use super::args::Global;
use super::{Failure, Outcome};
use crate::columns;
use crate::json::{Json, JsonValue};
use crate::text::{hex, parse_hex};

/// The writer to standard output, with the configured format of keys and values.
pub(super) struct Output {
    out: BufWriter<Stdout>,
    pub(super) key_hex: bool,
    pub(super) value_hex: bool,
    pub(super) json: bool,
}

impl Output {
    pub(super) fn new(global: &Global) -> Self {
        Output {
            out: BufWriter::new(io::stdout()),
            key_hex: global.hex || global.key_hex,
            value_hex: global.hex || global.value_hex,
            json: global.json,
        }
    }

    /// Flushes the buffered output.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Parses a key argument, hexadecimal with `--key_hex`.
    pub(super) fn parse_key(&self, text: &str) -> Outcome<Vec<u8>> {
        parse(text, self.key_hex)
    }

    /// Parses a value argument, hexadecimal with `--value_hex`.
    pub(super) fn parse_value(&self, text: &str) -> Outcome<Vec<u8>> {
        parse(text, self.value_hex)
    }

    /// Prints a line.
    pub(super) fn line(&mut self, text: &str) -> Outcome {
        writeln!(self.out, "{text}")?;
        Ok(())
    }

    /// Prints the confirmation of a change: `OK`, or a JSON object.
    pub(super) fn ok(&mut self) -> Outcome {
        if self.json {
            let mut json = Json::object();
            json.set("ok", true);
            return self.object(json);
        }
        self.line("OK")
    }

    /// Prints a JSON object on a line.
    pub(super) fn object(&mut self, json: Json) -> Outcome {
        self.line(&json.finish())
    }

    /// Prints a key on a line, in the configured format.
    pub(super) fn key(&mut self, key: &[u8]) -> Outcome {
        if self.json {
            let mut json = Json::object();
            json.set("key", JsonValue::Hex(key));
            return self.object(json);
        }
        write_bytes(&mut self.out, key, self.key_hex)?;
        writeln!(self.out)?;
        Ok(())
    }

    /// Prints a value on a line, in the configured format.
    pub(super) fn value(&mut self, value: &[u8]) -> Outcome {
        write_bytes(&mut self.out, value, self.value_hex)?;
        writeln!(self.out)?;
        Ok(())
    }

    /// Prints an entry as `key ==> value`, or as a JSON object.
    pub(super) fn entry(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        if self.json {
            let mut json = Json::object();
            json.set("key", JsonValue::Hex(key))
                .set("value", JsonValue::Hex(value));
            return self.object(json);
        }
        write_bytes(&mut self.out, key, self.key_hex)?;
        self.out.write_all(b" ==> ")?;
        write_bytes(&mut self.out, value, self.value_hex)?;
        writeln!(self.out)?;
        Ok(())
    }

    /// Prints an entry as [`Output::entry`] if it has no column but the default one, or else as
    /// `key ==> :value name:value`.
    pub(super) fn entry_of(&mut self, key: &[u8], columns: Columns<'_>) -> Outcome {
        match columns::is_plain(columns) {
            true => self.entry(key, columns.default_value()),
            false => self.columns(key, columns, true),
        }
    }

    /// Prints the columns of a key as `:value name:value`, or a JSON object with the key.
    pub(super) fn columns(&mut self, key: &[u8], columns: Columns<'_>, with_key: bool) -> Outcome {
        if self.json {
            let mut json = Json::object();
            json.set("key", JsonValue::Hex(key))
                .set("columns", columns::json(columns));
            return self.object(json);
        }
        if with_key {
            write_bytes(&mut self.out, key, self.key_hex)?;
            self.out.write_all(b" ==> ")?;
        }
        self.out
            .write_all(&columns::text(columns, self.value_hex))?;
        writeln!(self.out)?;
        Ok(())
    }

    /// Returns the writer, for output with its own format.
    pub(super) fn writer(&mut self) -> &mut impl Write {
        &mut self.out
    }
}

/// Parses an argument as text, or with `in_hex` as hexadecimal that must start with `0x`.
fn parse(text: &str, in_hex: bool) -> Outcome<Vec<u8>> {
    if !in_hex {
        return Ok(text.as_bytes().to_vec());
    }
    if !text.starts_with("0x") && !text.starts_with("0X") {
        let message = format!("Invalid hex input {text}.  Must start with 0x");
        return Err(Failure::Message(message));
    }
    Ok(parse_hex(text)?)
}

/// Writes bytes raw, or with `in_hex` as `0x` and hexadecimal digits.
fn write_bytes(out: &mut impl Write, bytes: &[u8], in_hex: bool) -> io::Result<()> {
    if in_hex {
        write!(out, "0x{}", hex(bytes))
    } else {
        out.write_all(bytes)
    }
}
