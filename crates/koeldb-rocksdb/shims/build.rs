//! Tells the sources of `koeldb-rocksdb` which release of the crate `rocksdb` the shim stands for.

fn main() {
    let minor: u32 = std::env::var("CARGO_PKG_VERSION_MINOR")
        .ok()
        .and_then(|minor| minor.parse().ok())
        .expect("Cargo sets the version of the package");
    println!("cargo::rerun-if-changed=../build.rs");
    // Of the sources, not of each shim.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"raw-ptr\"))");
    for later in 20..=25 {
        println!("cargo::rustc-check-cfg=cfg(before_0_{later})");
        if minor < later {
            println!("cargo::rustc-cfg=before_0_{later}");
        }
    }
}
