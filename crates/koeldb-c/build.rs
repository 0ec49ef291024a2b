//! Generates the exported functions from the tables in `abi/`.

use std::path::Path;
use std::{env, fs};

#[path = "build/abi.rs"]
#[allow(dead_code, reason = "the tests read tiers and constants, too")]
mod abi;
#[path = "build/wrappers.rs"]
mod wrappers;

#[expect(
    clippy::disallowed_methods,
    reason = "a build script writes into its own folder"
)]
fn main() {
    println!("cargo::rerun-if-changed=abi");
    println!("cargo::rerun-if-changed=build");
    // What programs record is this name, whatever the file is called.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libkoeldb.so.0");
    let abi = abi::Abi::read(Path::new("abi"));
    let path = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("functions.rs");
    fs::write(path, wrappers::generate(&abi)).expect("the build folder is writable");
}
