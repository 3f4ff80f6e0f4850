//! Parses expressions over metrics and variants, with one function per rule of the grammar. From
//! lowest to highest precedence:
//!
//! ```text
//! or  and  not  < <= > >= == !=  + -  * /  -x
//! 12.5  5%  50ms  NAME  METRIC(VARIANT)  METRIC[GROUP, PARAMETER=VALUE](VARIANT)  ( ... )
//! ```
//!
//! In brackets, names of variants, groups and values need no quotes, even with hyphens. A name ends
//! at the closing bracket; in square brackets, also at a comma or `=`. Names that contain such a
//! character or begin with a quote need quotes. Start at [`parse_claim`] and [`parse_gates`].

use speedwell_model::expression::{
    BinaryOperator, CaseFilter, ChangeGate, ClaimExpression, MetricTerm, QUANTITY_UNITS,
    QuantityUnit,
};

/// Maximum nesting of brackets. Each level uses stack space.
const MAX_DEPTH: usize = 100;

/// Parses a claim: an expression that is true or false.
///
/// # Errors
/// Fails if the text is not a claim; the error shows the column.
pub fn parse_claim(text: &str) -> Result<ClaimExpression, ExpressionError> {
    let (parser, begin, found) = ExpressionParser::whole_expression(text)?;
    if is_truth(&found) {
        return Ok(found);
    }
    Err(parser
        .error_at(begin, "expected a comparison, found a number")
        .with_hint("a claim must be a comparison, for example: rps(new) > rps(old)"))
}

/// Parses gates joined by `and`.
///
/// # Errors
/// Fails if the text is not a list of gates; the error shows the column.
pub fn parse_gates(text: &str) -> Result<Vec<ChangeGate>, ExpressionError> {
    let mut parser = ExpressionParser::new(text);
    let mut gates = vec![parser.parse_gate()?];
    while parser.take_word("and") {
        gates.push(parser.parse_gate()?);
    }
    parser.expect_end()?;
    Ok(gates)
}

/// Evaluates a string such as `2*8+1` or `5%`; `None` if it is not a number.
pub fn evaluate_arithmetic(text: &str) -> Option<f64> {
    let (_, _, expression) = ExpressionParser::whole_expression(text).ok()?;
    // A comparison has no numeric value, so the result is `None`.
    let value = expression.evaluate_number(&|_| None, &|_| None)?;
    // A string with a unit is not a plain number.
    let is_plain = value.is_finite() && expression.quantities().is_empty();
    is_plain.then_some(value)
}

/// Parses a filter, written as in the square brackets of a term: `promises, test=fibonacci`.
///
/// # Errors
/// Fails if the text is not a filter; the error shows the column.
pub fn parse_filter(text: &str) -> Result<CaseFilter, ExpressionError> {
    let mut parser = ExpressionParser::new(text);
    let filter = parser.parse_filter_items("")?;
    parser.expect_end()?;
    Ok(filter)
}

struct ExpressionParser<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
}

type ParseResult<T> = Result<T, ExpressionError>;

/// Whether an expression is a boolean rather than a number.
fn is_truth(part: &ClaimExpression) -> bool {
    match part {
        ClaimExpression::Not(_) => true,
        ClaimExpression::Pair(_, operator, _) => operator.gives_truth(),
        _ => false,
    }
}

impl<'a> ExpressionParser<'a> {
    /// Creates a parser at the start of the text.
    fn new(text: &'a str) -> ExpressionParser<'a> {
        ExpressionParser { text, position: 0, depth: 0 }
    }

    /// Parses the whole text. Also returns where the expression begins, and the parser, for errors.
    fn whole_expression(
        text: &'a str,
    ) -> ParseResult<(ExpressionParser<'a>, usize, ClaimExpression)> {
        let mut parser = ExpressionParser::new(text);
        let begin = parser.skip_whitespace();
        let found = parser.parse_expression(0)?;
        parser.expect_end()?;
        Ok((parser, begin, found))
    }

    fn parse_gate(&mut self) -> ParseResult<ChangeGate> {
        let begin = self.skip_whitespace();
        let Some(metric) = self.parse_name()? else {
            return Err(self.error_at(begin, "expected the name of a metric"));
        };
        let filter = self.parse_term_filter()?;
        let token_begin = self.skip_whitespace();
        let operator = self.parse_operator(BinaryOperator::Less.precedence());
        let Some(operator) = operator.filter(|found| found.is_bound()) else {
            return Err(self.error_at(token_begin, "expected one of < <= > >="));
        };
        let token_begin = self.skip_whitespace();
        let sign = if self.take_symbol("-") { -1.0 } else { 1.0 };
        let _ = sign < 0.0 || self.take_symbol("+");
        match self.parse_quantity()? {
            Some(ClaimExpression::Percent(share)) => {
                Ok(ChangeGate { metric, filter, operator, change: sign * share })
            }
            _ => Err(self
                .error_at(token_begin, "expected a change in percent")
                .with_hint("a gate limits a change, for example: time < +10%")),
        }
    }

    fn parse_expression(&mut self, level: u8) -> ParseResult<ClaimExpression> {
        let begin = self.skip_whitespace();
        let mut left = self.parse_operand(level)?;
        loop {
            let token_begin = self.skip_whitespace();
            let Some(operator) = self.parse_operator(level) else { return Ok(left) };
            self.check_operand(&left, operator.takes_truth(), begin)?;
            let right_begin = self.skip_whitespace();
            let right = self.parse_expression(operator.precedence() + 1)?;
            self.check_operand(&right, operator.takes_truth(), right_begin)?;
            if operator.is_comparison() && self.peeks_comparison() {
                return Err(self
                    .error_at(token_begin, "comparisons cannot be chained")
                    .with_hint("a < b and b < c"));
            }
            left = ClaimExpression::Pair(Box::new(left), operator, Box::new(right));
        }
    }

    fn check_operand(&self, part: &ClaimExpression, truth: bool, begin: usize) -> ParseResult<()> {
        match (truth, is_truth(part)) {
            (true, false) => Err(self
                .error_at(begin, "expected a comparison, found a number")
                .with_hint("the operands of 'and', 'or' and 'not' must be comparisons")),
            (false, true) => Err(self.error_at(begin, "expected a number, found a comparison")),
            _ => Ok(()),
        }
    }

    fn peeks_comparison(&mut self) -> bool {
        let saved = self.position;
        let found = self.parse_operator(BinaryOperator::Less.precedence());
        self.position = saved;
        found.is_some_and(BinaryOperator::is_comparison)
    }

    fn parse_operand(&mut self, level: u8) -> ParseResult<ClaimExpression> {
        self.depth += 1;
        let begin = self.skip_whitespace();
        if self.depth > MAX_DEPTH {
            return Err(self.error_at(begin, "the expression is nested too deeply"));
        }
        let found = if level <= BinaryOperator::NOT_PRECEDENCE && self.take_word("not") {
            let begin = self.skip_whitespace();
            let inner = self.parse_expression(BinaryOperator::NOT_PRECEDENCE)?;
            self.check_operand(&inner, true, begin)?;
            ClaimExpression::Not(Box::new(inner))
        } else if self.take_symbol("-") {
            let begin = self.skip_whitespace();
            let inner = self.parse_operand(BinaryOperator::MAX_PRECEDENCE)?;
            self.check_operand(&inner, false, begin)?;
            ClaimExpression::Minus(Box::new(inner))
        } else if self.take_symbol("(") {
            let inner = self.parse_expression(0)?;
            self.expect_symbol(")")?;
            inner
        } else {
            self.parse_atom()?
        };
        self.depth -= 1;
        Ok(found)
    }

    fn parse_atom(&mut self) -> ParseResult<ClaimExpression> {
        let begin = self.skip_whitespace();
        if let Some(found) = self.parse_quantity()? {
            return Ok(found);
        }
        let Some(name) = self.parse_name()? else {
            let error = self.error_at(begin, "expected a number or a metric");
            return Err(if self.text[begin..].starts_with('{') {
                error.with_hint("write parameters without braces")
            } else {
                error
            });
        };
        let filter = self.parse_term_filter()?;
        if self.take_symbol("(") {
            let token_begin = self.skip_whitespace();
            let variant = self.parse_raw(&[')'])?;
            if variant.is_empty() {
                return Err(self.error_at(token_begin, "expected the name of a variant"));
            }
            self.expect_symbol(")")?;
            return Ok(ClaimExpression::Term(MetricTerm { metric: name, filter, variant }));
        }
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if is_name && filter == CaseFilter::default() {
            Ok(ClaimExpression::Name(name))
        } else {
            Err(self
                .error_at(self.position, "expected a variant in parentheses")
                .with_hint(format!("{name}(VARIANT)")))
        }
    }

    /// Parses a number without sign, optionally in percent or with a unit.
    fn parse_quantity(&mut self) -> ParseResult<Option<ClaimExpression>> {
        let begin = self.skip_whitespace();
        let rest = &self.text[begin..];
        let digits = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
            end.unwrap_or(text.len())
        };
        let mut length = digits(rest);
        if length == 0 {
            return Ok(None);
        }
        if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
            let sign = exponent.starts_with(['+', '-']) as usize;
            let exponent_digits = digits(&exponent[sign..]);
            length += if exponent_digits > 0 { 1 + sign + exponent_digits } else { 0 };
        }
        let number: f64 =
            rest[..length].parse().map_err(|_| self.error_at(begin, "expected a number"))?;
        self.position = begin + length;
        let rest = &rest[length..];
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        if end > 0 {
            let Some(unit) = QuantityUnit::find_unit(&rest[..end]) else {
                let message = format!("unknown unit '{}'", &rest[..end]);
                let symbols: Vec<&str> = QUANTITY_UNITS.iter().map(|unit| unit.name).collect();
                let hint = format!("use one of {}", symbols.join(", "));
                return Err(self.error_at(self.position, message).with_hint(hint));
            };
            self.position += end;
            return Ok(Some(ClaimExpression::Quantity(number, unit)));
        }
        Ok(Some(if self.take_symbol("%") {
            ClaimExpression::Percent(number / 100.0)
        } else {
            ClaimExpression::Number(number)
        }))
    }

    fn parse_term_filter(&mut self) -> ParseResult<CaseFilter> {
        if !self.take_symbol("[") {
            return Ok(CaseFilter::default());
        }
        let filter = self.parse_filter_items("]")?;
        self.expect_symbol("]")?;
        Ok(filter)
    }

    fn parse_filter_items(&mut self, end: &str) -> ParseResult<CaseFilter> {
        let ends: Vec<char> = [',', '='].into_iter().chain(end.chars()).collect();
        let mut filter = CaseFilter::default();
        loop {
            let token_begin = self.skip_whitespace();
            let name = self.parse_raw(&ends)?;
            if name.is_empty() {
                return Err(self
                    .error_at(token_begin, "expected a group or PARAMETER=VALUE")
                    .with_hint("time[promises, size=10](new)"));
            }
            if self.take_symbol("=") {
                let value = self.parse_raw(&ends)?;
                filter.values.push((name, value));
            } else if filter.group.replace(name).is_some() {
                return Err(self.error_at(token_begin, "only one group is allowed"));
            }
            if !self.take_symbol(",") {
                return Ok(filter);
            }
        }
    }

    /// Parses a quoted string, or else everything up to the first of the characters in `ends`.
    fn parse_raw(&mut self, ends: &[char]) -> ParseResult<String> {
        let begin = self.skip_whitespace();
        if let Some(quoted) = self.parse_quoted()? {
            return Ok(quoted);
        }
        let rest = &self.text[begin..];
        let length = rest.find(ends).unwrap_or(rest.len());
        self.position = begin + length;
        Ok(rest[..length].trim().to_owned())
    }

    /// Parses a quoted string; inside it, a doubled quote stands for a single one.
    fn parse_quoted(&mut self) -> ParseResult<Option<String>> {
        let begin = self.skip_whitespace();
        let Some(quote) = self.text[begin..].chars().next().filter(|c| ['\'', '"'].contains(c))
        else {
            return Ok(None);
        };
        let mut found = String::new();
        let mut chars = self.text[begin + 1..].char_indices().peekable();
        while let Some((position, c)) = chars.next() {
            if c != quote {
                found.push(c);
            } else if chars.next_if(|(_, next)| *next == quote).is_some() {
                found.push(quote);
            } else {
                self.position = begin + 1 + position + 1;
                return Ok(Some(found));
            }
        }
        Err(self.error_at(begin, "this quote is not closed"))
    }

    /// Parses the name of a metric or parameter: `latency.p99.9`, `instructions:u`, or quoted.
    fn parse_name(&mut self) -> ParseResult<Option<String>> {
        let begin = self.skip_whitespace();
        if let Some(quoted) = self.parse_quoted()? {
            return Ok(Some(quoted));
        }
        let rest = &self.text[begin..];
        let is_inner = |c: char| c.is_alphanumeric() || ['_', '.', ':'].contains(&c);
        let length = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
        let word = &rest[..length];
        let is_word = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if !is_word || ["and", "or", "not"].contains(&word) {
            return Ok(None);
        }
        self.position = begin + length;
        Ok(Some(word.to_owned()))
    }

    /// Parses an operator if it binds at least as tightly as `level`.
    fn parse_operator(&mut self, level: u8) -> Option<BinaryOperator> {
        let begin = self.skip_whitespace();
        for (operator, sign, precedence) in BinaryOperator::OPERATORS {
            let is_word = sign.starts_with(char::is_alphabetic);
            let is_next = if is_word { self.take_word(sign) } else { self.take_symbol(sign) };
            if is_next && precedence >= level {
                return Some(operator);
            }
            self.position = begin;
        }
        None
    }

    fn skip_whitespace(&mut self) -> usize {
        let rest = &self.text[self.position..];
        self.position += rest.len() - rest.trim_start().len();
        self.position
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let begin = self.skip_whitespace();
        let is_next = self.text[begin..].starts_with(symbol);
        self.position += if is_next { symbol.len() } else { 0 };
        is_next
    }

    fn take_word(&mut self, word: &str) -> bool {
        let begin = self.skip_whitespace();
        let rest = self.text[begin..].strip_prefix(word);
        let continues_name = |c: char| c.is_alphanumeric() || ['_', '.', ':'].contains(&c);
        let is_next = rest.is_some_and(|rest| !rest.starts_with(continues_name));
        self.position += if is_next { word.len() } else { 0 };
        is_next
    }

    fn expect_symbol(&mut self, symbol: &str) -> ParseResult<()> {
        let begin = self.skip_whitespace();
        let is_next = self.take_symbol(symbol);
        is_next.then_some(()).ok_or_else(|| self.error_at(begin, format!("expected '{symbol}'")))
    }

    fn expect_end(&mut self) -> ParseResult<()> {
        let begin = self.skip_whitespace();
        let rest = &self.text[begin..];
        if rest.is_empty() {
            return Ok(());
        }
        let error = self.error_at(begin, "expected an operator");
        Err(if rest.starts_with('=') { error.with_hint("write equality as ==") } else { error })
    }

    fn error_at(&self, position: usize, message: impl Into<String>) -> ExpressionError {
        ExpressionError {
            message: message.into(),
            text: self.text.to_owned(),
            column: self.text[..position].chars().count(),
            hint: None,
        }
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

    fn with_hint(mut self, hint: impl Into<String>) -> ExpressionError {
        self.hint = Some(hint.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn a_claim_lists_what_it_needs() {
        let text = "cpu_cores(brown) > 0.9*cpus and cpu_cores(red) < 1.3 and cpu_cores(brown) > 1";
        let claim = parse_claim(text).unwrap();
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
        let gates = parse_gates("rps > -5% and latency.p99[http, server=hapi] <= +10.5%").unwrap();
        let texts: Vec<String> = gates.iter().map(ChangeGate::to_string).collect();
        assert_eq!(texts, ["rps > -5%", "latency.p99[http, server=hapi] <= +10.5%"]);
        assert_eq!(gates[0].change, -0.05);
        assert!(
            gates[0].allows_change(-0.04)
                && gates[0].allows_change(0.3)
                && !gates[0].allows_change(-0.05)
        );
        assert!(gates[1].allows_change(0.105) && !gates[1].allows_change(0.106));
        assert_eq!(parse_gates("time < 250%"), parse_gates("time < +250%"));
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
            let error = parse_gates(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

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
        let operators = BinaryOperator::OPERATORS.into_iter().map(|(operator, ..)| operator);
        let comparisons: Vec<BinaryOperator> = operators.filter(|o| o.is_comparison()).collect();
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
            assert_eq!(parse_claim(&text), Ok(claim), "{text}");
        }
    }

    type NameLookup<'a> = &'a dyn Fn(&str) -> Option<f64>;
    type FigureLookup<'a> = &'a dyn Fn(&MetricTerm) -> Option<f64>;

    /// Returns the boolean; `None` for a number, or if it depends on an unknown name or measured
    /// value. One side of `and` or `or` suffices if it decides the result.
    fn evaluate_truth(
        claim: &ClaimExpression,
        names: NameLookup<'_>,
        figures: FigureLookup<'_>,
    ) -> Option<bool> {
        let ClaimExpression::Pair(left, operator, right) = claim else {
            return match claim {
                ClaimExpression::Not(inner) => Some(!evaluate_truth(inner, names, figures)?),
                _ => None,
            };
        };
        let truths =
            || (evaluate_truth(left, names, figures), evaluate_truth(right, names, figures));
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

    fn truth_of(text: &str) -> Option<bool> {
        let claim = parse_claim(text).unwrap();
        let names = |name: &str| (name == "cpus").then_some(8.0);
        evaluate_truth(&claim, &names, &|term| match term.variant.as_str() {
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
