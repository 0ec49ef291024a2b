//! The tables of `abi/`: functions, types, callbacks and constants of `rocksdb/c.h`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// All tables.
pub(crate) struct Abi {
    pub(crate) functions: Vec<Function>,
    /// Opaque types by their C name.
    pub(crate) types: BTreeMap<String, Opaque>,
    /// Types of callbacks and their signatures, which have `(*)` in place of the name.
    pub(crate) callbacks: Vec<(String, String)>,
    pub(crate) constants: Vec<(String, String)>,
}

/// An exported function.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) returns: String,
    pub(crate) parameters: Vec<Parameter>,
    /// Its use among bindings of other languages: from all of six (T0) to none (T5).
    pub(crate) tier: String,
    /// The implementation: a word of the table in the crate's documentation, and its argument.
    pub(crate) does: (String, String),
}

/// A parameter of a function.
pub(crate) struct Parameter {
    pub(crate) c_type: String,
    pub(crate) name: String,
    pub(crate) passing: Passing,
}

/// The ownership of an object that a pointer passes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passing {
    /// Lent for the call.
    Lent,
    /// Lent for the call, or null (`?name`).
    Optional,
    /// Given away (`!name`).
    Given,
}

/// An opaque type.
pub(crate) struct Opaque {
    /// The path of the Rust type.
    pub(crate) rust: String,
    /// Whether functions share objects even through a pointer without `const`.
    pub(crate) is_shared: bool,
}

/// Reads the lines of a table behind its heading.
fn lines(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect();
    text.lines().skip(1).map(fields).collect()
}

/// Splits at the commas that are outside of parentheses.
pub(crate) fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = list[start..].trim();
    parts.extend((!last.is_empty()).then_some(last));
    parts
}

/// Reads a parameter: `TYPE name`, `TYPE ?name`, `TYPE !name`, or a pointer to a function.
fn parameter(text: &str) -> Parameter {
    if let Some((returns, rest)) = text.split_once("(*") {
        let (name, arguments) = rest.split_once(')').expect("a pointer to a function");
        return Parameter {
            c_type: format!("{returns}(*){arguments}"),
            name: name.to_owned(),
            passing: Passing::Lent,
        };
    }
    let (c_type, name) = text.rsplit_once(' ').expect("type and name");
    let (passing, name) = match name.chars().next() {
        Some('?') => (Passing::Optional, &name[1..]),
        Some('!') => (Passing::Given, &name[1..]),
        _ => (Passing::Lent, name),
    };
    Parameter {
        c_type: c_type.to_owned(),
        name: name.to_owned(),
        passing,
    }
}

impl Abi {
    /// Reads the tables of a folder.
    pub(crate) fn read(folder: &Path) -> Self {
        let pair = |line: Vec<String>| (line[0].clone(), line[1].clone());
        let function = |line: Vec<String>| {
            let (does, argument) = line[4].split_once(' ').unwrap_or((&line[4], ""));
            Function {
                name: line[0].clone(),
                returns: line[1].clone(),
                parameters: split(&line[2]).into_iter().map(parameter).collect(),
                tier: line[3].clone(),
                does: (does.to_owned(), argument.to_owned()),
            }
        };
        let opaque = |line: Vec<String>| {
            let is_shared = line[2] == "shared";
            let rust = line[1].clone();
            (line[0].clone(), Opaque { rust, is_shared })
        };
        let table = |name: &str| lines(&folder.join(name));
        Abi {
            functions: table("functions.tsv").into_iter().map(function).collect(),
            types: table("types.tsv").into_iter().map(opaque).collect(),
            callbacks: table("callbacks.tsv").into_iter().map(pair).collect(),
            constants: table("constants.tsv").into_iter().map(pair).collect(),
        }
    }
}
