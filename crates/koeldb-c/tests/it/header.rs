//! `include/rocksdb/c.h` equals the header generated from the tables of `abi/`.

use std::fmt::Write;
use std::path::Path;

use crate::abi::{Abi, Parameter, Passing};

fn parameter(parameter: &Parameter) -> String {
    match parameter.c_type.split_once("(*)") {
        Some((returns, arguments)) => format!("{returns}(*{}){arguments}", parameter.name),
        None => format!("{} {}", parameter.c_type, parameter.name),
    }
}

/// Returns a note of the pointers that may be null or are given away.
fn note(parameters: &[Parameter]) -> String {
    let of = |passing: Passing, note: &str| {
        let names = parameters
            .iter()
            .filter(|parameter| parameter.passing == passing);
        let names: Vec<&str> = names.map(|parameter| parameter.name.as_str()).collect();
        match names.is_empty() {
            true => String::new(),
            false => format!("/* {}: {note} */\n", names.join(", ")),
        }
    };
    of(Passing::Optional, "may be null") + &of(Passing::Given, "given away")
}

fn header(abi: &Abi) -> String {
    let mut out = String::from(
        "/* The functions of RocksDB 11.9's rocksdb/c.h on KoelDB. C99 and C++.\n *\n \
         * Bytes that a function returns as `char*` are freed by rocksdb_free; those that it returns as\n \
         * `const char*` are lent. `*errptr` is null before the first call, and a text to be freed after\n \
         * a failure. Objects are freed by their own destroy function. An exception of C++ must not leave\n \
         * a callback. */\n\
         #pragma once\n\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n\
         #ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
    );
    for name in abi.types.keys() {
        let _ = writeln!(out, "typedef struct {name} {name};");
    }
    out.push_str("\ntypedef struct rocksdb_slice_t {\n  const char* data;\n  size_t size;\n} rocksdb_slice_t;\n\n");
    for (name, signature) in &abi.callbacks {
        let _ = writeln!(
            out,
            "typedef {};",
            signature.replacen("(*)", &format!("(*{name})"), 1)
        );
    }
    out.push_str("\nenum {\n");
    for (name, value) in &abi.constants {
        let _ = writeln!(out, "  {name} = {value},");
    }
    out.push_str("};\n\n");
    for function in abi
        .functions
        .iter()
        .filter(|function| function.name.starts_with("rocksdb_"))
    {
        let parameters: Vec<String> = function.parameters.iter().map(parameter).collect();
        let parameters = match parameters.is_empty() {
            true => "void".to_owned(),
            false => parameters.join(", "),
        };
        out.push_str(&note(&function.parameters));
        let _ = writeln!(out, "{} {}({parameters});", function.returns, function.name);
    }
    out.push_str("\n#ifdef __cplusplus\n}\n#endif\n");
    out
}

#[test]
fn the_header_is_that_of_the_tables() {
    let path = Path::new("include/rocksdb/c.h");
    let expected = header(&Abi::read(Path::new("abi")));
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap();
    assert!(
        found == expected,
        "REWRITE=1 cargo test -p koeldb-c --test it header::"
    );
}
