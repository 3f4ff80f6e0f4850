//! Evaluates expressions for given names and figures.

use super::{Expression, Operator, Term};

type Names<'a> = &'a dyn Fn(&str) -> Option<f64>;
type Figures<'a> = &'a dyn Fn(&Term) -> Option<f64>;

impl Expression {
    /// Returns the number; `None` for a truth value, or if a name or figure is unknown.
    pub fn number(&self, names: Names<'_>, figures: Figures<'_>) -> Option<f64> {
        match self {
            Expression::Number(number) | Expression::Percent(number) => Some(*number),
            Expression::Quantity(number, unit) => Some(number * unit.factor),
            Expression::Name(name) => names(name),
            Expression::Term(term) => figures(term),
            Expression::Minus(inner) => Some(-inner.number(names, figures)?),
            Expression::Not(_) => None,
            Expression::Pair(left, operator, right) => {
                let numbers =
                    || Some((left.number(names, figures)?, right.number(names, figures)?));
                match operator {
                    Operator::Plus => numbers().map(|(left, right)| left + right),
                    Operator::Minus => numbers().map(|(left, right)| left - right),
                    Operator::Times => numbers().map(|(left, right)| left * right),
                    Operator::By => numbers().map(|(left, right)| left / right),
                    _ => None,
                }
            }
        }
    }

    /// Returns the truth value; `None` for a number, or if it depends on an unknown name or figure.
    /// One side of `and` and `or` suffices if it decides.
    pub fn truth(&self, names: Names<'_>, figures: Figures<'_>) -> Option<bool> {
        let Expression::Pair(left, operator, right) = self else {
            return match self {
                Expression::Not(inner) => Some(!inner.truth(names, figures)?),
                _ => None,
            };
        };
        let truths = || (left.truth(names, figures), right.truth(names, figures));
        match operator {
            Operator::And => match truths() {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (left, right) => Some(left? && right?),
            },
            Operator::Or => match truths() {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (left, right) => Some(left? || right?),
            },
            _ => {
                let (left, right) = (left.number(names, figures)?, right.number(names, figures)?);
                operator.compares(left, right)
            }
        }
    }
}

impl Operator {
    /// Returns the result of a comparison of two numbers; `None` for other operators.
    pub fn compares(self, left: f64, right: f64) -> Option<bool> {
        match self {
            Operator::Less => Some(left < right),
            Operator::AtMost => Some(left <= right),
            Operator::More => Some(left > right),
            Operator::AtLeast => Some(left >= right),
            Operator::Equal => Some(left == right),
            Operator::Unequal => Some(left != right),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(text: &str) -> Option<bool> {
        let claim = Expression::claim(text).unwrap();
        let names = |name: &str| (name == "cpus").then_some(8.0);
        claim.truth(&names, &|term| match term.variant.as_str() {
            "two" => Some(2.0),
            "three" => Some(3.0),
            _ => None,
        })
    }

    #[test]
    fn products_bind_before_sums_sums_before_comparisons_and_before_or() {
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
            assert_eq!(truth(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_missing_figure_leaves_open_only_what_hangs_on_it() {
        assert_eq!(truth("x(lost) > 1"), None);
        assert_eq!(truth("x(lost) > 1 and 1 == 2"), Some(false));
        assert_eq!(truth("x(lost) > 1 or 1 == 1"), Some(true));
        assert_eq!(truth("x(lost) > 1 or 1 == 2"), None);
        assert_eq!(truth("not x(lost) > 1"), None);
    }
}
