//! A linear model of ascending numbers, with its largest error.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

/// A line that estimates the position of a number in an ascending array, with bounds of its error.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinearModel {
    /// The number at index 0.
    origin: u64,
    /// Indexes per unit of the number, in units of 2^-64.
    slope: u64,
    /// The index of the last number.
    last: usize,
    /// The largest overestimate of an index.
    excess: usize,
    /// The width of the window to be searched, which begins at the estimate less `excess`.
    pub(super) width: usize,
}

impl LinearModel {
    /// Fits one line to all numbers and one to those not near an end; returns the more precise one.
    pub(super) fn through(numbers: &[u64]) -> Self {
        let last = numbers.len().saturating_sub(1);
        // A few outliers at either end must not distort the line for all others.
        let inset = last / 16;
        let outer = Self::from_to(numbers, 0, last);
        let inner = Self::from_to(numbers, inset, last.saturating_sub(inset));
        if inner.width < outer.width {
            inner
        } else {
            outer
        }
    }

    /// Returns the line through the numbers at indexes `from` and `to`, with its error bounds.
    fn from_to(numbers: &[u64], from: usize, to: usize) -> Self {
        let number = |at: usize| numbers.get(at).copied().unwrap_or_default();
        let (low, high) = (number(from), number(to));
        let places = u128::from(to.saturating_sub(from) as u64);
        let slope = places
            .checked_shl(u64::BITS)
            .and_then(|places| places.checked_div(u128::from(high.saturating_sub(low))))
            .and_then(|slope| u64::try_from(slope).ok())
            .unwrap_or(0);
        let before = u128::from(from as u64)
            .checked_shl(u64::BITS)
            .and_then(|places| places.checked_div(u128::from(slope)))
            .and_then(|distance| u64::try_from(distance).ok())
            .unwrap_or(u64::MAX);
        let mut model = LinearModel {
            origin: low.saturating_sub(before),
            slope,
            last: numbers.len().saturating_sub(1),
            excess: 0,
            width: 0,
        };
        // Between two neighbours the line rises, so its errors are largest right after the first
        // and at the second.
        let mut shortfall = 0;
        let mut behind = 0;
        for (place, &number) in numbers.iter().enumerate() {
            if place > 0 && behind > number {
                continue;
            }
            model.excess = model.excess.max(model.guess(number).saturating_sub(place));
            shortfall = shortfall.max(place.saturating_sub(model.guess(behind)));
            behind = number.saturating_add(1);
        }
        model.width = model.excess.saturating_add(shortfall).saturating_add(1);
        model
    }

    /// Returns the index that the line predicts for `number`, at most the last one.
    #[inline]
    fn guess(&self, number: u64) -> usize {
        let distance = u128::from(number.saturating_sub(self.origin));
        let places = distance.wrapping_mul(u128::from(self.slope)) >> u64::BITS;
        usize::try_from(places).unwrap_or(usize::MAX).min(self.last)
    }

    /// Finds the first number not below `wanted`; the last number must not be below it.
    ///
    /// `numbers` must be those the line was built from.
    #[inline]
    pub(super) fn first_not_below(&self, numbers: &[u64], wanted: u64) -> usize {
        let mut at = self.guess(wanted).saturating_sub(self.excess);
        let mut width = self.width;
        while width > 1 {
            let half = width / 2;
            let middle = at.saturating_add(half).saturating_sub(1);
            // A mask instead of a branch: half of the branches would be mispredicted.
            at = at.saturating_add(half & below(numbers, middle, wanted).wrapping_neg());
            width = width.saturating_sub(half);
        }
        at.saturating_add(below(numbers, at, wanted))
    }
}

/// Returns 1 if the number at an index is below `wanted`; 0 otherwise, and after the end.
#[inline]
pub(super) fn below(numbers: &[u64], place: usize, wanted: u64) -> usize {
    let number = numbers.get(place).copied().unwrap_or(u64::MAX);
    usize::from(number < wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_leads_to_the_first_number_not_below(
            numbers in prop::collection::vec(prop_oneof![0..50_u64, any::<u64>(), u64::MAX - 5..=u64::MAX], 1..200),
            wanted in prop::collection::vec(any::<u64>(), 10),
        ) {
            let mut numbers = numbers;
            numbers.sort_unstable();
            let model = LinearModel::through(&numbers);
            let near = numbers.iter().flat_map(|n| [n.saturating_sub(1), *n, n.saturating_add(1)]);
            let largest = numbers.last().copied().unwrap();
            for wanted in near.chain(wanted).filter(|wanted| *wanted <= largest) {
                let first = numbers.partition_point(|number| *number < wanted);
                prop_assert_eq!(model.first_not_below(&numbers, wanted), first);
            }
        }
    }
}
