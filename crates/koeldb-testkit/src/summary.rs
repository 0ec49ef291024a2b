//! The machine-readable final line of a suite, with a floor below which the suite fails.

use std::fmt;

/// The results of a suite.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The suite's name.
    pub suite: &'static str,
    /// The seed of the cases.
    pub seed: u64,
    /// Named counts, in the order they are printed.
    pub figures: Vec<(&'static str, u64)>,
    /// The duration.
    pub seconds: f64,
    /// The number of failed cases.
    pub failures: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "summary suite={} seed={}", self.suite, self.seed)?;
        for (name, figure) in &self.figures {
            write!(f, " {name}={figure}")?;
        }
        write!(f, " seconds={:.1} failures={}", self.seconds, self.failures)
    }
}

impl Summary {
    /// The count called `name`; 0 if there is none.
    #[must_use]
    pub fn figure(&self, name: &str) -> u64 {
        let found = self.figures.iter().find(|(known, _)| *known == name);
        found.map_or(0, |(_, figure)| *figure)
    }

    /// Prints the line and fails the suite if it had failures or `name` is below `floor`.
    ///
    /// # Panics
    /// If the suite failed.
    pub fn finish(&self, name: &str, floor: u64) {
        eprintln!("{self}");
        assert!(self.failures == 0, "{self}");
        assert!(
            self.figure(name) >= floor,
            "fewer {name} than {floor}: {self}"
        );
    }
}
