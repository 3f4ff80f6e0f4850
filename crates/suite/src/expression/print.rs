//! Formats expressions as text that parses to the same expression.

use super::{Expression, Filter, Gate, Operator, Term};
use std::fmt::{Display, Formatter, Result};

impl Operator {
    /// Longer symbols first, because they are tried in this order.
    pub(super) const ALL: [Operator; 12] = [
        Operator::Or,
        Operator::And,
        Operator::AtMost,
        Operator::AtLeast,
        Operator::Equal,
        Operator::Unequal,
        Operator::Less,
        Operator::More,
        Operator::Plus,
        Operator::Minus,
        Operator::Times,
        Operator::By,
    ];

    /// Precedence of `not`.
    pub(super) const NOT: u8 = 3;

    /// Higher precedence than any operator.
    pub(super) const TIGHTEST: u8 = 7;

    /// Returns its symbol.
    pub fn sign(self) -> &'static str {
        match self {
            Operator::Or => "or",
            Operator::And => "and",
            Operator::Less => "<",
            Operator::AtMost => "<=",
            Operator::More => ">",
            Operator::AtLeast => ">=",
            Operator::Equal => "==",
            Operator::Unequal => "!=",
            Operator::Plus => "+",
            Operator::Minus => "-",
            Operator::Times => "*",
            Operator::By => "/",
        }
    }

    /// Returns its precedence.
    pub(super) fn level(self) -> u8 {
        match self {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Plus | Operator::Minus => 5,
            Operator::Times | Operator::By => 6,
            _ => 4,
        }
    }

    /// Whether it compares two numbers.
    pub fn is_comparison(self) -> bool {
        self.level() == 4
    }

    /// Whether it is one of `<`, `<=`, `>`, `>=`.
    pub fn is_bound(self) -> bool {
        self.is_comparison() && !matches!(self, Operator::Equal | Operator::Unequal)
    }

    pub(super) fn gives_truth(self) -> bool {
        self.level() <= 4
    }

    pub(super) fn takes_truth(self) -> bool {
        self.level() < Operator::NOT
    }
}

impl Expression {
    fn level(&self) -> u8 {
        match self {
            Expression::Pair(_, operator, _) => operator.level(),
            Expression::Not(_) => Operator::NOT,
            Expression::Minus(_) => Operator::TIGHTEST,
            _ => Operator::TIGHTEST + 1,
        }
    }

    fn write(&self, out: &mut Formatter<'_>, least: u8) -> Result {
        if self.level() < least {
            write!(out, "({self})")
        } else {
            write!(out, "{self}")
        }
    }
}

impl Display for Expression {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            Expression::Number(number) => write!(out, "{number}"),
            Expression::Percent(share) => write!(out, "{}%", percent(*share)),
            Expression::Quantity(number, unit) => write!(out, "{number}{}", unit.name),
            Expression::Name(name) => out.write_str(name),
            Expression::Term(term) => write!(out, "{term}"),
            Expression::Minus(inner) => {
                out.write_str("-")?;
                inner.write(out, Operator::TIGHTEST)
            }
            Expression::Not(inner) => {
                out.write_str("not ")?;
                inner.write(out, Operator::NOT)
            }
            Expression::Pair(left, operator, right) => {
                // Comparisons cannot be chained; all other operators are left-associative.
                left.write(out, operator.level())?;
                write!(out, " {} ", operator.sign())?;
                right.write(out, operator.level() + 1)
            }
        }
    }
}

impl Display for Gate {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
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

/// Returns the shortest percentage that parses to the same share.
fn percent(share: f64) -> f64 {
    let digits = (0..17).map(|digits| 10f64.powi(digits));
    let mut rounded = digits.map(|power| (share * 100.0 * power).round() / power);
    let same = rounded.find(|percent| percent / 100.0 == share);
    same.unwrap_or(share * 100.0)
}

impl Display for Term {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let is_plain = |c: char| c.is_alphanumeric() || ['_', '.', ':'].contains(&c);
        let begins = self
            .metric
            .starts_with(|c: char| c.is_alphabetic() || c == '_');
        let is_word = ["and", "or", "not"].contains(&self.metric.as_str());
        if begins && !is_word && self.metric.chars().all(is_plain) {
            out.write_str(&self.metric)?
        } else {
            write!(out, "'{}'", self.metric.replace('\'', "''"))?
        }
        if self.filter != Filter::default() {
            write!(out, "[{}]", self.filter)?;
        }
        write!(out, "({})", bracketed(&self.variant))
    }
}

impl Display for Filter {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let group = self.group.iter().map(|group| bracketed(group));
        let pair =
            |(name, value): &(String, String)| format!("{}={}", bracketed(name), bracketed(value));
        let all: Vec<String> = group.chain(self.values.iter().map(pair)).collect();
        out.write_str(&all.join(", "))
    }
}

/// Formats a name for use in brackets.
fn bracketed(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_.:-+/@".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Unit;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    type Draw = Xoshiro256PlusPlus;

    fn name(draw: &mut Draw) -> String {
        let names = [
            "red",
            "session-only",
            "a b",
            "it's",
            "x]y",
            "1,5",
            "and",
            "ä=\"b",
            "p99.9",
        ];
        names[draw.random_range(0..names.len())].to_owned()
    }

    fn term(draw: &mut Draw) -> Term {
        let metrics = [
            "rps",
            "latency.p99.9",
            "instructions:u",
            "branch-misses:u",
            "not",
        ];
        let group = draw.random_bool(0.3).then(|| name(draw));
        let values = (0..draw.random_range(0..3)).map(|_| (name(draw), name(draw)));
        let values: Vec<(String, String)> = values.collect();
        Term {
            metric: metrics[draw.random_range(0..metrics.len())].to_owned(),
            filter: Filter { group, values },
            variant: name(draw),
        }
    }

    fn number(draw: &mut Draw, depth: u32) -> Expression {
        let pair = |draw: &mut Draw, operator| {
            let (left, right) = (number(draw, depth - 1), number(draw, depth - 1));
            Expression::Pair(Box::new(left), operator, Box::new(right))
        };
        match draw.random_range(0..if depth == 0 { 5 } else { 10 }) {
            0 => Expression::Number(f64::from(draw.random_range(0..100_000)) / 64.0),
            1 => Expression::Percent(f64::from(draw.random_range(0..100_000)) / 1000.0 / 100.0),
            2 => Expression::Name("cpus".to_owned()),
            3 => Expression::Term(term(draw)),
            4 => {
                let unit = Unit::find(["us", "s", "MiB"][draw.random_range(0..3)]).unwrap();
                Expression::Quantity(f64::from(draw.random_range(0..1000)) / 8.0, unit)
            }
            5 => Expression::Minus(Box::new(number(draw, depth - 1))),
            6 => pair(draw, Operator::Plus),
            7 => pair(draw, Operator::Minus),
            8 => pair(draw, Operator::Times),
            _ => pair(draw, Operator::By),
        }
    }

    fn truth(draw: &mut Draw, depth: u32) -> Expression {
        let comparisons: Vec<Operator> = Operator::ALL
            .into_iter()
            .filter(|o| o.is_comparison())
            .collect();
        match draw.random_range(0..if depth == 0 { 1 } else { 4 }) {
            0 => {
                let operator = comparisons[draw.random_range(0..comparisons.len())];
                let (left, right) = (number(draw, depth), number(draw, depth));
                Expression::Pair(Box::new(left), operator, Box::new(right))
            }
            1 => Expression::Not(Box::new(truth(draw, depth - 1))),
            which => {
                let operator = [Operator::And, Operator::Or][which - 2];
                let (left, right) = (truth(draw, depth - 1), truth(draw, depth - 1));
                Expression::Pair(Box::new(left), operator, Box::new(right))
            }
        }
    }

    #[test]
    fn what_is_printed_is_read_back_as_the_same() {
        let mut draw = Draw::seed_from_u64(1);
        for round in 0..2000 {
            let claim = truth(&mut draw, round % 5);
            let text = claim.to_string();
            assert_eq!(Expression::claim(&text), Ok(claim), "{text}");
        }
    }
}
