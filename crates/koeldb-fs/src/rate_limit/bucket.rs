//! The tokens of a rate limiter, and the queues of requests that wait for them.
//!
//! Tokens are counted in bytes times nanoseconds per second, so that accruing them rounds nothing
//! away. A request at the head of a queue takes the available tokens; these are therefore left only
//! while all queues are empty.

use std::collections::VecDeque;
use std::time::Duration;

use super::{IoPriority, RateLimiterBuilder};
use crate::random::Random;

/// The number of tokens per byte.
const TOKENS: u128 = 1_000_000_000;

/// The longest refill period.
const PERIOD_MAX: Duration = Duration::from_secs(3600);

/// The number of periods after which an auto-tuned limiter is tuned.
const PERIODS_PER_TUNING: u64 = 100;

/// The largest rate of an auto-tuned limiter, divided by its smallest.
const TUNED_RANGE: u64 = 20;

/// The number of bytes granted and of requests made at one priority.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) bytes: u64,
    pub(super) requests: u64,
}

/// A queued request, which still needs tokens.
#[derive(Debug)]
struct Request {
    id: u64,
    /// The tokens that the request still needs.
    due: u128,
    bytes: u64,
}

/// The state of auto-tuning, which adjusts the rate to the demand.
#[derive(Debug)]
struct Tuning {
    rate_max: u64,
    tuned_at: Duration,
    /// The number of periods since the last tuning in which a request had to wait.
    drained_periods: u64,
}

/// The token bucket of a rate limiter, with the queues of its waiting requests.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: u64,
    period: Duration,
    fairness: u64,
    /// The largest undivided request; 0: the bytes of one period.
    burst_bytes: u64,
    tokens: u128,
    /// The time up to which tokens have accrued.
    accrued: Duration,
    queues: [VecDeque<Request>; IoPriority::COUNT],
    /// The queue drawn to be served next, whose head may have got a part of its tokens.
    served: Option<usize>,
    next_id: u64,
    random: Random,
    totals: [Totals; IoPriority::COUNT],
    tuning: Option<Tuning>,
    /// The last period in which a request had to wait, counted from time zero.
    last_drained: Option<u128>,
    /// The number of periods in which a request had to wait and which were not reported yet.
    drains: u64,
    /// Whether a thread sleeps until the next tokens accrue.
    pub(super) is_timed: bool,
}

impl Bucket {
    /// Creates a bucket with the tokens of one period.
    pub(super) fn new(settings: &RateLimiterBuilder, now: Duration) -> Self {
        let rate_max = settings.bytes_per_second;
        let tuning = settings.auto_tuned.then_some(Tuning {
            rate_max,
            tuned_at: now,
            drained_periods: 0,
        });
        let mut bucket = Bucket {
            rate: match tuning {
                Some(_) => (rate_max / 2).max(1),
                None => rate_max,
            },
            period: settings.refill_period.min(PERIOD_MAX),
            fairness: u64::from(settings.fairness),
            burst_bytes: settings.single_burst_bytes,
            tokens: 0,
            accrued: now,
            queues: Default::default(),
            served: None,
            next_id: 0,
            random: Random::new(0x006c_696d_6974),
            totals: Default::default(),
            tuning,
            last_drained: None,
            drains: 0,
            is_timed: false,
        };
        bucket.tokens = bucket.depth();
        bucket
    }

    /// Returns the current rate in bytes per second.
    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// Sets the rate in bytes per second from `now` on, also as the limit of tuning.
    pub(super) fn set_rate(&mut self, rate: u64, now: Duration) {
        self.accrue(now);
        self.rate = rate;
        self.tokens = self.tokens.min(self.depth());
        if let Some(tuning) = &mut self.tuning {
            tuning.rate_max = rate;
        }
    }

    /// Returns the bytes of the largest undivided request: as set, or else those of one period.
    pub(super) fn burst_bytes(&self) -> u64 {
        match self.burst_bytes {
            0 => u64::try_from(self.depth() / TOKENS)
                .unwrap_or(u64::MAX)
                .max(1),
            bytes => bytes,
        }
    }

    /// Sets the bytes of the largest undivided request; 0 for those of one period.
    pub(super) fn set_burst_bytes(&mut self, bytes: u64) {
        self.burst_bytes = bytes;
    }

    /// Returns a total of one priority; `None` sums all priorities.
    pub(super) fn total(&self, of: Option<IoPriority>, count: impl Fn(&Totals) -> u64) -> u64 {
        match of {
            Some(priority) => count(&self.totals[priority as usize]),
            None => self.totals.iter().map(count).sum(),
        }
    }

    /// Returns the number of queued requests of one priority; `None` counts all.
    pub(super) fn pending(&self, of: Option<IoPriority>) -> u64 {
        let lengths = self.queues.iter().map(|queue| queue.len() as u64);
        match of {
            Some(priority) => self.queues[priority as usize].len() as u64,
            None => lengths.sum(),
        }
    }

    /// The capacity of the bucket: the tokens of one refill period.
    fn depth(&self) -> u128 {
        u128::from(self.rate) * self.period.as_nanos()
    }

    /// Adds the tokens for the time since the last call, up to those of one period.
    fn accrue(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.accrued);
        self.accrued = self.accrued.max(now);
        let tokens = u128::from(self.rate) * elapsed.as_nanos();
        self.tokens = (self.tokens + tokens).min(self.depth());
    }

    /// Takes the tokens for `bytes`, or queues the request and returns its id.
    pub(super) fn request(
        &mut self,
        bytes: u64,
        priority: IoPriority,
        now: Duration,
    ) -> Option<u64> {
        self.tune(now);
        self.grant(now);
        let due = u128::from(bytes) * TOKENS;
        let totals = &mut self.totals[priority as usize];
        totals.requests += 1;
        if self.tokens >= due {
            totals.bytes += bytes;
            self.tokens -= due;
            return None;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.queues[priority as usize].push_back(Request { id, due, bytes });
        self.note_wait(now);
        Some(id)
    }

    /// Counts the refill period of `now` as drained: a request had to wait in it.
    ///
    /// A period is counted once.
    fn note_wait(&mut self, now: Duration) {
        let period = now.as_nanos() / self.period.as_nanos().max(1);
        if self.last_drained != Some(period) {
            self.last_drained = Some(period);
            self.drains += 1;
            if let Some(tuning) = &mut self.tuning {
                tuning.drained_periods += 1;
            }
        }
    }

    /// Returns the number of refill periods since the last call in which a request had to wait.
    pub(super) fn take_drains(&mut self) -> u64 {
        std::mem::take(&mut self.drains)
    }

    /// Whether a request of this priority still waits for its tokens.
    pub(super) fn is_queued(&self, priority: IoPriority, id: u64) -> bool {
        let mut queue = self.queues[priority as usize].iter();
        queue.any(|request| request.id == id)
    }

    /// Hands out the accrued tokens to queued requests; returns whether one of them was granted.
    pub(super) fn grant(&mut self, now: Duration) -> bool {
        self.accrue(now);
        let mut is_any = false;
        while self.tokens > 0
            && let Some(index) = self.next_queue()
            && let Some(head) = self.queues[index].front_mut()
        {
            let given = self.tokens.min(head.due);
            head.due -= given;
            self.tokens -= given;
            if head.due > 0 {
                self.note_wait(now);
                break;
            }
            self.totals[index].bytes += head.bytes;
            self.queues[index].pop_front();
            if self.served == Some(index) {
                self.served = None;
            }
            is_any = true;
        }
        is_any
    }

    /// Returns the index of the queue to serve: `User` first, or else one drawn by fairness.
    ///
    /// The queue drawn stays the one to serve until its head has got all its tokens.
    fn next_queue(&mut self) -> Option<usize> {
        const LOW: usize = IoPriority::Low as usize;
        const MID: usize = IoPriority::Mid as usize;
        const HIGH: usize = IoPriority::High as usize;
        const USER: usize = IoPriority::User as usize;
        if !self.queues[USER].is_empty() {
            return Some(USER);
        }
        if self.served.is_none() {
            let [middle, last] = match self.random.chance(1, self.fairness) {
                true => [LOW, MID],
                false => [MID, LOW],
            };
            let order = match self.random.chance(1, self.fairness) {
                true => [middle, last, HIGH],
                false => [HIGH, middle, last],
            };
            self.served = order
                .into_iter()
                .find(|&index| !self.queues[index].is_empty());
        }
        self.served
    }

    /// Returns the time until the next request has its tokens, at most one refill period.
    ///
    /// At least a fiftieth of a period, since each wake-up costs more than small requests wait.
    pub(super) fn until_next_grant(&mut self) -> Duration {
        let due = self
            .next_queue()
            .and_then(|index| self.queues[index].front());
        let nanos = due.map_or(0, |head| head.due.div_ceil(u128::from(self.rate)));
        let wait = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        wait.clamp(self.period / 50, self.period)
    }

    /// Adjusts the rate of an auto-tuned limiter, as RocksDB does.
    fn tune(&mut self, now: Duration) {
        let Some(tuning) = &mut self.tuning else {
            return;
        };
        let elapsed = now.saturating_sub(tuning.tuned_at).as_nanos();
        let periods = elapsed.div_ceil(self.period.as_nanos().max(1));
        if elapsed < u128::from(PERIODS_PER_TUNING) * self.period.as_nanos() {
            return;
        }
        let percent = u128::from(tuning.drained_periods) * 100 / periods.max(1);
        let rate_min = (tuning.rate_max / TUNED_RANGE).max(1);
        let (max, rate) = (tuning.rate_max, self.rate);
        tuning.tuned_at = now;
        tuning.drained_periods = 0;
        let tuned = match percent {
            0 => rate_min,
            1..50 => (rate / 105)
                .saturating_mul(100)
                .saturating_add(rate % 105 * 100 / 105),
            91.. => (rate / 100)
                .saturating_mul(105)
                .saturating_add(rate % 100 * 105 / 100),
            _ => rate,
        };
        self.accrue(now);
        self.rate = tuned.clamp(rate_min, max);
        self.tokens = self.tokens.min(self.depth());
    }
}
