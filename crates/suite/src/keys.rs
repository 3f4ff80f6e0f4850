//! The keys of one table, each taken by its name; what nobody took is unknown.
//!
//! Every message says where: with the line in TOML, with the path in JSON. It must not know what the
//! keys mean.

use super::expression;
use super::tree::{Content, Node, Table};
use anyhow::{Error, Result, anyhow};
use speedwell_model::{Value, nearest, parse_duration};
use std::cell::RefCell;
use std::fmt::Display;
use std::time::Duration;

/// A table whose keys are being read.
pub struct Keys<'a> {
    /// What people call it: `[benchmark.hello]`, in JSON `'benchmark.hello'`.
    pub place: String,
    /// The last part of its name.
    pub name: String,
    path: String,
    line: Option<usize>,
    table: &'a Table,
    known: RefCell<Vec<String>>,
}

impl<'a> Keys<'a> {
    /// The outermost table of a file. Nothing has been taken yet.
    ///
    /// # Errors
    /// It is no table, which JSON can be.
    pub fn top(node: &'a Node) -> Result<Keys<'a>> {
        let place = "the file".to_owned();
        Keys::of(place, "", "", node).ok_or_else(|| anyhow!("the file is not a table of keys"))
    }

    fn of(place: String, path: &str, name: &str, node: &'a Node) -> Option<Keys<'a>> {
        Some(Keys {
            place,
            name: name.to_owned(),
            path: path.to_owned(),
            line: node.line,
            table: node.table()?,
            known: RefCell::default(),
        })
    }

    /// The table that stands at `node` under a path such as `group.target` or `group[1]`.
    ///
    /// # Errors
    /// It is no table.
    pub fn below(path: &str, node: &'a Node) -> Result<Keys<'a>> {
        let (stem, is_item) = match path
            .strip_suffix(']')
            .and_then(|path| path.rsplit_once('['))
        {
            Some((stem, _)) => (stem, true),
            None => (path, false),
        };
        let without_index = without_indices(stem);
        let place = match (node.line, is_item) {
            (None, _) => format!("'{path}'"),
            (Some(_), true) => format!("[[{without_index}]]"),
            (Some(_), false) => format!("[{without_index}]"),
        };
        let name = stem.rsplit('.').next().unwrap_or(stem);
        Keys::of(place, path, name, node).ok_or_else(|| {
            let what = if is_item { "an item of" } else { "the key" };
            at(
                node.line,
                format!("{what} '{without_index}' is not a table"),
            )
        })
    }

    /// Its path from the top of the file, such as `group[1].target`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The line that it begins in, if there are lines.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// Everything in it; nothing counts as taken.
    pub fn entries(&self) -> Table {
        self.table.clone()
    }

    /// The value of a key, whatever it is.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.known.borrow_mut().push(key.to_owned());
        self.table.get(key)
    }

    /// Whether the key is there; it does not count as taken.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// An error about a key, with its line.
    pub fn error(&self, key: &str, message: impl Display) -> Error {
        let line = self.table.get(key).and_then(|node| node.line);
        at(line.or(self.line), message)
    }

    /// An error about the table, with the line that it begins in.
    pub fn wrong_table(&self, message: impl Display) -> Error {
        at(self.line, format!("{} {message}", self.place))
    }

    /// The error that a key is missing, or that it is misspelt.
    pub fn missing(&self, key: &str, hint: &str) -> Error {
        let wanted = [key.to_owned()];
        let untaken = self.untaken();
        if let Some(misspelt) = untaken.iter().find(|own| nearest(own, &wanted).is_some()) {
            return self.unknown_key(misspelt);
        }
        self.wrong_table(format!("has no key '{key}'\nhint: {hint}"))
    }

    fn wrong(&self, key: &str, wanted: &str) -> Error {
        let place = &self.place;
        self.error(key, format!("the key '{key}' of {place} is not {wanted}"))
    }

    /// An error about a value that is not among the known ones, with the nearest.
    pub fn unknown(&self, key: &str, value: &str, known: &[String]) -> Error {
        let place = &self.place;
        let hint = nearest_of(value, known);
        let message = format!("the key '{key}' of {place} cannot be '{value}'\nhint: {hint}");
        self.error(key, message)
    }

    fn read<T>(
        &self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'a Node) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(node) = self.node(key) else {
            return Ok(None);
        };
        read(node).map(Some).ok_or_else(|| self.wrong(key, wanted))
    }

    /// A text.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self, key: &str) -> Result<Option<String>> {
        self.read(key, "a text in quotes", |node| {
            node.text().map(str::to_owned)
        })
    }

    /// One of the known words.
    ///
    /// # Errors
    /// It is something else.
    pub fn choice(&self, key: &str, known: &[&str]) -> Result<Option<String>> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        if known.contains(&text.as_str()) {
            Ok(Some(text))
        } else {
            let known: Vec<String> = known.iter().map(|&name| name.to_owned()).collect();
            Err(self.unknown(key, &text, &known))
        }
    }

    /// A list of texts.
    ///
    /// # Errors
    /// It is something else, or empty.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.read(key, "a list of texts", |node| match &node.content {
            Content::List(items) if !items.is_empty() => items
                .iter()
                .map(|item| item.text().map(str::to_owned))
                .collect(),
            _ => None,
        })
    }

    /// A length of time such as `"2s"`, as it is written.
    ///
    /// # Errors
    /// It is something else.
    pub fn duration(&self, key: &str) -> Result<Option<String>> {
        let text = self.text(key)?;
        match text {
            Some(text) if parse_duration(&text).is_none() => {
                let place = &self.place;
                let message = format!(
                    "the key '{key}' of {place}: '{text}' is not a duration such as \"500ms\" or \"3s\""
                );
                Err(self.error(key, message))
            }
            text => Ok(text),
        }
    }

    /// A length of time.
    ///
    /// # Errors
    /// It is something else.
    pub fn time(&self, key: &str) -> Result<Option<Duration>> {
        Ok(self.duration(key)?.as_deref().and_then(parse_duration))
    }

    /// A number, or a text with arithmetic such as `"2*8"`.
    ///
    /// # Errors
    /// It is something else.
    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        self.read(key, "a number", number_of)
    }

    /// A whole number from `least` on, or a text with arithmetic that gives one.
    ///
    /// # Errors
    /// It is something else.
    pub fn whole(&self, key: &str, least: u64) -> Result<Option<u64>> {
        let wanted = match least {
            0 => "a whole number".to_owned(),
            1 => "a whole number above 0".to_owned(),
            least => format!("a whole number from {least} on"),
        };
        let whole = |node: &Node| {
            // Up to 2^53, every whole number has a float of its own.
            let number = number_of(node)?;
            let is_whole = number.fract() == 0.0 && number >= 0.0 && number < 2f64.powi(53);
            is_whole
                .then_some(number as u64)
                .filter(|number| *number >= least)
        };
        self.read(key, &wanted, whole)
    }

    /// A whole number above zero.
    ///
    /// # Errors
    /// It is something else.
    pub fn count(&self, key: &str) -> Result<Option<u32>> {
        let Some(count) = self.whole(key, 1)? else {
            return Ok(None);
        };
        let count = u32::try_from(count);
        count
            .map(Some)
            .map_err(|_| self.wrong(key, "a number below 2^32"))
    }

    /// A share: `"3%"` or `0.03`.
    ///
    /// # Errors
    /// It is something else.
    pub fn share(&self, key: &str) -> Result<Option<f64>> {
        self.read(key, "a share between 0 and 1 such as \"3%\"", number_of)?
            .map(|share| {
                let good = share > 0.0 && share < 1.0;
                let wrong = || self.wrong(key, "a share between 0 and 1 such as \"3%\"");
                good.then_some(share).ok_or_else(wrong)
            })
            .transpose()
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// It is something else.
    pub fn truth(&self, key: &str) -> Result<Option<bool>> {
        self.read(key, "true or false", |node| match node.content {
            Content::Truth(truth) => Some(truth),
            _ => None,
        })
    }

    /// A value or a list of values: texts, numbers, truth values.
    ///
    /// # Errors
    /// It is something else, or an empty list.
    pub fn values(&self, key: &str) -> Result<Option<Vec<Value>>> {
        let wanted = "a text, a number, a truth value or a list of them";
        self.read(key, wanted, |node| {
            let values: Option<Vec<Value>> = match &node.content {
                Content::List(items) => items.iter().map(value_of).collect(),
                _ => value_of(node).map(|value| vec![value]),
            };
            values.filter(|values| !values.is_empty())
        })
    }

    /// One value: a text, a number or a truth value.
    ///
    /// # Errors
    /// It is something else.
    pub fn value(&self, key: &str) -> Result<Option<Value>> {
        self.read(key, "a text, a number or a truth value", value_of)
    }

    /// A table.
    ///
    /// # Errors
    /// It is something else.
    pub fn table(&self, key: &str) -> Result<Option<Keys<'a>>> {
        let Some(node) = self.node(key) else {
            return Ok(None);
        };
        if node.table().is_none() {
            return Err(self.wrong(key, "a table"));
        }
        Keys::below(&self.path_of(key), node).map(Some)
    }

    /// A list of tables, `[[KEY]]`. One table alone counts as a list of one.
    ///
    /// # Errors
    /// It is something else.
    pub fn list(&self, key: &str) -> Result<Vec<Keys<'a>>> {
        let Some(node) = self.node(key) else {
            return Ok(Vec::new());
        };
        let path = self.path_of(key);
        match &node.content {
            Content::List(items) => {
                let items = items.iter().enumerate();
                items
                    .map(|(at, item)| Keys::below(&format!("{path}[{at}]"), item))
                    .collect()
            }
            Content::Table(_) => Ok(vec![Keys::below(&path, node)?]),
            _ => Err(self.wrong(key, "a list of tables")),
        }
    }

    /// The tables below a table: `[KEY.NAME]` for every name.
    ///
    /// # Errors
    /// One of them is something else.
    pub fn tables(&self, key: &str) -> Result<Vec<Keys<'a>>> {
        let Some(outer) = self.table(key)? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for name in outer.names() {
            found.extend(outer.table(&name)?);
        }
        Ok(found)
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// All names in the table, in order.
    pub fn names(&self) -> Vec<String> {
        self.table.keys().cloned().collect()
    }

    /// The names that nobody has taken so far, in order.
    pub fn untaken(&self) -> Vec<String> {
        let known = self.known.borrow();
        let names = self.table.keys().filter(|key| !known.contains(key));
        names.cloned().collect()
    }

    /// Refuses keys that nobody asked for.
    ///
    /// # Errors
    /// There is one.
    pub fn finish(&self) -> Result<()> {
        match self.untaken().first() {
            Some(unknown) => Err(self.unknown_key(unknown)),
            None => Ok(()),
        }
    }

    /// The error about a key that has no meaning, with the nearest of those asked for.
    pub fn unknown_key(&self, unknown: &str) -> Error {
        let mut known: Vec<String> = Vec::new();
        for key in self.known.borrow().iter() {
            if !known.contains(key) {
                known.push(key.clone());
            }
        }
        let hint = match nearest(unknown, &known) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("its keys are {}", known.join(", ")),
        };
        let place = &self.place;
        let message = format!("{place} has a key '{unknown}' that is not known\nhint: {hint}");
        self.error(unknown, message)
    }
}

/// A message with the line that it is about, if there are lines.
pub fn at(line: Option<usize>, message: impl Display) -> Error {
    match line {
        Some(line) => anyhow!("line {line}: {message}"),
        None => anyhow!("{message}"),
    }
}

/// The nearest of the known names as a hint, else all of them.
pub fn nearest_of(word: &str, known: &[String]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean '{near}'?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("it is one of {}", known.join(", ")),
    }
}

fn without_indices(path: &str) -> String {
    let parts = path.split('.');
    let names = parts.map(|part| part.split('[').next().unwrap_or(part));
    names.collect::<Vec<_>>().join(".")
}

fn number_of(node: &Node) -> Option<f64> {
    match &node.content {
        Content::Whole(number) => Some(*number as f64),
        Content::Number(number) => Some(*number).filter(|number| number.is_finite()),
        Content::Text(text) => expression::arithmetic(text),
        _ => None,
    }
}

fn value_of(node: &Node) -> Option<Value> {
    match &node.content {
        Content::Text(text) => Some(Value::Text(text.clone())),
        Content::Whole(number) => Some(Value::Number(*number as f64)),
        Content::Number(number) => Some(Value::Number(*number)),
        Content::Truth(truth) => Some(Value::Bool(*truth)),
        _ => None,
    }
}
