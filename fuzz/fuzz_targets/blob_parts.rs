//! The target `blob_parts` of `koeldb_damage`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| koeldb_damage::targets::run("blob_parts", data));
