//! The library exports the functions of the table, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::abi::Abi;
use crate::programs::library_path;

#[test]
fn the_symbols_are_the_functions_of_the_table() {
    let listed = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(library_path())
        .output();
    let Ok(listed) = listed else {
        println!("notice: the symbols of the C library: no nm");
        return;
    };
    let listed = String::from_utf8(listed.stdout).unwrap();
    let symbols: BTreeSet<&str> = (listed.lines())
        .filter_map(|line| line.split(' ').next())
        .collect();
    let abi = Abi::read(Path::new("abi"));
    let functions: BTreeSet<&str> = (abi.functions.iter())
        .map(|function| function.name.as_str())
        .collect();
    let difference: Vec<_> = symbols.symmetric_difference(&functions).collect();
    assert!(difference.is_empty(), "{difference:?}");
    assert_eq!(functions.len(), 1_750);
}

/// Prints how many functions of each tier work.
#[test]
fn coverage_by_tier() {
    let abi = Abi::read(Path::new("abi"));
    for tier in ["T0", "T1", "T2", "T3", "T4", "T5"] {
        let of_tier = abi
            .functions
            .iter()
            .filter(|function| function.tier == tier);
        let does: Vec<&str> = of_tier.map(|function| function.does.0.as_str()).collect();
        let count = |words: &[&str]| does.iter().filter(|does| words.contains(does)).count();
        println!(
            "{tier}: {} functions, {} work, {} accepted, {} refused",
            does.len(),
            count(&["safe", "raw", "create", "destroy", "option"]),
            count(&["accepted"]),
            count(&["refused"]),
        );
    }
}
