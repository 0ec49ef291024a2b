//! The words of a command line, and their parser.

use std::process::ExitCode;

use clap::Parser;

/// Returns the words of this process's command line, without the name of the program.
#[must_use]
pub fn words() -> Vec<String> {
    std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Parses command-line words with clap; prints help or an error, and returns the exit status then.
pub(crate) fn parse<T: Parser>(program: &str, words: &[String]) -> Result<T, ExitCode> {
    let words = std::iter::once(program).chain(words.iter().map(String::as_str));
    T::try_parse_from(words).map_err(|error| {
        // If the help cannot be written, neither can an error.
        let _ = error.print();
        if error.use_stderr() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    })
}
