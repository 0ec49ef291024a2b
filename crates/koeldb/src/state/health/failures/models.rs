//! Loom models of failures and a resume.

use std::sync::Arc;

use koeldb_base::error::Severity;
use koeldb_base::sync::{explore, spawn};

use super::*;

fn error(severity: Severity) -> Error {
    Error::invalid_argument("as the model asks for").with_severity(severity)
}

#[test]
fn a_resume_takes_back_no_failure_that_it_did_not_know_of() {
    explore("stored failure against a resume", || {
        let failures = Arc::new(Failures::default());
        failures.store(&error(Severity::Hard));
        let others = [Severity::Hard, Severity::Fatal].map(|severity| {
            let failures = Arc::clone(&failures);
            spawn(move || {
                failures.store(&error(severity));
                (severity, failures.is_any())
            })
        });
        let count = failures.count();
        let cleared = failures.clear(count).is_ok();
        let stored = others.map(|other| other.join().unwrap());
        assert_eq!(failures.count(), 3);
        // Refused exactly while an error is stored.
        assert_eq!(failures.is_any(), failures.first().is_some());
        assert_eq!(failures.is_any(), !cleared || count < 3);
        for (severity, is_refused) in stored {
            assert!(is_refused || cleared, "{severity:?}");
        }
        assert_eq!(failures.take_unreported().len(), 3);
    });
}
