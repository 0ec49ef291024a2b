//! The target `blob_file` of `koeldb_damage`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| koeldb_damage::targets::run("blob_file", data));
