//! A checker of linearizability for one register: Wing and Gong's search, with Lowe's memory of
//! visited states.

use std::collections::{HashMap, HashSet};

/// A call of a client on the register.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) begun: u64,
    /// When the answer came; `None` if the outcome is unknown.
    pub(super) ended: Option<u64>,
    pub(super) action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    /// Found this value.
    Read(Option<u64>),
    Write(Option<u64>),
    /// If the value is the first one, sets the second one; whether that was so, if known.
    Swap(Option<u64>, u64, Option<bool>),
}

impl Action {
    /// The value afterwards, or `None` if the answer does not fit.
    pub(super) fn apply(self, value: Option<u64>) -> Option<Option<u64>> {
        match self {
            Action::Read(found) => (found == value).then_some(value),
            Action::Write(new) => Some(new),
            Action::Swap(expected, new, answer) => {
                let is_equal = expected == value;
                let fits = answer.is_none_or(|answer| answer == is_equal);
                fits.then_some(if is_equal { Some(new) } else { value })
            }
        }
    }
}

/// The numbers in a set of bits.
fn members(set: &[u64]) -> impl Iterator<Item = usize> {
    set.iter().enumerate().flat_map(|(word, bits)| {
        let is_in = move |bit: &usize| bits >> bit & 1 == 1;
        (0..64).filter(is_in).map(move |bit| word * 64 + bit)
    })
}

/// The calls in the order of their beginnings, with fewer choices but the same answer.
///
/// - Values that no call finds or expects are not told apart.
/// - A call of unknown outcome whose value only it writes has come before the first that found it ended.
fn simplify(calls: &[Call]) -> Vec<Call> {
    let found = |action: Action| match action {
        Action::Read(Some(value)) | Action::Swap(Some(value), _, _) => Some(value),
        _ => None,
    };
    let written = |action: Action| match action {
        Action::Write(Some(value)) | Action::Swap(_, value, _) => Some(value),
        _ => None,
    };
    let mut writers: HashMap<u64, u64> = HashMap::new();
    let (mut known, mut first_found) = (HashSet::new(), HashMap::new());
    for call in calls {
        if let Some(value) = written(call.action) {
            *writers.entry(value).or_default() += 1;
        }
        let Some(value) = found(call.action) else {
            continue;
        };
        known.insert(value);
        let has_found = matches!(
            call.action,
            Action::Read(_) | Action::Swap(_, _, Some(true))
        );
        if let Some(ended) = call.ended.filter(|_| has_found) {
            let first = first_found.entry(value).or_insert(ended);
            *first = ended.min(*first);
        }
    }
    let mut calls = calls.to_vec();
    for call in &mut calls {
        if let (None, Some(value)) = (call.ended, written(call.action))
            && writers[&value] == 1
            && let Some(ended) = first_found.get(&value)
        {
            call.ended = Some(*ended);
        }
        match &mut call.action {
            Action::Write(Some(value)) | Action::Swap(_, value, _) if !known.contains(value) => {
                *value = u64::MAX;
            }
            _ => {}
        }
    }
    calls.sort_by_key(|call| call.begun);
    calls
}

/// Whether some order of the calls explains all answers: an order in which no call precedes one that
/// ended before it began. Calls with unknown outcome may be left out.
pub(super) fn is_linearizable(calls: &[Call]) -> bool {
    let calls = simplify(calls);
    let mut visited = HashSet::new();
    let mut all = vec![0; calls.len().div_ceil(64)];
    (0..calls.len()).for_each(|call| all[call / 64] |= 1 << (call % 64));
    let mut stack = vec![(all, None)];
    while let Some((rest, value)) = stack.pop() {
        let (mut ready, mut first_end) = (Vec::new(), u64::MAX);
        for call in members(&rest) {
            if calls[call].begun > first_end {
                break;
            }
            // Of calls that may come at any time, and do the same, the first one comes first.
            let is_same = |other: &usize| {
                calls[*other].ended.is_none() && calls[*other].action == calls[call].action
            };
            if calls[call].ended.is_none() && ready.iter().any(is_same) {
                continue;
            }
            ready.push(call);
            first_end = first_end.min(calls[call].ended.unwrap_or(u64::MAX));
        }
        if first_end == u64::MAX {
            return true;
        }
        let effect = |call: &usize| calls[*call].action.apply(value);
        // A read may as well come now if it fits. A call of unknown outcome that changes nothing may
        // be left out for now.
        let is_read = |call: &usize| {
            let action = calls[*call].action;
            matches!(action, Action::Read(_) | Action::Swap(_, _, Some(false)))
        };
        let mut reads = ready.iter().copied().filter(is_read);
        match reads.find(|call| effect(call).is_some()) {
            Some(call) => ready = vec![call],
            None => {
                ready.retain(|call| calls[*call].ended.is_some() || effect(call) != Some(value))
            }
        }
        // The one that ended first is tried first.
        ready.sort_by_key(|call| std::cmp::Reverse(calls[*call].ended.unwrap_or(u64::MAX)));
        for call in ready {
            if let Some(next) = effect(&call) {
                let mut rest = rest.clone();
                rest[call / 64] &= !(1 << (call % 64));
                if visited.insert((rest.clone(), next)) {
                    stack.push((rest, next));
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use koeldb_testkit::floors::Floors;
    use koeldb_testkit::random::Random;

    use super::*;

    /// Tries every order and every choice of the calls with unknown outcome.
    fn is_linearizable_by_trying(
        calls: &[Call],
        done: &mut Vec<usize>,
        value: Option<u64>,
    ) -> bool {
        let is_rest = |call: &usize| !done.contains(call);
        let rest: Vec<usize> = (0..calls.len()).filter(is_rest).collect();
        if rest.iter().all(|call| calls[*call].ended.is_none()) {
            return true;
        }
        rest.iter().copied().any(|call| {
            let begun = calls[call].begun;
            let is_before = |other: &usize| calls[*other].ended.is_some_and(|end| end < begun);
            if rest.iter().any(is_before) {
                return false;
            }
            calls[call].action.apply(value).is_some_and(|next| {
                done.push(call);
                let is_explained = is_linearizable_by_trying(calls, done, next);
                done.pop();
                is_explained
            })
        })
    }

    fn draw(random: &mut Random) -> Vec<Call> {
        let value = |random: &mut Random| random.chance(3, 4).then(|| random.below(3));
        (0..random.below(6) + 1)
            .map(|_| {
                let begun = random.below(20);
                let ended = random.chance(4, 5).then(|| begun + random.below(10));
                let answer = random.chance(1, 2);
                let action = match random.below(3) {
                    0 if ended.is_some() => Action::Read(value(random)),
                    0 | 1 => Action::Write(value(random)),
                    _ => {
                        let expected = value(random);
                        Action::Swap(expected, random.below(3), ended.map(|_| answer))
                    }
                };
                Call {
                    begun,
                    ended,
                    action,
                }
            })
            .collect()
    }

    #[test]
    fn the_checker_agrees_with_trying_all_orders() {
        let mut random = Random::new(7);
        let count = Floors::chosen().of(2_000, 10_000, 100_000);
        let mut right = 0;
        for number in 0..count {
            let calls = draw(&mut random);
            let expected = is_linearizable_by_trying(&calls, &mut Vec::new(), None);
            assert_eq!(is_linearizable(&calls), expected, "{number}: {calls:?}");
            right += u64::from(expected);
        }
        assert!(
            right > count / 10 && right < count * 9 / 10,
            "{right} of {count}"
        );
    }
}
