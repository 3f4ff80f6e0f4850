//! Parses expressions, with one function per rule of the grammar.
//!
//! Names of variants, groups and values appear unquoted in brackets, hyphens included, so they
//! extend to the bracket or comma; only names that contain such characters need quotes.

use super::{Expression, Filter, Gate, Mistake, Operator, Term, Unit};

/// Maximum nesting of brackets, because each level uses stack space.
const DEEPEST: usize = 100;

impl Expression {
    /// Parses a claim: an expression that is true or false.
    ///
    /// # Errors
    /// The text is not a claim; the error has a column.
    pub fn claim(text: &str) -> Result<Expression, Mistake> {
        Parser::new(text).claim()
    }
}

impl Gate {
    /// Parses gates joined by `and`.
    ///
    /// # Errors
    /// The text is not a list of gates; the error has a column.
    pub fn parse(text: &str) -> Result<Vec<Gate>, Mistake> {
        Parser::new(text).gates()
    }
}

/// Evaluates a text such as `2*8+1` or `5%`; `None` if it is not a number.
pub fn arithmetic(text: &str) -> Option<f64> {
    let read = Parser::new(text).quantity().ok()?;
    let value = read.number(&|_| None, &|_| None)?;
    // A text with a unit is not a plain number.
    let is_plain = value.is_finite() && read.quantities().is_empty();
    is_plain.then_some(value)
}

/// Parses a filter as in the brackets of a term: `promises, test=fibonacci`.
///
/// # Errors
/// The text is not a filter; the error has a column.
pub fn filter(text: &str) -> Result<Filter, Mistake> {
    Parser::new(text).whole_filter()
}

/// State of parsing a text.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

type Read<T> = Result<T, Mistake>;

/// Whether an expression is a truth value rather than a number.
fn is_truth(part: &Expression) -> bool {
    match part {
        Expression::Not(_) => true,
        Expression::Pair(_, operator, _) => operator.gives_truth(),
        _ => false,
    }
}

impl<'a> Parser<'a> {
    /// Creates a parser at the start of the text.
    pub fn new(text: &'a str) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// Parses the whole text as a truth value.
    pub fn claim(mut self) -> Read<Expression> {
        let begin = self.skip();
        let found = self.expression(0)?;
        self.end()?;
        if is_truth(&found) {
            Ok(found)
        } else {
            Err(self
                .mistake(begin, "this is a number, and nothing is said about it")
                .with_hint("a claim compares: rps(new) > rps(old)"))
        }
    }

    /// Parses the whole text as a number.
    pub fn quantity(mut self) -> Read<Expression> {
        let begin = self.skip();
        let found = self.expression(0)?;
        self.end()?;
        if is_truth(&found) {
            Err(self.mistake(begin, "this is no number"))
        } else {
            Ok(found)
        }
    }

    /// Parses the whole text as a filter.
    pub fn whole_filter(mut self) -> Read<Filter> {
        let filter = self.filter_items("")?;
        self.end()?;
        Ok(filter)
    }

    /// Parses the whole text as gates.
    pub fn gates(mut self) -> Read<Vec<Gate>> {
        let mut gates = vec![self.gate()?];
        while self.word("and") {
            gates.push(self.gate()?);
        }
        self.end()?;
        Ok(gates)
    }

    fn gate(&mut self) -> Read<Gate> {
        let begin = self.skip();
        let Some(metric) = self.name()? else {
            return Err(self.mistake(begin, "the name of a metric is missing here"));
        };
        let filter = self.filter()?;
        let place = self.skip();
        let operator = self.operator(Operator::Less.level());
        let Some(operator) = operator.filter(|found| found.is_bound()) else {
            return Err(self.mistake(place, "one of < <= > >= is missing here"));
        };
        let place = self.skip();
        let sign = if self.symbol("-") { -1.0 } else { 1.0 };
        let _ = sign < 0.0 || self.symbol("+");
        match self.quantity_literal()? {
            Some(Expression::Percent(share)) => Ok(Gate {
                metric,
                filter,
                operator,
                change: sign * share,
            }),
            _ => Err(self
                .mistake(place, "a change in percent is missing here")
                .with_hint("a gate bounds a change: time < +10%")),
        }
    }

    fn expression(&mut self, level: u8) -> Read<Expression> {
        let begin = self.skip();
        let mut left = self.operand(level)?;
        loop {
            let place = self.skip();
            let Some(operator) = self.operator(level) else {
                return Ok(left);
            };
            self.wants(&left, operator.takes_truth(), begin)?;
            let right_begin = self.skip();
            let right = self.expression(operator.level() + 1)?;
            self.wants(&right, operator.takes_truth(), right_begin)?;
            if operator.is_comparison() && self.comes_comparison() {
                return Err(self
                    .mistake(place, "comparisons cannot be chained")
                    .with_hint("a < b and b < c"));
            }
            left = Expression::Pair(Box::new(left), operator, Box::new(right));
        }
    }

    fn wants(&self, part: &Expression, truth: bool, begin: usize) -> Read<()> {
        match (truth, is_truth(part)) {
            (true, false) => Err(self
                .mistake(begin, "this is a number, and a comparison is needed here")
                .with_hint("each side of 'and', 'or' and 'not' compares two numbers")),
            (false, true) => {
                Err(self.mistake(begin, "this is a comparison, and a number is needed here"))
            }
            _ => Ok(()),
        }
    }

    fn comes_comparison(&mut self) -> bool {
        let place = self.at;
        let found = self.operator(Operator::Less.level());
        self.at = place;
        found.is_some_and(Operator::is_comparison)
    }

    fn operand(&mut self, level: u8) -> Read<Expression> {
        self.depth += 1;
        let begin = self.skip();
        if self.depth > DEEPEST {
            return Err(self.mistake(begin, "this is nested too deeply"));
        }
        let found = if level <= Operator::NOT && self.word("not") {
            let begin = self.skip();
            let inner = self.expression(Operator::NOT)?;
            self.wants(&inner, true, begin)?;
            Expression::Not(Box::new(inner))
        } else if self.symbol("-") {
            let begin = self.skip();
            let inner = self.operand(Operator::TIGHTEST)?;
            self.wants(&inner, false, begin)?;
            Expression::Minus(Box::new(inner))
        } else if self.symbol("(") {
            let inner = self.expression(0)?;
            self.must(")")?;
            inner
        } else {
            self.atom()?
        };
        self.depth -= 1;
        Ok(found)
    }

    fn atom(&mut self) -> Read<Expression> {
        let begin = self.skip();
        if let Some(found) = self.quantity_literal()? {
            return Ok(found);
        }
        let Some(name) = self.name()? else {
            let mistake = self.mistake(begin, "a number or a metric is missing here");
            return Err(if self.text[begin..].starts_with('{') {
                mistake.with_hint("parameters stand here without braces")
            } else {
                mistake
            });
        };
        let filter = self.filter()?;
        if self.symbol("(") {
            let place = self.skip();
            let variant = self.raw(&[')'])?;
            if variant.is_empty() {
                return Err(self.mistake(place, "the name of a variant is missing here"));
            }
            self.must(")")?;
            return Ok(Expression::Term(Term {
                metric: name,
                filter,
                variant,
            }));
        }
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if is_name && filter == Filter::default() {
            Ok(Expression::Name(name))
        } else {
            Err(self
                .mistake(self.at, "a variant in brackets is missing here")
                .with_hint(format!("{name}(VARIANT)")))
        }
    }

    /// Parses a number without sign, optionally in percent or with a unit.
    fn quantity_literal(&mut self) -> Read<Option<Expression>> {
        let begin = self.skip();
        let rest = &self.text[begin..];
        let digits = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
            end.unwrap_or(text.len())
        };
        let mut length = digits(rest);
        if length == 0 {
            return Ok(None);
        }
        if let Some(power) = rest[length..].strip_prefix(['e', 'E']) {
            let sign = power.starts_with(['+', '-']) as usize;
            let more = digits(&power[sign..]);
            length += if more > 0 { 1 + sign + more } else { 0 };
        }
        let number: f64 = match rest[..length].parse() {
            Ok(number) => number,
            Err(_) => return Err(self.mistake(begin, "this is no number")),
        };
        self.at = begin + length;
        let rest = &rest[length..];
        let end = rest
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or(rest.len());
        if end > 0 {
            let Some(unit) = Unit::find(&rest[..end]) else {
                let message = format!("there is no unit '{}'", &rest[..end]);
                let hint = format!("it is one of {}", Unit::names().join(", "));
                return Err(self.mistake(self.at, message).with_hint(hint));
            };
            self.at += end;
            return Ok(Some(Expression::Quantity(number, unit)));
        }
        Ok(Some(if self.symbol("%") {
            Expression::Percent(number / 100.0)
        } else {
            Expression::Number(number)
        }))
    }

    fn filter(&mut self) -> Read<Filter> {
        if !self.symbol("[") {
            return Ok(Filter::default());
        }
        let filter = self.filter_items("]")?;
        self.must("]")?;
        Ok(filter)
    }

    fn filter_items(&mut self, end: &str) -> Read<Filter> {
        let ends: Vec<char> = [',', '='].into_iter().chain(end.chars()).collect();
        let mut filter = Filter::default();
        loop {
            let place = self.skip();
            let name = self.raw(&ends)?;
            if name.is_empty() {
                return Err(self
                    .mistake(place, "a group or PARAMETER=VALUE is missing here")
                    .with_hint("time[promises, size=10](new)"));
            }
            if self.symbol("=") {
                let value = self.raw(&ends)?;
                filter.values.push((name, value));
            } else if filter.group.replace(name).is_some() {
                return Err(self.mistake(place, "there can be one group only"));
            }
            if !self.symbol(",") {
                return Ok(filter);
            }
        }
    }

    /// Parses a text up to one of the characters, or a quoted text.
    fn raw(&mut self, ends: &[char]) -> Read<String> {
        let begin = self.skip();
        if let Some(quoted) = self.quoted()? {
            return Ok(quoted);
        }
        let rest = &self.text[begin..];
        let length = rest.find(ends).unwrap_or(rest.len());
        self.at = begin + length;
        Ok(rest[..length].trim().to_owned())
    }

    /// Parses a quoted text; a doubled quote inside stands for one.
    fn quoted(&mut self) -> Read<Option<String>> {
        let begin = self.skip();
        let Some(quote) = self.text[begin..]
            .chars()
            .next()
            .filter(|c| ['\'', '"'].contains(c))
        else {
            return Ok(None);
        };
        let mut found = String::new();
        let mut letters = self.text[begin + 1..].char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            if letter != quote {
                found.push(letter);
            } else if letters.next_if(|(_, next)| *next == quote).is_some() {
                found.push(quote);
            } else {
                self.at = begin + 1 + at + 1;
                return Ok(Some(found));
            }
        }
        Err(self.mistake(begin, "this quote does not end"))
    }

    /// Parses the name of a metric or parameter: `latency.p99.9`, `instructions:u`, or quoted.
    fn name(&mut self) -> Read<Option<String>> {
        let begin = self.skip();
        if let Some(quoted) = self.quoted()? {
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
        self.at = begin + length;
        Ok(Some(word.to_owned()))
    }

    /// Parses an operator if it binds at least as tightly as `level`.
    fn operator(&mut self, level: u8) -> Option<Operator> {
        let begin = self.skip();
        for operator in Operator::ALL {
            let sign = operator.sign();
            let is_word = sign.starts_with(char::is_alphabetic);
            let comes = if is_word {
                self.word(sign)
            } else {
                self.symbol(sign)
            };
            if comes && operator.level() >= level {
                return Some(operator);
            }
            self.at = begin;
        }
        None
    }

    fn skip(&mut self) -> usize {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.at
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let begin = self.skip();
        let comes = self.text[begin..].starts_with(symbol);
        self.at += if comes { symbol.len() } else { 0 };
        comes
    }

    fn word(&mut self, word: &str) -> bool {
        let begin = self.skip();
        let rest = self.text[begin..].strip_prefix(word);
        let goes_on = |c: char| c.is_alphanumeric() || ['_', '.', ':'].contains(&c);
        let comes = rest.is_some_and(|rest| !rest.starts_with(goes_on));
        self.at += if comes { word.len() } else { 0 };
        comes
    }

    fn must(&mut self, symbol: &str) -> Read<()> {
        let begin = self.skip();
        if self.symbol(symbol) {
            Ok(())
        } else {
            Err(self.mistake(begin, format!("'{symbol}' is missing here")))
        }
    }

    fn end(&mut self) -> Read<()> {
        let begin = self.skip();
        let rest = &self.text[begin..];
        if rest.is_empty() {
            return Ok(());
        }
        let mistake = self.mistake(begin, "an operator is missing here");
        Err(if rest.starts_with('=') {
            mistake.with_hint("equality is written ==")
        } else {
            mistake
        })
    }

    fn mistake(&self, at: usize, message: impl Into<String>) -> Mistake {
        Mistake {
            message: message.into(),
            text: self.text.to_owned(),
            column: self.text[..at].chars().count(),
            hint: None,
        }
    }
}

impl Mistake {
    fn with_hint(mut self, hint: impl Into<String>) -> Mistake {
        self.hint = Some(hint.into());
        self
    }
}
