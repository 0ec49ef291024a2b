//! Counts of entries by the part of the key before a delimiter.

use super::Outcome;
use super::output::Output;
use crate::json::{Json, JsonValue};

/// A counter of entries by key prefix, the part of the key before the delimiter.
pub(super) struct PrefixCounts {
    delimiter: Option<u8>,
    /// The prefix being counted, with its entries and their bytes.
    current: Option<(Vec<u8>, u64, u64)>,
}

impl PrefixCounts {
    /// Creates a counter; the prefix ends at the first byte of `delimiter`, or is the whole key.
    pub(super) fn new(delimiter: &str) -> Self {
        PrefixCounts {
            delimiter: delimiter.bytes().next(),
            current: None,
        }
    }

    /// Counts an entry; prints the previous prefix's count if the entry begins a new prefix.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8], out: &mut Output) -> Outcome {
        let end = key.iter().position(|&byte| Some(byte) == self.delimiter);
        let prefix = &key[..end.unwrap_or(key.len())];
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.0 != prefix)
        {
            self.print(out)?;
        }
        let (_, count, bytes) = self.current.get_or_insert_with(|| (prefix.to_vec(), 0, 0));
        *count += 1;
        *bytes += u64::try_from(key.len() + value.len()).unwrap_or(0);
        Ok(())
    }

    /// Prints the count of the current prefix, if there is one, and resets it.
    pub(super) fn print(&mut self, out: &mut Output) -> Outcome {
        let Some((prefix, count, bytes)) = self.current.take() else {
            return Ok(());
        };
        if out.json {
            let mut json = Json::object();
            json.set("prefix", JsonValue::Hex(&prefix))
                .set("count", count)
                .set("bytes", bytes);
            return out.object(json);
        }
        let prefix = String::from_utf8_lossy(&prefix);
        out.line(&format!("{prefix} => count:{count}\tsize:{bytes}"))
    }
}
