//! The target `log_round_trip` of `koeldb_damage`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| koeldb_damage::targets::run("log_round_trip", data));
