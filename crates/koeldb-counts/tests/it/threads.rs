//! Threads that take commands one at a time.

use std::any::Any;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// A thread that runs jobs in order.
pub(crate) struct Worker {
    jobs: Option<Sender<Job>>,
    results: Receiver<Box<dyn Any + Send>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn new() -> Self {
        let (jobs, taken) = channel::<Job>();
        let (done, results) = channel();
        let thread = std::thread::spawn(move || {
            for job in taken {
                let _ = done.send(job());
            }
        });
        Worker {
            jobs: Some(jobs),
            results,
            thread: Some(thread),
        }
    }

    /// Starts a job.
    pub(crate) fn start<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) {
        let jobs = self.jobs.as_ref().unwrap();
        jobs.send(Box::new(move || Box::new(job()))).unwrap();
    }

    /// Waits for the result of the oldest job.
    pub(crate) fn result<R: 'static>(&self) -> R {
        let result = self.results.recv().expect("the thread panicked");
        *result.downcast().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        let _ = self.thread.take().unwrap().join();
    }
}
