//! Loom models of a leader that starts logs, and of jobs that create standby logs.

use std::sync::Arc;

use koeldb_base::sync::{AtomicU64, AtomicUsize, Ordering, explore, spawn};

use super::*;

#[test]
fn logs_are_begun_in_the_order_of_their_numbers_and_late_ones_removed() {
    explore("log that stands by", || {
        let standby: Arc<StandbyLog<FileNumber>> = Arc::new(StandbyLog::default());
        let numbers = Arc::new(AtomicU64::new(1));
        let removed = Arc::new(AtomicUsize::new(0));
        let mut jobs = Vec::new();
        let mut begun = vec![0];
        for _ in 0..2 {
            if standby.request() {
                let (standby, numbers) = (Arc::clone(&standby), Arc::clone(&numbers));
                let removed = Arc::clone(&removed);
                jobs.push(spawn(move || {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    if let Some(late) = standby.made(Some(number)) {
                        assert_eq!(late, number);
                        removed.fetch_add(1, Ordering::Relaxed);
                    }
                }));
            }
            let taken = standby.take();
            begun.push(taken.unwrap_or_else(|| numbers.fetch_add(1, Ordering::Relaxed)));
        }
        for job in jobs {
            job.join().unwrap();
        }
        assert!(begun.is_sorted(), "{begun:?}");
        // Each was started, was late, or is the standby.
        let standing = usize::from(standby.take().is_some());
        let made = numbers.load(Ordering::Relaxed) - 1;
        let accounted = begun.len() - 1 + removed.load(Ordering::Relaxed) + standing;
        assert_eq!(u64::try_from(accounted), Ok(made));
    });
}

#[test]
fn a_log_that_could_not_be_made_may_be_asked_for_again() {
    explore("log that cannot be made", || {
        let standby: Arc<StandbyLog<FileNumber>> = Arc::new(StandbyLog::default());
        assert!(standby.request());
        let job = {
            let standby = Arc::clone(&standby);
            spawn(move || standby.made(None))
        };
        assert_eq!(standby.take(), None);
        assert_eq!(job.join().unwrap(), None);
        assert!(standby.request());
        assert_eq!(standby.made(Some(2)), None);
        assert_eq!(standby.take(), Some(2));
    });
}
