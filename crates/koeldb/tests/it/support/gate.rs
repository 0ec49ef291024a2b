//! A gate that holds one thread at a chosen place of another one's work.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::Env;
use koeldb::fs::{
    FaultAction, FaultFileSystem, FaultRule, FileSystem, Operation, Purpose, SystemClock,
};

/// The longest time that a thread is held.
const LIMIT: Duration = Duration::from_secs(120);

/// A place where one thread waits until another lets it continue.
pub(crate) struct Gate {
    reached: Mutex<Sender<()>>,
    opened: Mutex<Receiver<()>>,
}

/// Creates a gate, a receiver for the arrival of a thread, and a sender that opens it.
pub(crate) fn gate() -> (Arc<Gate>, Receiver<()>, Sender<()>) {
    let (reached, stands_there) = channel();
    let (open, opened) = channel();
    let gate = Gate {
        reached: Mutex::new(reached),
        opened: Mutex::new(opened),
    };
    (Arc::new(gate), stands_there, open)
}

impl Gate {
    pub(crate) fn pass(&self) {
        let _ = self.reached.lock().unwrap().send(());
        let _ = self.opened.lock().unwrap().recv_timeout(LIMIT);
    }
}

/// An environment on `fs` in which no flush ends before the sender is dropped, or two minutes pass.
pub(crate) fn without_flushes(fs: Arc<dyn FileSystem>) -> (Env, Sender<()>) {
    let (open, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let faults = FaultFileSystem::new(fs, 1);
    let stand_still = FaultAction::Call(Arc::new(move |_| {
        let _ = opened.lock().unwrap().recv_timeout(LIMIT);
    }));
    faults.add_rule(
        FaultRule::new(stand_still)
            .on(&[Operation::SyncData, Operation::SyncAll])
            .purpose(Purpose::Flush),
    );
    (Env::new(Arc::new(faults), Arc::new(SystemClock)), open)
}
