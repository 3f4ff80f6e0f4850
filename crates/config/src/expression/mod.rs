//! Defines expressions over metrics and variants, for claims and for gates, which limit changes.
//!
//! This module defines the grammar of expressions, and evaluates expressions for given measured
//! values. The grammar, from lowest to highest precedence:
//!
//! ```text
//! or  and  not  < <= > >= == !=  + -  * /  -x
//! 12.5  5%  50ms  NAME  METRIC(VARIANT)  METRIC[GROUP, PARAMETER=VALUE](VARIANT)  ( ... )
//! ```
//!
//! Start at [`ClaimExpression`]; gates are in [`ChangeGate`].

mod parser;
mod print;

pub use parser::{evaluate_arithmetic, parse_filter};

/// Units, each with the unit in which it is stored and the factor between the two. k, M and G are
/// powers of 1000; Ki, Mi and Gi are powers of 1024 (IEC 80000-13).
const QUANTITY_UNITS: [(&str, &str, f64); 13] = [
    ("ns", "ns", 1.0),
    ("us", "ns", 1e3),
    ("µs", "ns", 1e3),
    ("ms", "ns", 1e6),
    ("s", "ns", 1e9),
    ("min", "ns", 60e9),
    ("B", "B", 1.0),
    ("kB", "B", 1e3),
    ("MB", "B", 1e6),
    ("GB", "B", 1e9),
    ("KiB", "B", 1024.0),
    ("MiB", "B", 1_048_576.0),
    ("GiB", "B", 1_073_741_824.0),
];

/// A unit of time or size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantityUnit {
    /// Symbol.
    pub name: &'static str,
    /// Unit in which measured values are stored.
    pub stored: &'static str,
    /// How many stored units this unit has: 1e6 for `ms`, which is stored in ns.
    pub factor: f64,
}

impl QuantityUnit {
    /// Returns the unit with that symbol.
    pub fn find_unit(name: &str) -> Option<QuantityUnit> {
        let found = QUANTITY_UNITS.iter().find(|(symbol, ..)| *symbol == name);
        found.map(|&(name, stored, factor)| QuantityUnit { name, stored, factor })
    }
}

/// A claim or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimExpression {
    /// A plain number.
    Number(f64),
    /// A percentage, stored as a fraction: 0.05 for `5%`.
    Percent(f64),
    /// A time or a size: `50ms`, `2MiB`.
    Quantity(f64, QuantityUnit),
    /// A parameter of the experiment.
    Name(String),
    /// A measured value.
    Term(MetricTerm),
    /// Negation of a number.
    Minus(Box<ClaimExpression>),
    /// Logical negation.
    Not(Box<ClaimExpression>),
    /// A binary operation.
    Pair(Box<ClaimExpression>, BinaryOperator, Box<ClaimExpression>),
}

/// A metric of a variant: `time[promises, test=fibonacci](collector)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetricTerm {
    /// Metric.
    pub metric: String,
    /// Selected cases.
    pub filter: CaseFilter,
    /// Variant.
    pub variant: String,
}

/// Selects the cases that belong to the group and have the values. An empty filter selects all
/// cases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CaseFilter {
    /// Group.
    pub group: Option<String>,
    /// Values of parameters, as strings.
    pub values: Vec<(String, String)>,
}

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOperator {
    /// Logical or.
    Or,
    /// Logical and.
    And,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    By,
}

impl ClaimExpression {
    /// Returns the terms of the expression, in order and without duplicates.
    pub fn terms(&self) -> Vec<&MetricTerm> {
        let mut found: Vec<&MetricTerm> = Vec::new();
        self.visit_parts(&mut |part| {
            if let ClaimExpression::Term(term) = part
                && !found.contains(&term)
            {
                found.push(term);
            }
        });
        found
    }

    /// Returns the parameters of the expression, in order and without duplicates.
    pub fn parameter_names(&self) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        self.visit_parts(&mut |part| {
            if let ClaimExpression::Name(name) = part
                && !found.contains(&name.as_str())
            {
                found.push(name);
            }
        });
        found
    }

    /// Returns the times and sizes in the expression.
    pub fn quantities(&self) -> Vec<(f64, QuantityUnit)> {
        let mut found = Vec::new();
        self.visit_parts(&mut |part| {
            if let ClaimExpression::Quantity(number, unit) = part {
                found.push((*number, *unit));
            }
        });
        found
    }

    fn visit_parts<'a>(&'a self, visitor: &mut impl FnMut(&'a ClaimExpression)) {
        visitor(self);
        match self {
            ClaimExpression::Minus(inner) | ClaimExpression::Not(inner) => {
                inner.visit_parts(visitor)
            }
            ClaimExpression::Pair(left, _, right) => {
                left.visit_parts(visitor);
                right.visit_parts(visitor);
            }
            _ => {}
        }
    }
}

/// A limit on the change from the baseline to a candidate: `time < +250%`.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeGate {
    /// Metric.
    pub metric: String,
    /// Selected cases.
    pub filter: CaseFilter,
    /// `<`, `<=`, `>` or `>=`.
    pub operator: BinaryOperator,
    /// Change as a fraction of the baseline: 2.5 for `+250%`, -0.05 for `-5%`.
    pub change: f64,
}

impl ChangeGate {
    /// Whether a change, as a fraction of the baseline, satisfies the gate.
    pub fn allows_change(&self, change: f64) -> bool {
        self.operator.compare_numbers(change, self.change) == Some(true)
    }
}

/// An error in an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  {text}\n  {}^{}", " ".repeat(*column), hint_line(hint))]
pub struct ExpressionError {
    /// Description of the error.
    pub message: String,
    /// Expression.
    pub text: String,
    /// Position of the error in `text`: the number of characters before it.
    pub column: usize,
    /// Hint, if any.
    pub hint: Option<String>,
}

fn hint_line(hint: &Option<String>) -> String {
    let line = |hint: &String| format!("\nhint: {hint}");
    hint.as_ref().map(line).unwrap_or_default()
}

impl ExpressionError {
    /// Creates an error about `part`, a name in `text`, such as a name that does not exist.
    pub fn about_name(text: &str, part: &str, message: String, hint: String) -> ExpressionError {
        let continues_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let is_whole_name = |index: &usize| {
            let (before, after) = (&text[..*index], &text[index + part.len()..]);
            !before.ends_with(continues_name) && !after.starts_with(continues_name)
        };
        let mut positions = text.match_indices(part).map(|(index, _)| index);
        let position = positions.find(is_whole_name).or_else(|| text.find(part));
        let before = position.map_or("", |index| &text[..index]);
        ExpressionError {
            message,
            text: text.to_owned(),
            column: before.chars().count(),
            hint: Some(hint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_lists_what_it_needs() {
        let text = "cpu_cores(brown) > 0.9*cpus and cpu_cores(red) < 1.3 and cpu_cores(brown) > 1";
        let claim = ClaimExpression::parse_claim(text).unwrap();
        let terms: Vec<String> = claim.terms().iter().map(|t| t.to_string()).collect();
        assert_eq!(terms, ["cpu_cores(brown)", "cpu_cores(red)"]);
        assert_eq!(claim.parameter_names(), ["cpus"]);
    }

    #[test]
    fn numbers_in_texts_are_calculated() {
        for (text, value) in [
            ("8", 8.0),
            ("2*8", 16.0),
            ("8+1", 9.0),
            ("1+2*3", 7.0),
            ("(1+2)*3", 9.0),
            ("10-4-3", 3.0),
            ("8/2/2", 2.0),
            ("-3+5", 2.0),
            ("3%", 0.03),
            ("1e3", 1000.0),
        ] {
            assert_eq!(evaluate_arithmetic(text), Some(value), "{text}");
        }
        for text in ["", "x", "1 2", "1 < 2", "rps(red)", "1/0", "{n}", "8 workers"] {
            assert_eq!(evaluate_arithmetic(text), None, "{text}");
        }
    }

    #[test]
    fn a_gate_bounds_the_change_of_a_metric() {
        let gates =
            ChangeGate::parse("rps > -5% and latency.p99[http, server=hapi] <= +10.5%").unwrap();
        let texts: Vec<String> = gates.iter().map(ChangeGate::to_string).collect();
        assert_eq!(texts, ["rps > -5%", "latency.p99[http, server=hapi] <= +10.5%"]);
        assert_eq!(gates[0].change, -0.05);
        assert!(
            gates[0].allows_change(-0.04)
                && gates[0].allows_change(0.3)
                && !gates[0].allows_change(-0.05)
        );
        assert!(gates[1].allows_change(0.105) && !gates[1].allows_change(0.106));
        assert_eq!(ChangeGate::parse("time < 250%"), ChangeGate::parse("time < +250%"));
    }

    #[test]
    fn a_gate_without_percent_or_bound_is_reported_with_its_place() {
        for (text, expected) in [
            ("time < 5", "expected a change in percent\n  time < 5\n         ^\nhint: "),
            ("time == 5%", "expected one of < <= > >=\n  time == 5%\n       ^"),
            ("< 5%", "expected the name of a metric\n  < 5%\n  ^"),
            (
                "time < 5% or rps > 1%",
                "expected an operator\n  time < 5% or rps > 1%\n            ^",
            ),
        ] {
            let error = ChangeGate::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
