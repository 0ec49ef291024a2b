//! Every function with null arguments, and with objects of another type.
//!
//! A generated program calls each function in a process of its own. A call may fail or end the
//! process with a line that names the function. It must not fault.

use std::fmt::Write;
use std::path::Path;

use crate::abi::{Abi, Function, Parameter};
use crate::programs;

/// Returns an argument of a call: null, or `wrong` for an object and a text for bytes.
fn argument(abi: &Abi, parameter: &Parameter, next: Option<&Parameter>, is_wrong: bool) -> String {
    let base = parameter.c_type.trim_start_matches("const ");
    let object = base.strip_suffix('*').map(str::trim);
    let is_object = object.is_some_and(|name| abi.types.contains_key(name));
    let has_length = next.is_some_and(|next| next.c_type == "size_t");
    match base {
        "char**" if parameter.name == "errptr" => "&error".to_owned(),
        "rocksdb_slice_t" => "(rocksdb_slice_t){0, 0}".to_owned(),
        _ if is_wrong && is_object => "(void*)wrong".to_owned(),
        "char*" if is_wrong && parameter.c_type.starts_with("const") => "\"x\"".to_owned(),
        "size_t" if is_wrong && parameter.name.contains("len") => "1".to_owned(),
        // A length without bytes.
        "char*" if has_length => "0".to_owned(),
        _ => "0".to_owned(),
    }
}

/// Returns the call of a function.
fn call(abi: &Abi, function: &Function, is_wrong: bool) -> String {
    let parameters = &function.parameters;
    let arguments: Vec<String> = (0..parameters.len())
        .map(|at| argument(abi, &parameters[at], parameters.get(at + 1), is_wrong))
        .collect();
    format!("{}({})", function.name, arguments.join(", "))
}

const BEGIN: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "koeldb.h"

static char* error = NULL;
static rocksdb_writeoptions_t* wrong;

static void call(int number) {
  switch (number) {
"#;

const END: &str = r#"
  }
}

int main(void) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  wrong = rocksdb_writeoptions_create();
  int faults = 0;
  for (int number = 0; number < (int)(sizeof(names) / sizeof(*names)); number++) {
    int lines[2], status;
    CHECK(pipe(lines) == 0);
    pid_t child = fork();
    if (child == 0) {
      dup2(lines[1], 2);
      alarm(20);
      call(number);
      _exit(0);
    }
    close(lines[1]);
    char text[4096], expected[200];
    size_t length = 0;
    ssize_t count;
    while ((count = read(lines[0], text + length, sizeof(text) - 1 - length)) > 0) {
      length += (size_t)count;
    }
    text[length] = 0;
    close(lines[0]);
    CHECK(waitpid(child, &status, 0) == child);
    snprintf(expected, sizeof(expected), "koeldb: %s: ", names[number]);
    int is_named = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
                   strstr(text, expected) != NULL;
    if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0) && !is_named) {
      printf("%s: status %x: %s\n", names[number], status, text);
      faults++;
    }
  }
  CHECK(faults == 0);
  return 0;
}
"#;

/// Runs a program that calls all functions but `except`.
fn run(name: &str, is_wrong: bool, except: &[&str]) {
    let abi = Abi::read(Path::new("abi"));
    let functions = abi
        .functions
        .iter()
        .filter(|function| !except.contains(&function.name.as_str()));
    let mut calls = String::new();
    let mut names = String::from("static const char* const names[] = {\n");
    for (at, function) in functions.enumerate() {
        let call = call(&abi, function, is_wrong);
        let _ = writeln!(calls, "    case {at}: {call}; break;");
        let _ = writeln!(names, "  \"{}\",", function.name);
    }
    names.push_str("};\n");
    programs::run_source(
        name,
        &format!("{BEGIN}{calls}{END}").replacen(
            "static char* error",
            &format!("{names}\nstatic char* error"),
            1,
        ),
    );
}

#[test]
fn null_arguments() {
    run("null_arguments", false, &[]);
}

/// Only debug builds check the types of objects.
#[test]
#[cfg(debug_assertions)]
fn objects_of_another_type() {
    run("objects_of_another_type", true, &["rocksdb_free"]);
}
