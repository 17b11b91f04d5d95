//! Figures over rounds, and percentiles within one.

use std::collections::BTreeMap;

/// What each round gave for each figure: ours, and the limit's where there is one.
#[derive(Debug, Default)]
pub(super) struct Rounds(BTreeMap<&'static str, Vec<(f64, Option<f64>)>>);

/// A figure over all rounds: medians.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) ours: f64,
    pub(super) limit: Option<f64>,
    pub(super) range: (f64, f64),
    pub(super) rounds: usize,
}

impl Rounds {
    /// Adds what a round gave.
    pub(super) fn add(&mut self, figure: &'static str, ours: f64, limit: impl Into<Option<f64>>) {
        self.0.entry(figure).or_default().push((ours, limit.into()));
    }

    /// A figure over all rounds.
    ///
    /// # Panics
    /// No round gave it.
    pub(super) fn of(&self, figure: &str) -> Measured {
        let rounds = self.0.get(figure).unwrap_or_else(|| panic!("nothing measured {figure}"));
        let ours: Vec<f64> = rounds.iter().map(|round| round.0).collect();
        let limits: Vec<f64> = rounds.iter().filter_map(|round| round.1).collect();
        let lowest = ours.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = ours.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Measured {
            ours: median(&ours),
            limit: (!limits.is_empty()).then(|| median(&limits)),
            range: (lowest, highest),
            rounds: rounds.len(),
        }
    }
}

/// The middle one.
pub(super) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// The value below which a part of all lies: 0.5 is the median.
///
/// # Panics
/// There are none.
pub(super) fn percentile(values: &[f64], part: f64) -> f64 {
    assert!(!values.is_empty(), "nothing was measured");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = ((sorted.len() - 1) as f64 * part).round() as usize;
    sorted[place]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_of_its_rounds() {
        let mut rounds = Rounds::default();
        for (ours, limit) in [(3.0, 1.0), (9.0, 2.0), (4.0, 7.0)] {
            rounds.add("p50", ours, limit);
            rounds.add("alone", ours, None);
        }
        let measured = rounds.of("p50");
        assert_eq!((measured.ours, measured.limit), (4.0, Some(2.0)));
        assert_eq!((measured.range, measured.rounds), ((3.0, 9.0), 3));
        assert_eq!(rounds.of("alone").limit, None);
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.0), 1.0);
        assert_eq!(percentile(&values, 0.5), 51.0);
        assert_eq!(percentile(&values, 0.99), 100.0);
        assert_eq!(percentile(&values, 1.0), 101.0);
    }
}
