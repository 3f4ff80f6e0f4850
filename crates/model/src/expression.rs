//! Defines expressions over metrics and variants, for claims and for gates, which limit changes.
//!
//! Expressions can be evaluated for given measured values, and print as text that parses to the same
//! expression. `config/expression.rs` has the grammar and the parser. Start at [`ClaimExpression`];
//! gates are in [`ChangeGate`].

use std::fmt::{Display, Formatter, Result};

/// Units, each with the unit in which it is stored and the factor between the two. k, M and G are
/// powers of 1000; Ki, Mi and Gi are powers of 1024 (IEC 80000-13).
pub const QUANTITY_UNITS: [QuantityUnit; 13] = [
    QuantityUnit { name: "ns", stored: "ns", factor: 1.0 },
    QuantityUnit { name: "us", stored: "ns", factor: 1e3 },
    QuantityUnit { name: "µs", stored: "ns", factor: 1e3 },
    QuantityUnit { name: "ms", stored: "ns", factor: 1e6 },
    QuantityUnit { name: "s", stored: "ns", factor: 1e9 },
    QuantityUnit { name: "min", stored: "ns", factor: 60e9 },
    QuantityUnit { name: "B", stored: "B", factor: 1.0 },
    QuantityUnit { name: "kB", stored: "B", factor: 1e3 },
    QuantityUnit { name: "MB", stored: "B", factor: 1e6 },
    QuantityUnit { name: "GB", stored: "B", factor: 1e9 },
    QuantityUnit { name: "KiB", stored: "B", factor: 1024.0 },
    QuantityUnit { name: "MiB", stored: "B", factor: 1_048_576.0 },
    QuantityUnit { name: "GiB", stored: "B", factor: 1_073_741_824.0 },
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
        QUANTITY_UNITS.into_iter().find(|unit| unit.name == name)
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

/// A binary operator. A symbol comes before its prefixes, because the parser tries the operators in
/// this order: `<=` before `<`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOperator {
    /// Logical or.
    Or,
    /// Logical and.
    And,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `>`
    More,
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
        self.collect_parts(|part| match part {
            ClaimExpression::Term(term) => Some(term),
            _ => None,
        })
    }

    /// Returns the parameters of the expression, in order and without duplicates.
    pub fn parameter_names(&self) -> Vec<&str> {
        self.collect_parts(|part| match part {
            ClaimExpression::Name(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the times and sizes in the expression, in order and without duplicates.
    pub fn quantities(&self) -> Vec<(f64, QuantityUnit)> {
        self.collect_parts(|part| match part {
            ClaimExpression::Quantity(number, unit) => Some((*number, *unit)),
            _ => None,
        })
    }

    fn collect_parts<'a, T: PartialEq>(
        &'a self,
        select: impl Fn(&'a ClaimExpression) -> Option<T>,
    ) -> Vec<T> {
        let (mut found, mut pending) = (Vec::new(), vec![self]);
        while let Some(part) = pending.pop() {
            let selected = select(part).filter(|selected| !found.contains(selected));
            found.extend(selected);
            match part {
                ClaimExpression::Minus(inner) | ClaimExpression::Not(inner) => pending.push(inner),
                ClaimExpression::Pair(left, _, right) => pending.extend([&**right, &**left]),
                _ => {}
            }
        }
        found
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

// Formats expressions as text that parses to the same expression.

impl BinaryOperator {
    /// Operators in the order of their declaration, each with its symbol and precedence.
    pub const OPERATORS: [(BinaryOperator, &str, u8); 12] = [
        (BinaryOperator::Or, "or", 1),
        (BinaryOperator::And, "and", 2),
        (BinaryOperator::AtMost, "<=", 4),
        (BinaryOperator::AtLeast, ">=", 4),
        (BinaryOperator::Equal, "==", 4),
        (BinaryOperator::Unequal, "!=", 4),
        (BinaryOperator::Less, "<", 4),
        (BinaryOperator::More, ">", 4),
        (BinaryOperator::Plus, "+", 5),
        (BinaryOperator::Minus, "-", 5),
        (BinaryOperator::Times, "*", 6),
        (BinaryOperator::By, "/", 6),
    ];

    /// Precedence of `not`.
    pub const NOT_PRECEDENCE: u8 = 3;

    /// Precedence of the unary minus, which is higher than that of any binary operator.
    pub const MAX_PRECEDENCE: u8 = 7;

    fn symbol(self) -> &'static str {
        BinaryOperator::OPERATORS[self as usize].1
    }

    /// Returns the precedence of the operator.
    pub fn precedence(self) -> u8 {
        BinaryOperator::OPERATORS[self as usize].2
    }

    /// Whether the operator compares two numbers.
    pub fn is_comparison(self) -> bool {
        self.precedence() == 4
    }

    /// Whether the operator is one of `<`, `<=`, `>`, `>=`.
    pub fn is_bound(self) -> bool {
        self.is_comparison() && !matches!(self, BinaryOperator::Equal | BinaryOperator::Unequal)
    }

    /// Whether the result of the operator is a boolean.
    pub fn gives_truth(self) -> bool {
        self.precedence() <= 4
    }

    /// Whether the operands of the operator are booleans.
    pub fn takes_truth(self) -> bool {
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
                let left = left.evaluate_number(names, figures)?;
                let right = right.evaluate_number(names, figures)?;
                match operator {
                    BinaryOperator::Plus => Some(left + right),
                    BinaryOperator::Minus => Some(left - right),
                    BinaryOperator::Times => Some(left * right),
                    BinaryOperator::By => Some(left / right),
                    _ => None,
                }
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
