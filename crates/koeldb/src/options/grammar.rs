//! The grammar of option strings: from text to names and values.
//!
//! ```text
//! options := [ '{' ] pair { ';' pair } [ ';' ] [ '}' ]
//! pair    := name '=' value
//! value   := '{' balanced '}'  |  any text up to the next ';'
//! ```
//!
//! The grammar applies to whole option strings, nested structs and descriptions of objects.
//! Blanks around names and values are removed. This module does not know any option.

use super::registry::Refusal;

/// Blanks around names and values.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Drops blanks at both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(BLANKS)
}

/// Drops blanks and one pair of braces around the whole text.
pub(crate) fn strip_braces(text: &str) -> &str {
    let text = trim(text);
    match text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
    {
        Some(inner) => trim(inner),
        None => text,
    }
}

/// Drops the braces around the whole text if they match each other, as those of `{a}:{b}` do not.
pub(crate) fn strip_outer_braces(text: &str) -> &str {
    let text = trim(text);
    match text.starts_with('{').then(|| split_braced(text)).flatten() {
        Some((_, "")) => strip_braces(text),
        _ => text,
    }
}

/// Splits `text` behind the brace that closes the one at its start; `None` if none does.
fn split_braced(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth = depth.saturating_add(1),
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return text.split_at_checked(at.saturating_add(1));
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits an option string into names and values, in the order of the text.
///
/// The last value of a repeated name wins. A value in braces keeps them.
pub(crate) fn pairs(text: &str) -> Result<Vec<(&str, &str)>, Refusal> {
    let mut rest = trim(text);
    while let Some(inner) = rest
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
    {
        rest = trim(inner);
    }
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    while !rest.is_empty() {
        let (name, value, behind) = first_pair(rest)?;
        match pairs.iter_mut().find(|(known, _)| *known == name) {
            Some(pair) => pair.1 = value,
            None => pairs.push((name, value)),
        }
        rest = behind;
    }
    Ok(pairs)
}

/// Splits off the first `name=value` pair of an option string; returns name, value and rest.
fn first_pair(text: &str) -> Result<(&str, &str, &str), Refusal> {
    let Some((name, rest)) = text
        .find(['=', '{', '}', ';'])
        .and_then(|at| text.split_at_checked(at))
    else {
        return Err(Refusal::invalid(format!(
            "Mismatched key value pair, '=' expected: \"{text}\" is not of the form name=value"
        )));
    };
    let Some(rest) = rest.strip_prefix('=') else {
        return Err(Refusal::invalid(format!(
            "Unexpected char in key: a name and '=' are expected at \"{}\"",
            excerpt(text)
        )));
    };
    let name = trim(name);
    if name.is_empty() {
        return Err(Refusal::invalid(format!(
            "Empty key found: a name is expected before '=' at \"{}\"",
            excerpt(text)
        )));
    }
    let rest = trim(rest);
    if !rest.starts_with('{') {
        let (value, behind) = rest.split_once(';').unwrap_or((rest, ""));
        return Ok((name, trim(value), trim(behind)));
    }
    let Some((value, behind)) = split_braced(rest) else {
        return Err(Refusal::invalid(format!(
            "Mismatched curly braces for nested options: the '{{' of {name} is never closed"
        )));
    };
    let behind = trim(behind);
    match behind.strip_prefix(';') {
        Some(behind) => Ok((name, value, trim(behind))),
        None if behind.is_empty() => Ok((name, value, "")),
        None => Err(Refusal::invalid(format!(
            "Unexpected chars after nested options: ';' is expected after the '}}' of {name}, not \"{}\"",
            excerpt(behind)
        ))),
    }
}

/// Splits the value of the option `name`, a list, at each `:` outside of braces.
///
/// A trailing `:` is valid, an empty element is not.
pub(crate) fn elements<'a>(name: &str, text: &'a str) -> Result<Vec<&'a str>, Refusal> {
    let mut rest = trim(text);
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let (element, behind) = if rest.starts_with('{') {
            split_braced(rest).ok_or_else(|| {
                Refusal::invalid(format!(
                    "Mismatched curly braces for nested options in the list {name}"
                ))
            })?
        } else {
            match rest.find(':').and_then(|at| rest.split_at_checked(at)) {
                Some(parts) => parts,
                None => (rest, ""),
            }
        };
        let element = trim(element);
        if element.is_empty() {
            return Err(Refusal::invalid(format!(
                "Error parsing {name}: the list \"{text}\" has an empty element"
            )));
        }
        elements.push(element);
        let behind = trim(behind);
        rest = match behind.strip_prefix(':') {
            Some(behind) => trim(behind),
            None if behind.is_empty() => "",
            None => {
                return Err(Refusal::invalid(format!(
                    "Unexpected chars after nested options in the list {name}: ':' is expected, not \"{}\"",
                    excerpt(behind)
                )));
            }
        };
    }
    Ok(elements)
}

/// Reverts [`escape`]: `\r` and `\n` become line breaks, other escaped characters themselves.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.push(char);
            continue;
        }
        match chars.next() {
            Some('r') => out.push('\r'),
            Some('n') => out.push('\n'),
            Some(other) => out.push(other),
            None => out.push('\\'),
        }
    }
    out
}

/// Escapes characters with a special meaning in the values and names of OPTIONS files.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' | '#' | ':' => out.extend(['\\', char]),
            '\r' => out.push_str("\\r"),
            '\n' => out.push_str("\\n"),
            _ => out.push(char),
        }
    }
    out
}

/// Escapes the name of a user's object, such as a comparator, for option strings.
///
/// The result is one line without a comment, has no blanks at its ends, does not begin with a
/// brace, and does not mean that there is no object. Usual names stay as they are.
pub(crate) fn escape_id(name: &str) -> String {
    if name == "nullptr" {
        return format!("\\{name}");
    }
    let mut out = String::with_capacity(name.len());
    let last = name.chars().count().saturating_sub(1);
    for (at, char) in name.chars().enumerate() {
        match char {
            '\r' => out.push_str("\\r"),
            '\n' => out.push_str("\\n"),
            ' ' | '\t' if at == 0 || at == last => out.push_str("\\s"),
            '\\' | '#' => out.extend(['\\', char]),
            '{' if at == 0 => out.extend(['\\', char]),
            _ => out.push(char),
        }
    }
    out
}

/// Adds braces to a text with a `;` outside of braces, so that it stays one value.
pub(crate) fn protect(text: &str) -> String {
    if text.contains(';') && !text.starts_with('{') {
        format!("{{{text}}}")
    } else {
        text.to_owned()
    }
}

/// The beginning of `text`, for error messages.
fn excerpt(text: &str) -> String {
    text.chars().take(32).collect()
}
