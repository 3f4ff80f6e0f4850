//! Parses expressions, with one function per rule of the grammar.
//!
//! In brackets, names of variants, groups and values need no quotes, even with hyphens. A name ends
//! at the closing bracket; in square brackets, also at a comma or `=`. Names that contain such a
//! character or begin with a quote need quotes.

use super::{
    BinaryOperator, CaseFilter, ChangeGate, ClaimExpression, ExpressionError, MetricTerm,
    QUANTITY_UNITS, QuantityUnit,
};

/// Maximum nesting of brackets. Each level uses stack space.
const MAX_DEPTH: usize = 100;

impl ClaimExpression {
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
}

impl ChangeGate {
    /// Parses gates joined by `and`.
    ///
    /// # Errors
    /// Fails if the text is not a list of gates; the error shows the column.
    pub fn parse(text: &str) -> Result<Vec<ChangeGate>, ExpressionError> {
        let mut parser = ExpressionParser::new(text);
        let mut gates = vec![parser.parse_gate()?];
        while parser.take_word("and") {
            gates.push(parser.parse_gate()?);
        }
        parser.expect_end()?;
        Ok(gates)
    }
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
            let Some(operator) = self.parse_operator(level) else {
                return Ok(left);
            };
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
        let number: f64 = match rest[..length].parse() {
            Ok(number) => number,
            Err(_) => return Err(self.error_at(begin, "expected a number")),
        };
        self.position = begin + length;
        let rest = &rest[length..];
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        if end > 0 {
            let Some(unit) = QuantityUnit::find_unit(&rest[..end]) else {
                let message = format!("unknown unit '{}'", &rest[..end]);
                let symbols: Vec<&str> =
                    QUANTITY_UNITS.iter().map(|(symbol, ..)| *symbol).collect();
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
        for operator in BinaryOperator::ALL_OPERATORS {
            let sign = operator.symbol();
            let is_word = sign.starts_with(char::is_alphabetic);
            let is_next = if is_word { self.take_word(sign) } else { self.take_symbol(sign) };
            if is_next && operator.precedence() >= level {
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
        if self.take_symbol(symbol) {
            Ok(())
        } else {
            Err(self.error_at(begin, format!("expected '{symbol}'")))
        }
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

impl ExpressionError {
    fn with_hint(mut self, hint: impl Into<String>) -> ExpressionError {
        self.hint = Some(hint.into());
        self
    }
}
