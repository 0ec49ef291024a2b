//! tokio in one thread with virtual time, and random numbers from a seed.

use std::cell::RefCell;
use std::future::Future;
use std::sync::Once;
use std::time::Duration;

use koeldb_testkit::random::Random;
use openraft::{AsyncRuntime, OptionalSend, TokioRuntime};

thread_local! {
    static RANDOM: RefCell<Random> = RefCell::new(Random::new(0));
    /// The messages of panics in tasks, which tokio keeps from the simulation.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Records the panics of this thread's tasks.
fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.with_borrow_mut(|panics| panics.push(panic.to_string()));
            before(panic);
        }));
    });
    PANICS.take();
}

/// Runs `simulation` with all random numbers drawn from `seed`; fails if one of its tasks panics.
pub(super) fn simulate<F: Future>(seed: u64, simulation: F) -> F::Output {
    record_panics();
    RANDOM.set(Random::new(seed));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let output = runtime.unwrap().block_on(simulation);
    let panics = PANICS.take();
    assert!(panics.is_empty(), "tasks panicked: {panics:#?}");
    output
}

/// Draws a number below `bound`.
pub(super) fn below(bound: u64) -> u64 {
    RANDOM.with_borrow_mut(|random| random.below(bound))
}

pub(super) fn chance(percent: u64) -> bool {
    below(100) < percent
}

pub(super) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// The random numbers of openraft.
pub(super) struct Drawn;

impl rand::RngCore for Drawn {
    fn next_u32(&mut self) -> u32 {
        u32::try_from(below(1 << 32)).unwrap()
    }

    fn next_u64(&mut self) -> u64 {
        RANDOM.with_borrow_mut(Random::draw)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| u8::try_from(below(256)).unwrap());
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

/// openraft's runtime in a simulation: tokio with random numbers from the seed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Simulated;

impl AsyncRuntime for Simulated {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> =
        <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = Drawn;
    type OneshotSender<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotSender<T>;
    type OneshotReceiverError = <TokioRuntime as AsyncRuntime>::OneshotReceiverError;
    type OneshotReceiver<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotReceiver<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(error)
    }

    fn thread_rng() -> Drawn {
        Drawn
    }

    fn oneshot<T: OptionalSend>() -> (Self::OneshotSender<T>, Self::OneshotReceiver<T>) {
        TokioRuntime::oneshot()
    }
}
