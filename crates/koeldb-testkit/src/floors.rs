//! The amount of work of the test suites, set by `KOELDB_FLOORS`.
//!
//! | value | purpose |
//! |---|---|
//! | `short`, or not set | debug builds during development: `cargo test --workspace` |
//! | `gate` | required for every change, in optimized builds: `.ci/run` |
//! | `long` | everything, for hours |

/// The amount of work of a suite, and the floor below which it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floors {
    /// Seconds in a debug build.
    Short,
    /// Minutes in an optimized build.
    Gate,
    /// Hours.
    Long,
}

impl Floors {
    /// The setting of the environment.
    ///
    /// # Panics
    /// If it is unknown.
    #[must_use]
    pub fn chosen() -> Self {
        match std::env::var("KOELDB_FLOORS").as_deref() {
            Err(_) | Ok("" | "short") => Floors::Short,
            Ok("gate") => Floors::Gate,
            Ok("long") => Floors::Long,
            Ok(other) => panic!("KOELDB_FLOORS is short, gate or long, not {other:?}"),
        }
    }

    /// Selects one of three values.
    #[must_use]
    pub fn of<T>(self, short: T, gate: T, long: T) -> T {
        match self {
            Floors::Short => short,
            Floors::Gate => gate,
            Floors::Long => long,
        }
    }

    /// Its name in the environment.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.of("short", "gate", "long")
    }
}
