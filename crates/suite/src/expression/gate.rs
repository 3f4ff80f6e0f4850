//! Gates: how much worse a candidate may be before the command fails.

use super::parser::Parser;
use super::print::percent;
use super::{Filter, Mistake, Operator, Term};
use std::fmt::{Display, Formatter, Result as Written};

/// A bound on the change of a candidate against the baseline: `time < +250%`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The metric.
    pub metric: String,
    /// The cases that are meant.
    pub filter: Filter,
    /// `<`, `<=`, `>` or `>=`.
    pub operator: Operator,
    /// The change as a share of the baseline: 2.5 for `+250%`, -0.05 for `-5%`.
    pub change: f64,
}

impl Gate {
    /// Reads gates with `and` between them.
    ///
    /// # Errors
    /// There is none; the mistake has its column.
    pub fn parse(text: &str) -> Result<Vec<Gate>, Mistake> {
        Parser::new(text).gates()
    }

    /// Whether a change, as a share of the baseline, is within the gate.
    pub fn allows(&self, change: f64) -> bool {
        self.operator.compares(change, self.change) == Some(true)
    }
}

impl Display for Gate {
    fn fmt(&self, out: &mut Formatter<'_>) -> Written {
        let term = Term {
            metric: self.metric.clone(),
            filter: self.filter.clone(),
            variant: "x".to_owned(),
        };
        let what = term.to_string();
        let what = what.trim_end_matches("(x)");
        let sign = if self.change < 0.0 { "" } else { "+" };
        write!(
            out,
            "{what} {} {sign}{}%",
            self.operator.sign(),
            percent(self.change)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_bounds_the_change_of_a_metric() {
        let gates = Gate::parse("rps > -5% and latency.p99[http, server=hapi] <= +10.5%").unwrap();
        let texts: Vec<String> = gates.iter().map(Gate::to_string).collect();
        assert_eq!(
            texts,
            ["rps > -5%", "latency.p99[http, server=hapi] <= +10.5%"]
        );
        assert_eq!(gates[0].change, -0.05);
        assert!(gates[0].allows(-0.04) && gates[0].allows(0.3) && !gates[0].allows(-0.05));
        assert!(gates[1].allows(0.105) && !gates[1].allows(0.106));
        assert_eq!(Gate::parse("time < 250%"), Gate::parse("time < +250%"));
    }

    #[test]
    fn a_gate_without_percent_or_bound_is_reported_with_its_place() {
        for (text, expected) in [
            (
                "time < 5",
                "a change in percent is missing here\n  time < 5\n         ^\nhint: ",
            ),
            (
                "time == 5%",
                "one of < <= > >= is missing here\n  time == 5%\n       ^",
            ),
            ("< 5%", "the name of a metric is missing here\n  < 5%\n  ^"),
            (
                "time < 5% or rps > 1%",
                "an operator is missing here\n  time < 5% or rps > 1%\n            ^",
            ),
        ] {
            let mistake = Gate::parse(text).unwrap_err().to_string();
            assert!(mistake.starts_with(expected), "{mistake}");
        }
    }
}
