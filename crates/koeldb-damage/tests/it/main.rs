//! Damaged and hostile files: an error or the true answer, soon, and with little memory.
//!
//! `KOELDB_FLOORS=gate` and `long` do more (`koeldb_testkit::floors`); `KOELDB_SEED` repeats a
//! failure with its printed seed.

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
fn seed() -> u64 {
    match std::env::var("KOELDB_SEED") {
        Ok(text) => text.parse().expect("KOELDB_SEED is a number"),
        Err(_) => 1,
    }
}

/// Applies `work` to each of `pieces`, two at a time.
#[cfg(test)]
fn two_at_a_time<P: Sync>(pieces: &[P], work: impl Fn(usize, &P) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(piece) = pieces.get(index) else {
                        break;
                    };
                    work(index, piece);
                }
            });
        }
    });
}

/// Seconds on the monotonic clock.
#[cfg(test)]
fn seconds() -> f64 {
    use koeldb_fs::Clock;
    koeldb_fs::SystemClock.now().as_secs_f64()
}
