//! The cost of the functions of C over the engine's: a cached get, copied or pinned.
//!
//! ```sh
//! cargo bench -p koeldb-c --bench overhead
//! ```
//!
//! Rounds of the three alternate. Printed are the medians of the times, and of the differences
//! within a round. The functions are linked statically; a call into the shared library takes one
//! more jump.
//!
//! `ONLY=engine`, `get` or `pinned` runs one of them alone, and `ROUNDS` sets the number of rounds.
//! The difference between two runs with other `ROUNDS` under callgrind gives the instructions of a
//! call.
//!
//! ```sh
//! ONLY=get ROUNDS=101 valgrind --tool=callgrind BENCHMARK
//! ```
#![expect(unsafe_code, reason = "calls functions of C")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark takes the time of the machine"
)]
#![expect(clippy::unwrap_used, reason = "what fails ends the benchmark")]
#![expect(clippy::cast_precision_loss, reason = "times are printed as numbers")]

use std::ffi::{CString, c_char, c_void};
use std::hint::black_box;
use std::path::Path;
use std::ptr;
use std::time::Instant;

// Links the functions.
use koeldb_c as _;

unsafe extern "C" {
    fn rocksdb_options_create() -> *mut c_void;
    fn rocksdb_options_destroy(options: *mut c_void);
    fn rocksdb_readoptions_create() -> *mut c_void;
    fn rocksdb_readoptions_destroy(options: *mut c_void);
    fn rocksdb_open(
        options: *const c_void,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut c_void;
    fn rocksdb_close(db: *mut c_void);
    fn rocksdb_get(
        db: *mut c_void,
        options: *const c_void,
        key: *const c_char,
        length: usize,
        value_length: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char;
    fn rocksdb_get_pinned(
        db: *mut c_void,
        options: *const c_void,
        key: *const c_char,
        length: usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_void;
    fn rocksdb_pinnableslice_value(slice: *const c_void, length: *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(slice: *mut c_void);
    fn rocksdb_free(pointer: *mut c_void);
}

const KEYS: usize = 500;

fn key(index: usize) -> [u8; 16] {
    let mut key = *b"key0000000000000";
    key[3..].copy_from_slice(format!("{:013}", index * 7919 % KEYS).as_bytes());
    key
}

/// A database that C has opened.
struct Opened {
    db: *mut c_void,
    reading: *mut c_void,
}

#[inline(never)]
fn round_of_engine(db: &koeldb::Db, keys: &[[u8; 16]]) {
    for key in keys {
        black_box(db.get(key).unwrap());
    }
}

#[inline(never)]
fn round_of_get(opened: &Opened, keys: &[[u8; 16]]) {
    for key in keys {
        let (mut length, mut error) = (0, ptr::null_mut());
        let key_start = key.as_ptr().cast();
        // SAFETY: the objects are open, and the bytes those of the key.
        let value = unsafe {
            rocksdb_get(
                opened.db,
                opened.reading,
                key_start,
                key.len(),
                &raw mut length,
                &raw mut error,
            )
        };
        assert_eq!(black_box(length), 100);
        // SAFETY: the value is from `rocksdb_get`.
        unsafe { rocksdb_free(black_box(value).cast()) };
    }
}

#[inline(never)]
fn round_of_get_pinned(opened: &Opened, keys: &[[u8; 16]]) {
    for key in keys {
        let (mut length, mut error) = (0, ptr::null_mut());
        let key_start = key.as_ptr().cast();
        // SAFETY: the objects are open, and the bytes those of the key.
        let slice = unsafe {
            rocksdb_get_pinned(
                opened.db,
                opened.reading,
                key_start,
                key.len(),
                &raw mut error,
            )
        };
        // SAFETY: the slice is from `rocksdb_get_pinned`.
        black_box(unsafe { rocksdb_pinnableslice_value(slice, &raw mut length) });
        assert_eq!(black_box(length), 100);
        // SAFETY: the slice is from `rocksdb_get_pinned`, and not used again.
        unsafe { rocksdb_pinnableslice_destroy(slice) };
    }
}

/// Nanoseconds for each of `KEYS` operations.
fn nanos(run: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    run();
    begun.elapsed().as_nanos() as f64 / KEYS as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let dir = std::env::temp_dir().join(format!("koeldb-c-overhead-{}", std::process::id()));
    let (first, second) = (dir.join("first"), dir.join("second"));
    let keys: Vec<[u8; 16]> = (0..KEYS).map(key).collect();
    let mut options = koeldb::Options::new();
    options.create_if_missing(true);
    let engine = koeldb::Db::open(&options, &first).unwrap();
    for key in &keys {
        engine.put(key, [b'v'; 100]).unwrap();
    }
    engine.flush().unwrap();
    engine.compact_range(..).unwrap();
    engine.create_checkpoint(&second).unwrap();
    engine.close().unwrap();
    // Both read tables that another database wrote.
    let engine = koeldb::Db::open(&options, &first).unwrap();
    compare(&engine, &second, &keys);
    engine.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Compares the functions of C on the directory `second` with the engine on a copy.
fn compare(engine: &koeldb::Db, second: &Path, keys: &[[u8; 16]]) {
    let path = CString::new(second.to_str().unwrap()).unwrap();
    let mut error = ptr::null_mut();
    // SAFETY: creates an object, which is destroyed below.
    let options = unsafe { rocksdb_options_create() };
    // SAFETY: creates an object, which is destroyed below.
    let reading = unsafe { rocksdb_readoptions_create() };
    // SAFETY: the options live, and the path ends with a zero.
    let db = unsafe { rocksdb_open(options, path.as_ptr(), &raw mut error) };
    assert!(error.is_null());
    let opened = Opened { db, reading };
    let rounds = std::env::var("ROUNDS").map_or(10_001, |text| text.parse().unwrap());
    let only = std::env::var("ONLY").ok();
    let runs = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut over: [Vec<f64>; 2] = Default::default();
    for _ in 0..rounds {
        let timed = |name: &str, round: &dyn Fn()| if runs(name) { nanos(round) } else { 0.0 };
        let of_engine = timed("engine", &|| round_of_engine(engine, keys));
        let of_get = timed("get", &|| round_of_get(&opened, keys));
        let of_pinned = timed("pinned", &|| round_of_get_pinned(&opened, keys));
        times[0].push(of_engine);
        times[1].push(of_get);
        times[2].push(of_pinned);
        over[0].push(of_get - of_engine);
        over[1].push(of_pinned - of_engine);
    }
    let [of_engine, of_get, of_pinned] = times.map(median);
    let [over_get, over_pinned] = over.map(median);
    println!("Db::get of 100 cached bytes: {of_engine:.1} ns");
    println!("rocksdb_get, rocksdb_free: {of_get:.1} ns, over it {over_get:.1} ns");
    println!(
        "rocksdb_get_pinned, its value, destroy: {of_pinned:.1} ns, over it {over_pinned:.1} ns"
    );
    // SAFETY: nobody uses the database any more.
    unsafe { rocksdb_close(db) };
    // SAFETY: nobody uses the options any more.
    unsafe { rocksdb_readoptions_destroy(reading) };
    // SAFETY: nobody uses the options any more.
    unsafe { rocksdb_options_destroy(options) };
}
