//! Damaged and hostile files: an error or the true answer, soon, and with little memory.
//!
//! `KOELDB_LONG=1` runs the long forms, `KOELDB_SEED` repeats what a failure printed.

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod smoke;
#[cfg(test)]
mod sweep_directory;
#[cfg(test)]
mod sweep_tables;
#[cfg(test)]
mod watch;

#[cfg(test)]
fn is_long() -> bool {
    std::env::var_os("KOELDB_LONG").is_some()
}

#[cfg(test)]
fn seed() -> u64 {
    match std::env::var("KOELDB_SEED") {
        Ok(text) => text.parse().expect("KOELDB_SEED is a number"),
        Err(_) => 1,
    }
}

/// Seconds on the monotonic clock.
#[cfg(test)]
fn seconds() -> f64 {
    use koeldb_fs::Clock;
    koeldb_fs::SystemClock.now().as_secs_f64()
}
