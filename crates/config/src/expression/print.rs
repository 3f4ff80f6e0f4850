//! Formats expressions as text that parses to the same expression.

use super::{BinaryOperator, CaseFilter, ChangeGate, ClaimExpression, MetricTerm};
use std::fmt::{Display, Formatter, Result};

impl BinaryOperator {
    /// Operators in the order in which the parser tries them. A symbol comes before its prefixes:
    /// `<=` before `<`.
    pub(super) const ALL_OPERATORS: [BinaryOperator; 12] = [
        BinaryOperator::Or,
        BinaryOperator::And,
        BinaryOperator::AtMost,
        BinaryOperator::AtLeast,
        BinaryOperator::Equal,
        BinaryOperator::Unequal,
        BinaryOperator::Less,
        BinaryOperator::More,
        BinaryOperator::Plus,
        BinaryOperator::Minus,
        BinaryOperator::Times,
        BinaryOperator::By,
    ];

    /// Precedence of `not`.
    pub(super) const NOT_PRECEDENCE: u8 = 3;

    /// Precedence of the unary minus, which is higher than that of any binary operator.
    pub(super) const MAX_PRECEDENCE: u8 = 7;

    /// Returns the symbol of the operator.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOperator::Or => "or",
            BinaryOperator::And => "and",
            BinaryOperator::Less => "<",
            BinaryOperator::AtMost => "<=",
            BinaryOperator::More => ">",
            BinaryOperator::AtLeast => ">=",
            BinaryOperator::Equal => "==",
            BinaryOperator::Unequal => "!=",
            BinaryOperator::Plus => "+",
            BinaryOperator::Minus => "-",
            BinaryOperator::Times => "*",
            BinaryOperator::By => "/",
        }
    }

    /// Returns the precedence of the operator.
    pub(super) fn precedence(self) -> u8 {
        match self {
            BinaryOperator::Or => 1,
            BinaryOperator::And => 2,
            BinaryOperator::Plus | BinaryOperator::Minus => 5,
            BinaryOperator::Times | BinaryOperator::By => 6,
            _ => 4,
        }
    }

    /// Whether the operator compares two numbers.
    pub fn is_comparison(self) -> bool {
        self.precedence() == 4
    }

    /// Whether the operator is one of `<`, `<=`, `>`, `>=`.
    pub fn is_bound(self) -> bool {
        self.is_comparison() && !matches!(self, BinaryOperator::Equal | BinaryOperator::Unequal)
    }

    pub(super) fn gives_truth(self) -> bool {
        self.precedence() <= 4
    }

    pub(super) fn takes_truth(self) -> bool {
        self.precedence() < BinaryOperator::NOT_PRECEDENCE
    }
}

impl ClaimExpression {
    fn precedence_of_root(&self) -> u8 {
        match self {
            ClaimExpression::Pair(_, operator, _) => operator.precedence(),
            ClaimExpression::Not(_) => BinaryOperator::NOT_PRECEDENCE,
            ClaimExpression::Minus(_) => BinaryOperator::MAX_PRECEDENCE,
            _ => BinaryOperator::MAX_PRECEDENCE + 1,
        }
    }

    fn write_operand(&self, out: &mut Formatter<'_>, min_precedence: u8) -> Result {
        if self.precedence_of_root() < min_precedence {
            write!(out, "({self})")
        } else {
            write!(out, "{self}")
        }
    }
}

impl Display for ClaimExpression {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            ClaimExpression::Number(number) => write!(out, "{number}"),
            ClaimExpression::Percent(share) => write!(out, "{}%", shortest_percent(*share)),
            ClaimExpression::Quantity(number, unit) => write!(out, "{number}{}", unit.name),
            ClaimExpression::Name(name) => out.write_str(name),
            ClaimExpression::Term(term) => write!(out, "{term}"),
            ClaimExpression::Minus(inner) => {
                out.write_str("-")?;
                inner.write_operand(out, BinaryOperator::MAX_PRECEDENCE)
            }
            ClaimExpression::Not(inner) => {
                out.write_str("not ")?;
                inner.write_operand(out, BinaryOperator::NOT_PRECEDENCE)
            }
            ClaimExpression::Pair(left, operator, right) => {
                // Comparisons cannot be chained; all other operators are left-associative.
                left.write_operand(out, operator.precedence())?;
                write!(out, " {} ", operator.symbol())?;
                right.write_operand(out, operator.precedence() + 1)
            }
        }
    }
}

impl Display for ChangeGate {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let term = MetricTerm {
            metric: self.metric.clone(),
            filter: self.filter.clone(),
            variant: "x".to_owned(),
        };
        let printed = term.to_string();
        let metric = printed.trim_end_matches("(x)");
        let sign = if self.change < 0.0 { "" } else { "+" };
        write!(out, "{metric} {} {sign}{}%", self.operator.symbol(), shortest_percent(self.change))
    }
}

/// Returns the shortest percentage that parses to the same fraction.
fn shortest_percent(share: f64) -> f64 {
    let digits = (0..17).map(|digits| 10f64.powi(digits));
    let mut rounded = digits.map(|power| (share * 100.0 * power).round() / power);
    let exact = rounded.find(|percent| percent / 100.0 == share);
    exact.unwrap_or(share * 100.0)
}

impl Display for MetricTerm {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let is_plain = |c: char| c.is_alphanumeric() || ['_', '.', ':'].contains(&c);
        let starts_like_name = self.metric.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let is_word = ["and", "or", "not"].contains(&self.metric.as_str());
        if starts_like_name && !is_word && self.metric.chars().all(is_plain) {
            out.write_str(&self.metric)?
        } else {
            write!(out, "'{}'", self.metric.replace('\'', "''"))?
        }
        if self.filter != CaseFilter::default() {
            write!(out, "[{}]", self.filter)?;
        }
        write!(out, "({})", quote_name(&self.variant))
    }
}

impl Display for CaseFilter {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let group = self.group.iter().map(|group| quote_name(group));
        let pair = |(name, value): &(String, String)| {
            format!("{}={}", quote_name(name), quote_name(value))
        };
        let conditions: Vec<String> = group.chain(self.values.iter().map(pair)).collect();
        out.write_str(&conditions.join(", "))
    }
}

/// Formats a name for use in brackets.
fn quote_name(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_.:-+/@".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "''"))
    }
}

// Evaluates expressions for given parameters (`names`) and measured values (`figures`).

type NameLookup<'a> = &'a dyn Fn(&str) -> Option<f64>;
type FigureLookup<'a> = &'a dyn Fn(&MetricTerm) -> Option<f64>;

impl ClaimExpression {
    /// Returns the number; `None` for a boolean, or if a name or measured value is unknown.
    pub fn evaluate_number(&self, names: NameLookup<'_>, figures: FigureLookup<'_>) -> Option<f64> {
        match self {
            ClaimExpression::Number(number) | ClaimExpression::Percent(number) => Some(*number),
            ClaimExpression::Quantity(number, unit) => Some(number * unit.factor),
            ClaimExpression::Name(name) => names(name),
            ClaimExpression::Term(term) => figures(term),
            ClaimExpression::Minus(inner) => Some(-inner.evaluate_number(names, figures)?),
            ClaimExpression::Not(_) => None,
            ClaimExpression::Pair(left, operator, right) => {
                let numbers = || {
                    Some((
                        left.evaluate_number(names, figures)?,
                        right.evaluate_number(names, figures)?,
                    ))
                };
                match operator {
                    BinaryOperator::Plus => numbers().map(|(left, right)| left + right),
                    BinaryOperator::Minus => numbers().map(|(left, right)| left - right),
                    BinaryOperator::Times => numbers().map(|(left, right)| left * right),
                    BinaryOperator::By => numbers().map(|(left, right)| left / right),
                    _ => None,
                }
            }
        }
    }

    /// Returns the boolean; `None` for a number, or if it depends on an unknown name or measured
    /// value. One side of `and` or `or` suffices if it decides the result.
    pub fn evaluate_truth(&self, names: NameLookup<'_>, figures: FigureLookup<'_>) -> Option<bool> {
        let ClaimExpression::Pair(left, operator, right) = self else {
            return match self {
                ClaimExpression::Not(inner) => Some(!inner.evaluate_truth(names, figures)?),
                _ => None,
            };
        };
        let truths = || (left.evaluate_truth(names, figures), right.evaluate_truth(names, figures));
        match operator {
            BinaryOperator::And => match truths() {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (left, right) => Some(left? && right?),
            },
            BinaryOperator::Or => match truths() {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (left, right) => Some(left? || right?),
            },
            _ => {
                let (left, right) =
                    (left.evaluate_number(names, figures)?, right.evaluate_number(names, figures)?);
                operator.compare_numbers(left, right)
            }
        }
    }
}

impl BinaryOperator {
    /// Compares two numbers; `None` if the operator is not a comparison.
    pub fn compare_numbers(self, left: f64, right: f64) -> Option<bool> {
        match self {
            BinaryOperator::Less => Some(left < right),
            BinaryOperator::AtMost => Some(left <= right),
            BinaryOperator::More => Some(left > right),
            BinaryOperator::AtLeast => Some(left >= right),
            BinaryOperator::Equal => Some(left == right),
            BinaryOperator::Unequal => Some(left != right),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::QuantityUnit;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    type Draw = Xoshiro256PlusPlus;

    fn draw_name(draw: &mut Draw) -> String {
        let names = ["red", "session-only", "a b", "it's", "x]y", "1,5", "and", "ä=\"b", "p99.9"];
        names[draw.random_range(0..names.len())].to_owned()
    }

    fn draw_term(draw: &mut Draw) -> MetricTerm {
        let metrics = ["rps", "latency.p99.9", "instructions:u", "branch-misses:u", "not"];
        let group = draw.random_bool(0.3).then(|| draw_name(draw));
        let values = (0..draw.random_range(0..3)).map(|_| (draw_name(draw), draw_name(draw)));
        let values: Vec<(String, String)> = values.collect();
        MetricTerm {
            metric: metrics[draw.random_range(0..metrics.len())].to_owned(),
            filter: CaseFilter { group, values },
            variant: draw_name(draw),
        }
    }

    fn draw_number(draw: &mut Draw, depth: u32) -> ClaimExpression {
        let pair = |draw: &mut Draw, operator| {
            let (left, right) = (draw_number(draw, depth - 1), draw_number(draw, depth - 1));
            ClaimExpression::Pair(Box::new(left), operator, Box::new(right))
        };
        match draw.random_range(0..if depth == 0 { 5 } else { 10 }) {
            0 => ClaimExpression::Number(f64::from(draw.random_range(0..100_000)) / 64.0),
            1 => {
                ClaimExpression::Percent(f64::from(draw.random_range(0..100_000)) / 1000.0 / 100.0)
            }
            2 => ClaimExpression::Name("cpus".to_owned()),
            3 => ClaimExpression::Term(draw_term(draw)),
            4 => {
                let unit =
                    QuantityUnit::find_unit(["us", "s", "MiB"][draw.random_range(0..3)]).unwrap();
                ClaimExpression::Quantity(f64::from(draw.random_range(0..1000)) / 8.0, unit)
            }
            5 => ClaimExpression::Minus(Box::new(draw_number(draw, depth - 1))),
            6 => pair(draw, BinaryOperator::Plus),
            7 => pair(draw, BinaryOperator::Minus),
            8 => pair(draw, BinaryOperator::Times),
            _ => pair(draw, BinaryOperator::By),
        }
    }

    fn draw_truth(draw: &mut Draw, depth: u32) -> ClaimExpression {
        let comparisons: Vec<BinaryOperator> =
            BinaryOperator::ALL_OPERATORS.into_iter().filter(|o| o.is_comparison()).collect();
        match draw.random_range(0..if depth == 0 { 1 } else { 4 }) {
            0 => {
                let operator = comparisons[draw.random_range(0..comparisons.len())];
                let (left, right) = (draw_number(draw, depth), draw_number(draw, depth));
                ClaimExpression::Pair(Box::new(left), operator, Box::new(right))
            }
            1 => ClaimExpression::Not(Box::new(draw_truth(draw, depth - 1))),
            which => {
                let operator = [BinaryOperator::And, BinaryOperator::Or][which - 2];
                let (left, right) = (draw_truth(draw, depth - 1), draw_truth(draw, depth - 1));
                ClaimExpression::Pair(Box::new(left), operator, Box::new(right))
            }
        }
    }

    #[test]
    fn printed_claims_parse_to_the_same_claim() {
        let mut draw = Draw::seed_from_u64(1);
        for round in 0..2000 {
            let claim = draw_truth(&mut draw, round % 5);
            let text = claim.to_string();
            assert_eq!(ClaimExpression::parse_claim(&text), Ok(claim), "{text}");
        }
    }

    fn truth_of(text: &str) -> Option<bool> {
        let claim = ClaimExpression::parse_claim(text).unwrap();
        let names = |name: &str| (name == "cpus").then_some(8.0);
        claim.evaluate_truth(&names, &|term| match term.variant.as_str() {
            "two" => Some(2.0),
            "three" => Some(3.0),
            _ => None,
        })
    }

    #[test]
    fn operators_have_the_usual_precedence() {
        for (text, expected) in [
            ("1 + 2 * 3 == 7", true),
            ("10 - 4 - 3 == 3", true),
            ("-2 * -3 == 6", true),
            ("10% * 50 == 5", true),
            ("x(two) > 2*x(three) or x(two) < x(three)", true),
            ("1 == 1 or 1 == 2 and 1 == 3", true),
            ("(1 == 1 or 1 == 2) and 1 == 3", false),
            ("not 1 == 2 and 1 == 1", true),
            ("not (1 == 1 or 1 == 2)", false),
            ("x(three) >= 0.3*cpus", true),
            ("x(three) != 3", false),
            ("x(two) < 1us and 2ms == 2000us", true),
            ("1KiB == 1024 and 1kB == 1000B", true),
        ] {
            assert_eq!(truth_of(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_missing_figure_leaves_open_only_what_depends_on_it() {
        assert_eq!(truth_of("x(lost) > 1"), None);
        assert_eq!(truth_of("x(lost) > 1 and 1 == 2"), Some(false));
        assert_eq!(truth_of("x(lost) > 1 or 1 == 1"), Some(true));
        assert_eq!(truth_of("x(lost) > 1 or 1 == 2"), None);
        assert_eq!(truth_of("not x(lost) > 1"), None);
    }
}
