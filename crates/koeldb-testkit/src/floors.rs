//! How much the suites do: `KOELDB_FLOORS`.
//!
//! | value | what for |
//! |---|---|
//! | `short`, or not set | debug builds, while working: `cargo test --workspace` |
//! | `gate` | what every change must pass, in optimized builds: `.ci/run` |
//! | `long` | everything there is, for hours |

/// How much a suite does, and below what it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floors {
    /// Seconds of a debug build.
    Short,
    /// Minutes of an optimized one.
    Gate,
    /// Hours.
    Long,
}

impl Floors {
    /// What the environment asks for.
    ///
    /// # Panics
    /// If it asks for something else.
    #[must_use]
    pub fn chosen() -> Self {
        match std::env::var("KOELDB_FLOORS").as_deref() {
            Err(_) | Ok("" | "short") => Floors::Short,
            Ok("gate") => Floors::Gate,
            Ok("long") => Floors::Long,
            Ok(other) => panic!("KOELDB_FLOORS is short, gate or long, not {other:?}"),
        }
    }

    /// The one of three that belongs here.
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
