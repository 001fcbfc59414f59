//! The input of a run: a seed, and the reductions that shrinking found.
//!
//! Its text form is `SEED` or, shrunk, `SEED,nodes=3,steps=40,without=7+12`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The input of a run. Equal scenarios have equal outcomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scenario {
    pub seed: u64,
    /// At most this many nodes at the start.
    pub nodes: Option<usize>,
    /// The phase with faults ends after this many steps.
    pub steps: Option<usize>,
    /// Faults to leave out, by their number in the trace.
    pub without: BTreeSet<usize>,
    /// Watches never lag; they can still break.
    pub fresh: bool,
}

/// The text is not a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a scenario: {part:?} should be a seed, nodes=N, steps=N, without=N+N or fresh")]
pub struct NotAScenario {
    text: String,
    part: String,
}

impl Scenario {
    /// The unreduced run of a seed.
    pub fn of(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    fn read(&mut self, part: &str) -> Option<()> {
        match part.split_once('=') {
            Some(("nodes", count)) => self.nodes = Some(count.parse().ok()?),
            Some(("steps", count)) => self.steps = Some(count.parse().ok()?),
            Some(("without", faults)) => {
                self.without = faults.split('+').map(str::parse).collect::<Result<_, _>>().ok()?;
            }
            Some(_) => return None,
            None if part == "fresh" => self.fresh = true,
            None => self.seed = part.parse().ok()?,
        }
        Some(())
    }
}

impl FromStr for Scenario {
    type Err = NotAScenario;

    fn from_str(text: &str) -> Result<Self, NotAScenario> {
        let mut scenario = Self::default();
        for part in text.split(',') {
            let wrong = || NotAScenario { text: text.to_owned(), part: part.to_owned() };
            scenario.read(part).ok_or_else(wrong)?;
        }
        Ok(scenario)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, nodes, steps, without, fresh } = self;
        write!(f, "{seed}")?;
        if let Some(nodes) = nodes {
            write!(f, ",nodes={nodes}")?;
        }
        if let Some(steps) = steps {
            write!(f, ",steps={steps}")?;
        }
        if !without.is_empty() {
            let without: Vec<String> = without.iter().map(ToString::to_string).collect();
            write!(f, ",without={}", without.join("+"))?;
        }
        if *fresh {
            write!(f, ",fresh")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_as_it_is_printed() {
        let full = Scenario { seed: 7, nodes: Some(3), steps: Some(40), without: BTreeSet::from([2, 9]), fresh: true };
        assert_eq!(full.to_string(), "7,nodes=3,steps=40,without=2+9,fresh");
        assert_eq!(full.to_string().parse(), Ok(full));
        assert_eq!("12".parse(), Ok(Scenario::of(12)));
    }

    #[test]
    fn text_that_is_no_scenario_is_refused_with_the_part_that_is_wrong() {
        let refused = "12,knots=3".parse::<Scenario>().map_err(|error| error.to_string());
        assert!(refused.is_err_and(|error| error.contains("\"knots=3\"")));
    }
}
