//! The keys of one table, each taken by its name; what nobody took is unknown.

use crate::model::{Value, nearest};
use anyhow::{Context, Result, bail};
use std::cell::RefCell;
use toml::{Table, Value as Toml};

/// A table whose keys are being read.
pub struct Keys<'a> {
    /// What people call it: `[benchmark.hello]`.
    pub place: String,
    /// The last part of its name.
    pub name: String,
    table: &'a Table,
    known: RefCell<Vec<String>>,
}

impl<'a> Keys<'a> {
    /// Nothing has been taken yet.
    pub fn new(place: &str, table: &'a Table) -> Keys<'a> {
        Keys {
            place: place.to_owned(),
            name: String::new(),
            table,
            known: RefCell::default(),
        }
    }

    fn take(&self, key: &str) -> Option<&'a Toml> {
        self.known.borrow_mut().push(key.to_owned());
        self.table.get(key)
    }

    fn wrong(&self, key: &str, wanted: &str) -> anyhow::Error {
        anyhow::anyhow!("the key '{key}' of {} is not {wanted}", self.place)
    }

    /// A text.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self, key: &str) -> Result<Option<String>> {
        let text = |value: &Toml| value.as_str().map(str::to_owned);
        self.take(key)
            .map(|value| text(value).ok_or_else(|| self.wrong(key, "a text in quotes")))
            .transpose()
    }

    /// A length of time such as `"2s"`, as it is written.
    ///
    /// # Errors
    /// It is something else.
    pub fn duration(&self, key: &str) -> Result<Option<String>> {
        let text = self.text(key)?;
        match text {
            Some(text) if crate::model::parse_duration(&text).is_none() => {
                bail!(
                    "the key '{key}' of {}: '{text}' is not a duration such as \"500ms\" or \"3s\"",
                    self.place
                )
            }
            text => Ok(text),
        }
    }

    /// A whole number above zero.
    ///
    /// # Errors
    /// It is something else.
    pub fn count(&self, key: &str) -> Result<Option<u32>> {
        let count = |value: &Toml| u32::try_from(value.as_integer()?).ok().filter(|n| *n > 0);
        self.take(key)
            .map(|value| count(value).ok_or_else(|| self.wrong(key, "a whole number above 0")))
            .transpose()
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// It is something else.
    pub fn truth(&self, key: &str) -> Result<Option<bool>> {
        self.take(key)
            .map(|value| {
                value
                    .as_bool()
                    .ok_or_else(|| self.wrong(key, "true or false"))
            })
            .transpose()
    }

    /// A value or a list of values: texts, numbers, truth values.
    ///
    /// # Errors
    /// It is something else, or an empty list.
    pub fn values(&self, key: &str) -> Result<Option<Vec<Value>>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let all: Vec<&Toml> = match value {
            Toml::Array(items) => items.iter().collect(),
            one => vec![one],
        };
        let values: Option<Vec<Value>> = all.into_iter().map(value_of).collect();
        let values = values.filter(|values| !values.is_empty());
        let wanted = "a text, a number, a truth value or a list of them";
        values.map(Some).ok_or_else(|| self.wrong(key, wanted))
    }

    /// A table.
    ///
    /// # Errors
    /// It is something else.
    pub fn table(&self, key: &str) -> Result<Option<Keys<'a>>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let table = value
            .as_table()
            .with_context(|| self.wrong(key, "a table").to_string())?;
        let outer = self.place.trim_matches(['[', ']']);
        let place = match self.place.starts_with('[') {
            true => format!("[{outer}.{key}]"),
            false => format!("[{key}]"),
        };
        Ok(Some(Keys {
            name: key.to_owned(),
            ..Keys::new(&place, table)
        }))
    }

    /// The tables below a table: `[KEY.NAME]` for every name.
    ///
    /// # Errors
    /// One of them is something else.
    pub fn tables(&self, key: &str) -> Result<Vec<Keys<'a>>> {
        let Some(outer) = self.table(key)? else {
            return Ok(Vec::new());
        };
        let names = outer.names();
        names
            .iter()
            .map(|name| {
                let inner = outer.table(name)?;
                inner.with_context(|| format!("[{key}.{name}] is missing"))
            })
            .collect()
    }

    /// The names of all keys, in order.
    pub fn names(&self) -> Vec<String> {
        self.table.keys().cloned().collect()
    }

    /// Refuses keys that nobody asked for.
    ///
    /// # Errors
    /// There is one.
    pub fn finish(&self) -> Result<()> {
        let known = self.known.borrow();
        let Some(unknown) = self.table.keys().find(|key| !known.contains(*key)) else {
            return Ok(());
        };
        let hint = match nearest(unknown, &known) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("its keys are {}", known.join(", ")),
        };
        bail!(
            "{} has a key '{unknown}' that is not known\nhint: {hint}",
            self.place
        )
    }
}

fn value_of(value: &Toml) -> Option<Value> {
    match value {
        Toml::String(text) => Some(Value::Text(text.clone())),
        Toml::Integer(number) => Some(Value::Number(*number as f64)),
        Toml::Float(number) => Some(Value::Number(*number)),
        Toml::Boolean(truth) => Some(Value::Bool(*truth)),
        _ => None,
    }
}
