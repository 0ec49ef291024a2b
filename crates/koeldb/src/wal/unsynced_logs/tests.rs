//! Which closed logs have open handles.

use std::sync::Arc;

use koeldb_base::Error;

use super::*;

/// A log that checks, while it is synced and closed, that it counts as one with a handle.
struct Log {
    number: FileNumber,
    all: Arc<UnsyncedLogs<Log>>,
    failures: usize,
}

impl ClosedLog for Log {
    fn sync(&mut self) -> Result<()> {
        assert!(self.all.has(self.number));
        match self.failures.checked_sub(1) {
            Some(left) => {
                self.failures = left;
                Err(Error::invalid_argument("a sync that fails"))
            }
            None => Ok(()),
        }
    }

    fn close(self) -> Result<()> {
        assert!(self.all.has(self.number));
        Ok(())
    }
}

/// Three logs, of which the first fails once.
fn logs() -> Arc<UnsyncedLogs<Log>> {
    let all = Arc::new(UnsyncedLogs::default());
    for number in 1..=3 {
        let log = Log {
            number,
            all: Arc::clone(&all),
            failures: usize::from(number == 1),
        };
        all.add(number, log);
    }
    all
}

fn with_handles(all: &UnsyncedLogs<Log>) -> Vec<FileNumber> {
    (0..5).filter(|&number| all.has(number)).collect()
}

#[test]
fn a_log_has_a_handle_until_it_is_closed() {
    let all = logs();
    assert_eq!(with_handles(&all), [1, 2, 3]);
    all.sync(|| Ok(())).unwrap_err();
    assert_eq!(with_handles(&all), [1, 2, 3], "after a failed sync");
    all.close_before(2);
    assert_eq!(with_handles(&all), [2, 3]);
    all.sync(|| Ok(())).unwrap();
    assert_eq!(with_handles(&all), []);
    let all = logs();
    all.take_turn().give_up();
    assert_eq!(with_handles(&all), []);
}
