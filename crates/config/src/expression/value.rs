//! Evaluates expressions for given parameters (`names`) and measured values (`figures`).

use super::{BinaryOperator, ClaimExpression, MetricTerm};

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
