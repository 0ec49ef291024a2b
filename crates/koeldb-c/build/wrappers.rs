//! Generator of the exported functions: conversions around calls of functions of this crate.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::abi::{Abi, Function, Parameter, Passing, split};

/// Returns the C type without `const`, and the number of its pointers.
fn base(c_type: &str) -> (String, usize) {
    let pointers = c_type.matches('*').count();
    let base = c_type.split('*').next().unwrap_or_default();
    let words = base.split_whitespace().filter(|word| *word != "const");
    (words.collect::<Vec<_>>().join(" "), pointers)
}

/// Returns the Rust type of a C type.
fn raw_type(abi: &Abi, c_type: &str) -> String {
    if let Some((returns, arguments)) = c_type.split_once("(*)") {
        let arguments = arguments.trim().trim_start_matches('(');
        let arguments = arguments.strip_suffix(')').expect("arguments");
        let arguments: Vec<String> = split(arguments)
            .into_iter()
            .filter(|argument| *argument != "void")
            .map(|argument| raw_type(abi, unnamed(argument)))
            .collect();
        let returns = match returns.trim() {
            "void" => String::new(),
            returns => format!(" -> {}", raw_type(abi, returns)),
        };
        return format!(
            "Option<unsafe extern \"C\" fn({}){returns}>",
            arguments.join(", ")
        );
    }
    let (base, _) = base(c_type);
    let mut rust = match base.as_str() {
        "void" if !c_type.contains('*') => return "()".to_owned(),
        "void" => "c_void".to_owned(),
        "char" => "c_char".to_owned(),
        "unsigned char" | "uint8_t" => "u8".to_owned(),
        "bool" => "bool".to_owned(),
        "int" | "int32_t" => "i32".to_owned(),
        "unsigned" | "unsigned int" | "uint32_t" => "u32".to_owned(),
        "int64_t" => "i64".to_owned(),
        "uint64_t" | "unsigned long long" => "u64".to_owned(),
        "size_t" => "usize".to_owned(),
        "double" => "f64".to_owned(),
        "rocksdb_slice_t" => "crate::memory::Slice".to_owned(),
        name => match abi.types.get(name) {
            Some(opaque) => format!("crate::handle::Handle<{}>", opaque.rust),
            None => format!("callbacks::{name}"),
        },
    };
    // Each star is preceded by the qualifier of what it points to.
    let mut parts: Vec<&str> = c_type.split('*').collect();
    parts.pop();
    for before in parts {
        let kind = match before.split_whitespace().any(|word| word == "const") {
            true => "*const",
            false => "*mut",
        };
        rust = format!("{kind} {rust}");
    }
    rust
}

/// Removes the name of a parameter of a callback, which may be missing.
fn unnamed(parameter: &str) -> &str {
    let is_type = |word: &str| {
        word.ends_with('*') || word.ends_with("_t") || ["char", "int", "unsigned"].contains(&word)
    };
    match parameter.rsplit_once(' ') {
        Some((c_type, name)) if !is_type(name) => c_type,
        _ => parameter,
    }
}

/// Returns whether a function has the parameter `errptr`.
fn has_errptr(function: &Function) -> bool {
    let last = function.parameters.last();
    last.is_some_and(|last| last.c_type == "char**" && last.name == "errptr")
}

/// Returns whether `next` is the length of the bytes `parameter`.
fn is_length(parameter: &Parameter, next: Option<&Parameter>) -> bool {
    parameter.c_type == "const char*"
        && next.is_some_and(|next| {
            next.c_type == "size_t" && (next.name.contains("len") || next.name.contains("size"))
        })
}

/// Returns the name of the out-parameter for the length of the returned bytes.
fn returned_length(function: &Function) -> Option<&str> {
    if !matches!(function.returns.as_str(), "char*" | "const char*") {
        return None;
    }
    let mut lengths = function
        .parameters
        .iter()
        .filter(|parameter| parameter.c_type == "size_t*");
    lengths.next_back().map(|parameter| parameter.name.as_str())
}

/// Returns the arguments of a safe function, converted from the parameters.
fn arguments(abi: &Abi, function: &Function) -> Vec<String> {
    let length = returned_length(function);
    let mut arguments = Vec::new();
    let mut parameters = function.parameters.iter().peekable();
    while let Some(parameter) = parameters.next() {
        let name = &parameter.name;
        let is_optional = parameter.passing == Passing::Optional;
        if is_length(parameter, parameters.peek().copied()) {
            let length = &parameters.next().expect("peeked").name;
            arguments.push(match is_optional {
                true => format!("memory::optional_bytes({name}, {length})?"),
                false => format!("memory::bytes({name}, {length}, {name:?})?"),
            });
            continue;
        }
        let (base, pointers) = base(&parameter.c_type);
        let is_const = parameter.c_type.starts_with("const ");
        let opaque = abi.types.get(&base).filter(|_| pointers == 1);
        let argument = match (parameter.c_type.as_str(), opaque) {
            ("char**", _) if name == "errptr" => continue,
            ("size_t*", _) if length == Some(name) => continue,
            (_, Some(opaque)) => {
                let how = match parameter.passing {
                    Passing::Given => "take",
                    Passing::Optional => "optional",
                    Passing::Lent if is_const || opaque.is_shared => "shared",
                    Passing::Lent => "exclusive",
                };
                match parameter.passing {
                    Passing::Optional => format!("handle::{how}({name})"),
                    _ => format!("handle::{how}({name}, {name:?})?"),
                }
            }
            ("const char*", _) if is_optional => format!("memory::optional_text({name})"),
            ("const char*", _) => format!("memory::text({name}, {name:?})?"),
            ("unsigned char", _) => format!("{name} != 0"),
            _ if pointers == 1 && !is_const => format!("memory::out({name})"),
            _ if pointers == 0 => name.clone(),
            (c_type, _) => panic!("{}: {c_type} has no safe form", function.name),
        };
        arguments.push(argument);
    }
    arguments
}

/// Returns the conversion of a result to the returned C type.
fn returned(abi: &Abi, function: &Function, result: &str) -> String {
    let (base, pointers) = base(&function.returns);
    match (function.returns.as_str(), returned_length(function)) {
        ("void", _) => format!("{{ let _ = {result}; }}"),
        ("char*", Some(length)) => format!("memory::give_bytes({result}, {length})"),
        ("char*", None) => format!("memory::give_text({result})"),
        ("const char*", Some(length)) => format!("memory::lend_bytes({result}, {length})"),
        ("const char*", None) => format!("memory::lend_text({result})"),
        _ if pointers == 1 && abi.types.contains_key(&base) => {
            let cast = if function.returns.starts_with("const ") {
                ".cast_const()"
            } else {
                ""
            };
            format!("handle::give({result}){cast}")
        }
        _ => format!("memory::ToC::to_c({result})"),
    }
}

/// Returns the body of a function, an expression of the type `Result<_, Failure>`.
fn body(abi: &Abi, function: &Function) -> String {
    let (does, argument) = (function.does.0.as_str(), function.does.1.as_str());
    let named = |at: usize| function.parameters[at].name.as_str();
    let own_type = || {
        let parameter = function.parameters.first();
        let c_type = parameter.map_or(&function.returns, |parameter| &parameter.c_type);
        &abi.types[&base(c_type).0].rust
    };
    let question = if has_errptr(function) { "?" } else { "" };
    match does {
        "create" => format!("Ok(handle::give(<{}>::default()))", own_type()),
        "destroy" => format!("{{ handle::destroy({}); Ok(()) }}", named(0)),
        "safe" => {
            let call = format!(
                "crate::{argument}({}){question}",
                arguments(abi, function).join(", ")
            );
            format!("Ok({})", returned(abi, function, &call))
        }
        "raw" => {
            let names = function
                .parameters
                .iter()
                .filter(|parameter| parameter.name != "errptr");
            let names: Vec<&str> = names.map(|parameter| parameter.name.as_str()).collect();
            format!("Ok(crate::{argument}({}){question})", names.join(", "))
        }
        "option" if function.returns == "void" => {
            let value = match function.parameters[1].c_type.as_str() {
                "unsigned char" => format!("{} != 0", named(1)),
                "const char*" => format!("memory::text({}, {:?})?", named(1), named(1)),
                _ => named(1).to_owned(),
            };
            format!(
                "Ok(crate::settings::option_text::set(handle::exclusive({}, {:?})?, {argument:?}, {value}))",
                named(0),
                named(0)
            )
        }
        "option" => format!(
            "crate::settings::option_text::get(handle::shared({}, {:?})?, {argument:?})",
            named(0),
            named(0)
        ),
        "accepted" => "Ok(())".to_owned(),
        "refused" => format!(
            "boundary::refused({:?}, {argument:?}, {})",
            function.name,
            has_errptr(function)
        ),
        other => panic!("{}: {other:?} is unknown", function.name),
    }
}

/// Returns the Rust source of all exported functions.
pub(crate) fn generate(abi: &Abi) -> String {
    let mut out = String::from(
        "use std::ffi::{c_char, c_void};\nuse crate::{boundary, handle, memory};\n\
         #[allow(dead_code, reason = \"one is declared for C alone\")]\n\
         #[expect(non_camel_case_types, reason = \"names of C\")]\npub(crate) mod callbacks {\nuse std::ffi::{c_char, c_void};\n",
    );
    for (name, signature) in &abi.callbacks {
        let _ = writeln!(
            out,
            "pub(crate) type {name} = {};",
            raw_type(abi, signature)
        );
    }
    out.push_str("}\n");
    let types: BTreeSet<&str> = abi
        .types
        .values()
        .map(|opaque| opaque.rust.as_str())
        .collect();
    for name in types {
        let _ = writeln!(
            out,
            "impl handle::Given for {name} {{\n    type Value = {name};\n    \
             fn given(self) -> Option<{name}> {{ Some(self) }}\n}}"
        );
    }
    for function in &abi.functions {
        let parameters: Vec<String> = (function.parameters.iter())
            .map(|parameter| format!("{}: {}", parameter.name, raw_type(abi, &parameter.c_type)))
            .collect();
        let errptr = if has_errptr(function) {
            "errptr"
        } else {
            "std::ptr::null_mut()"
        };
        // SAFETY of the generated block: the caller of C keeps the rules that `src/lib.rs` lists.
        let _ = write!(
            out,
            "#[unsafe(no_mangle)]\nunsafe extern \"C\" fn {name}({parameters}) -> {returns} {{\n    \
             unsafe {{ boundary::call({name:?}, {errptr}, move || {body}) }}\n}}\n",
            name = function.name,
            parameters = parameters.join(", "),
            returns = raw_type(abi, &function.returns),
            body = body(abi, function),
        );
    }
    out
}
