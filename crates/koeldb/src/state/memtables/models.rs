//! Loom models of a sealing leader, standby jobs, and the drop of the column family.

use koeldb_base::sync::{AtomicUsize, explore, spawn};

use super::*;

/// A stand-in for a memtable, counted as long as it lives.
struct Counted {
    number: usize,
    alive: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_successor_is_taken_once_and_none_outlives_its_family() {
    explore("standby memtable", || {
        let standby: Arc<StandbyMemtable<Counted>> = Arc::new(StandbyMemtable::default());
        let is_dropped = Arc::new(AtomicBool::new(false));
        let alive = Arc::new(AtomicUsize::new(0));
        let options = Arc::new(ColumnFamilyOptions::default());
        let jobs = [1, 2].map(|number| {
            let (standby, is_dropped) = (Arc::clone(&standby), Arc::clone(&is_dropped));
            let (options, alive) = (Arc::clone(&options), Arc::clone(&alive));
            spawn(move || {
                let make = |_: &ColumnFamilyOptions| {
                    alive.fetch_add(1, Ordering::Relaxed);
                    Counted {
                        number,
                        alive: Arc::clone(&alive),
                    }
                };
                standby.prepare(options, || is_dropped.load(Ordering::Acquire), make);
            })
        });
        let taken = [standby.take(&options), standby.take(&options)];
        if let [Some(first), Some(second)] = &taken {
            assert_ne!(first.number, second.number);
        }
        // The column family is dropped while a job may be about to create another standby.
        is_dropped.store(true, Ordering::Release);
        standby.forget();
        for job in jobs {
            job.join().unwrap();
        }
        drop(taken);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_successor_made_by_other_options_is_not_used() {
    explore("standby memtable of other options", || {
        let standby: Arc<StandbyMemtable<u32>> = Arc::new(StandbyMemtable::default());
        let [old, new] = [(); 2].map(|()| Arc::new(ColumnFamilyOptions::default()));
        let jobs = [(&old, 1), (&new, 2)].map(|(options, number)| {
            let (standby, options) = (Arc::clone(&standby), Arc::clone(options));
            spawn(move || standby.prepare(options, || false, |_| number))
        });
        let taken = standby.take(&new);
        for job in jobs {
            job.join().unwrap();
        }
        assert!(taken.is_none_or(|number| number == 2));
        assert!(standby.take(&new).is_none_or(|number| number == 2));
    });
}
