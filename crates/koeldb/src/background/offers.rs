//! The back-off from a compaction service that gives jobs up.
//!
//! A job that the service gives up has cost the time of its wait, in which writers may stall. The
//! following compactions run locally for a multiple of that time, which doubles with each job given
//! up in succession. Then a single job is offered; the others run locally until it has ended.
//! The first answer of a worker restores the normal state.

use std::sync::Mutex;
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;

/// The number of successive jobs given up after which the pause no longer doubles.
const DOUBLINGS_MAX: u32 = 6;

/// The back-off state of the compactions offered to a compaction service.
#[derive(Debug, Default)]
pub(super) struct Offers {
    state: Mutex<State>,
}

/// The failures and the pause of a compaction service, guarded by a mutex.
#[derive(Debug, Default)]
struct State {
    /// The number of jobs given up since the last answer.
    given_up: u32,
    /// The end of the pause.
    paused_until: Duration,
    /// Whether a job offered after a pause has not ended.
    is_probing: bool,
}

/// A compaction offered to the compaction service.
///
/// Dropping it without an answer changes no pause.
#[derive(Debug)]
pub(super) struct Offer<'a> {
    offers: &'a Offers,
    /// `State::given_up` when the job was offered.
    given_up: u32,
    begun: Duration,
}

impl Offers {
    /// Begins an offer to the service; `None` during a back-off, when the job must run locally.
    pub(super) fn begin(&self, now: Duration) -> Option<Offer<'_>> {
        let mut state = lock(&self.state);
        if state.given_up > 0 {
            if state.is_probing || now < state.paused_until {
                return None;
            }
            state.is_probing = true;
        }
        Some(Offer {
            offers: self,
            given_up: state.given_up,
            begun: now,
        })
    }
}

impl Offer<'_> {
    /// Records that a worker returned a result, which ends the back-off.
    pub(super) fn answered(self) {
        lock(&self.offers.state).given_up = 0;
    }

    /// Records that the service gave the job up at `now`; returns the back-off that begins.
    ///
    /// Jobs that were offered together count once, so only the first of them begins a pause.
    pub(super) fn given_up(self, now: Duration) -> Option<Duration> {
        let mut state = lock(&self.offers.state);
        if state.given_up != self.given_up {
            return None;
        }
        state.given_up = state.given_up.saturating_add(1);
        let waited = now.saturating_sub(self.begun);
        let pause = waited.saturating_mul(1 << state.given_up.min(DOUBLINGS_MAX));
        state.paused_until = now.saturating_add(pause);
        Some(pause)
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        if self.given_up > 0 {
            lock(&self.offers.state).is_probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_one_job_is_offered_after_each() {
        let offers = Offers::default();
        let mut now = seconds(100);
        for factor in [2, 4, 8, 16, 32, 64, 64, 64] {
            let offer = offers.begin(now).unwrap();
            now += seconds(30);
            let pause = offer.given_up(now).unwrap();
            assert_eq!(pause, seconds(30) * factor);
            assert!(offers.begin(now).is_none());
            now += pause;
            assert!(offers.begin(now - seconds(1)).is_none());
            let probe = offers.begin(now).unwrap();
            assert!(offers.begin(now).is_none());
            // The job was not scheduled.
            drop(probe);
        }
    }

    #[test]
    fn jobs_offered_together_count_once() {
        let offers = Offers::default();
        let jobs: Vec<_> = (0..4).map(|_| offers.begin(seconds(0)).unwrap()).collect();
        let pauses: Vec<_> = jobs
            .into_iter()
            .map(|job| job.given_up(seconds(30)))
            .collect();
        assert_eq!(pauses, [Some(seconds(60)), None, None, None]);
    }

    #[test]
    fn an_answer_ends_the_pause() {
        let offers = Offers::default();
        let late = offers.begin(seconds(0)).unwrap();
        offers.begin(seconds(0)).unwrap().given_up(seconds(30));
        assert!(offers.begin(seconds(40)).is_none());
        late.answered();
        let jobs = [offers.begin(seconds(40)), offers.begin(seconds(40))];
        assert!(jobs.iter().all(Option::is_some));
    }

    #[test]
    fn an_immediate_refusal_begins_no_pause() {
        let offers = Offers::default();
        let offer = offers.begin(seconds(7)).unwrap();
        assert_eq!(offer.given_up(seconds(7)), Some(seconds(0)));
        assert!(offers.begin(seconds(7)).is_some());
    }
}
