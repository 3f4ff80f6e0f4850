//! Expressions over metrics and variants: what claims say, and what gates keep.
//!
//! It decides the grammar and what an expression means once figures are given. It must not know where
//! figures come from. The grammar, from loose to tight:
//!
//! ```text
//! or  and  not  < <= > >= == !=  + -  * /  -x
//! 12.5  5%  50ms  NAME  METRIC(VARIANT)  METRIC[GROUP, PARAMETER=VALUE](VARIANT)  ( ... )
//! ```
//!
//! Start at [`Expression`]; gates are in [`Gate`].

mod parser;
mod print;
mod value;

pub use value::Unit;

use parser::Parser;
use print::percent;
use std::fmt::{Display, Formatter, Result as Written};

/// A claim or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A number as it stands.
    Number(f64),
    /// A share written in percent; 0.05 for `5%`.
    Percent(f64),
    /// A time or a size: `50ms`, `2MiB`.
    Quantity(f64, Unit),
    /// A parameter of the experiment.
    Name(String),
    /// A figure that was measured.
    Term(Term),
    /// The number with the other sign.
    Minus(Box<Expression>),
    /// The opposite truth.
    Not(Box<Expression>),
    /// Two, and what is between them.
    Pair(Box<Expression>, Operator, Box<Expression>),
}

/// A metric of a variant: `time[promises, test=fibonacci](collector)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Term {
    /// The metric.
    pub metric: String,
    /// The cases that are meant.
    pub filter: Filter,
    /// The variant.
    pub variant: String,
}

/// Which cases are meant: all that have the group and the values; without any, all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// The group.
    pub group: Option<String>,
    /// Values of parameters, as texts.
    pub values: Vec<(String, String)>,
}

/// What stands between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// At least one is true.
    Or,
    /// Both are true.
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

impl Expression {
    /// Reads a claim: an expression that is true or false.
    ///
    /// # Errors
    /// It is none; the mistake has its column.
    pub fn claim(text: &str) -> Result<Expression, Mistake> {
        Parser::new(text).claim()
    }

    /// The figures that it needs, in order, each once.
    pub fn terms(&self) -> Vec<&Term> {
        let mut found: Vec<&Term> = Vec::new();
        self.visit(&mut |part| {
            if let Expression::Term(term) = part
                && !found.contains(&term)
            {
                found.push(term);
            }
        });
        found
    }

    /// The parameters that it needs, in order, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        self.visit(&mut |part| {
            if let Expression::Name(name) = part
                && !found.contains(&name.as_str())
            {
                found.push(name);
            }
        });
        found
    }

    /// The times and sizes in it.
    pub fn quantities(&self) -> Vec<(f64, Unit)> {
        let mut found = Vec::new();
        self.visit(&mut |part| {
            if let Expression::Quantity(number, unit) = part {
                found.push((*number, *unit));
            }
        });
        found
    }

    fn visit<'a>(&'a self, look: &mut impl FnMut(&'a Expression)) {
        look(self);
        match self {
            Expression::Minus(inner) | Expression::Not(inner) => inner.visit(look),
            Expression::Pair(left, _, right) => {
                left.visit(look);
                right.visit(look);
            }
            _ => {}
        }
    }
}

/// The number that a text such as `2*8+1` or `5%` is; `None` if it is something else.
pub fn arithmetic(text: &str) -> Option<f64> {
    let read = Parser::new(text).quantity().ok()?;
    let value = read.number(&|_| None, &|_| None)?;
    // A text with a unit is no plain number.
    let is_plain = value.is_finite() && read.quantities().is_empty();
    is_plain.then_some(value)
}

/// Reads a filter as it stands between the brackets of a term: `promises, test=fibonacci`.
///
/// # Errors
/// It is none; the mistake has its column.
pub fn filter(text: &str) -> Result<Filter, Mistake> {
    Parser::new(text).whole_filter()
}

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

/// A mistake in an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  {text}\n  {}^{}", " ".repeat(*column), hint_line(hint))]
pub struct Mistake {
    /// What is wrong.
    pub message: String,
    /// The expression.
    pub text: String,
    /// Letters before the place.
    pub column: usize,
    /// What helps, if anything does.
    pub hint: Option<String>,
}

fn hint_line(hint: &Option<String>) -> String {
    let line = |hint: &String| format!("\nhint: {hint}");
    hint.as_ref().map(line).unwrap_or_default()
}

impl Mistake {
    /// The mistake that `part`, which occurs in the expression, names something that does not exist.
    pub fn about(text: &str, part: &str, message: String, hint: String) -> Mistake {
        let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let is_whole = |at: &usize| {
            let (before, behind) = (&text[..*at], &text[at + part.len()..]);
            !before.ends_with(goes_on) && !behind.starts_with(goes_on)
        };
        let mut places = text.match_indices(part).map(|(at, _)| at);
        let place = places.find(is_whole).or_else(|| text.find(part));
        let before = place.map_or("", |at| &text[..at]);
        Mistake {
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
        let claim = Expression::claim(text).unwrap();
        let terms: Vec<String> = claim.terms().iter().map(|t| t.to_string()).collect();
        assert_eq!(terms, ["cpu_cores(brown)", "cpu_cores(red)"]);
        assert_eq!(claim.names(), ["cpus"]);
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
            assert_eq!(arithmetic(text), Some(value), "{text}");
        }
        for text in [
            "",
            "x",
            "1 2",
            "1 < 2",
            "rps(red)",
            "1/0",
            "{n}",
            "8 workers",
        ] {
            assert_eq!(arithmetic(text), None, "{text}");
        }
    }

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
