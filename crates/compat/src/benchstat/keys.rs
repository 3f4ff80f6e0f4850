//! Maps results to keys: decides the table, row and column of a result, their order, and which
//! results are kept. Start at [`Projection`] and [`keep`].

use crate::benchstat::query::{Filter, Part, PartOrder, Wanted};
use crate::benchstat::records::Record;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Values of a key, indexed by field; trailing empty values are omitted.
pub type Key = Vec<String>;

/// Field of a key.
#[derive(Debug, Clone)]
struct Field {
    name: String,
    /// Index of the part of the projection it belongs to.
    part: usize,
    order: FieldOrder,
}

#[derive(Debug, Clone)]
enum FieldOrder {
    /// Order of first appearance, by recorded position.
    First(HashMap<String, usize>),
    Alpha,
    Number,
    Fixed(Vec<String>),
}

/// Derives a key from a result.
#[derive(Debug, Clone, Default)]
pub struct Projection {
    parts: Vec<Part>,
    fields: Vec<Field>,
    has_unit: bool,
}

/// Keys used by any projection of the command line; the rest projection excludes them.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    settings: Vec<String>,
    of_name: Vec<String>,
    has_config: bool,
    has_name: bool,
}

impl Taken {
    /// Creates a projection of these parts. That of tables has the unit as its last field.
    pub fn project(&mut self, parts: Vec<Part>, has_unit: bool) -> Result<Projection, String> {
        let mut projection = Projection {
            has_unit,
            ..Projection::default()
        };
        for (at, part) in parts.iter().enumerate() {
            match part.key.as_str() {
                ".config" => {
                    self.has_config = true;
                    continue;
                }
                ".unit" => return Err(".unit is only allowed in filters".to_owned()),
                "" => return Err("key must not be empty".to_owned()),
                ".fullname" => self.has_name = true,
                key if key == ".name" || key.starts_with('/') => self.of_name.push(key.to_owned()),
                key => self.settings.push(key.to_owned()),
            }
            projection.add(&part.key, at, &part.order);
        }
        if has_unit {
            projection.add(".unit", parts.len(), &PartOrder::First);
        }
        projection.parts = parts;
        Ok(projection)
    }

    /// Creates a projection of everything that no other projection uses.
    pub fn rest(&self) -> Projection {
        let mut projection = Projection::default();
        let keys = [(".config", self.has_config), (".fullname", self.has_name)];
        for (key, _) in keys.iter().filter(|(_, is_taken)| !is_taken) {
            let at = projection.parts.len();
            if *key == ".fullname" {
                projection.add(key, at, &PartOrder::First);
            }
            projection.parts.push(Part {
                key: (*key).to_owned(),
                order: PartOrder::First,
            });
        }
        projection
    }

    /// Returns the name of a result without the parts that projections use.
    fn name(&self, record: &Record) -> String {
        let marks: Vec<String> = self.of_name.iter().map(|key| format!("{key}=")).collect();
        let has_base = self.of_name.iter().any(|key| key == ".name");
        let has_processors = self.of_name.iter().any(|key| key == "/gomaxprocs");
        let is_marked = marks
            .iter()
            .any(|mark| mark.starts_with('/') && record.name.contains(mark));
        if !(has_base || is_marked || has_processors && record.name.contains('-')) {
            return record.name.clone();
        }
        let (base, parts) = record.parts();
        let mut name = if has_base { "*" } else { base }.to_owned();
        for part in parts {
            let is_taken = marks
                .iter()
                .any(|mark| mark.starts_with('/') && part.starts_with(mark));
            if !(is_taken || has_processors && part.starts_with('-')) {
                name.push_str(part);
            }
        }
        name
    }
}

/// Returns the value of a key other than the configuration and the unit.
fn value(key: &str, record: &Record) -> String {
    match key {
        ".name" => record.base().to_owned(),
        ".fullname" => record.name.clone(),
        key if key.starts_with('/') => {
            let (_, parts) = record.parts();
            let processors = parts.last().and_then(|last| last.strip_prefix('-'));
            if let Some(processors) = processors.filter(|_| key == "/gomaxprocs") {
                return processors.to_owned();
            }
            let mark = format!("{key}=");
            let own = parts.iter().find_map(|part| part.strip_prefix(&mark));
            own.unwrap_or_default().to_owned()
        }
        key => record.setting(key).to_owned(),
    }
}

impl Projection {
    fn add(&mut self, name: &str, part: usize, order: &PartOrder) -> usize {
        let order = match order {
            PartOrder::First => FieldOrder::First(HashMap::new()),
            PartOrder::Alpha => FieldOrder::Alpha,
            PartOrder::Number => FieldOrder::Number,
            PartOrder::Fixed(values) => FieldOrder::Fixed(values.clone()),
        };
        self.fields.push(Field {
            name: name.to_owned(),
            part,
            order,
        });
        self.fields.len() - 1
    }

    /// Returns the key of a result; in the projection of tables, for one of its units.
    pub fn key(&mut self, record: &Record, unit: Option<&str>, taken: &Taken) -> Key {
        let mut row = vec![String::new(); self.fields.len()];
        for at in 0..self.parts.len() {
            let Part { key, order } = self.parts[at].clone();
            if key != ".config" {
                let field = self.fields.iter().position(|field| field.part == at);
                let value = match key.as_str() {
                    ".fullname" => taken.name(record),
                    key => value(key, record),
                };
                if let Some(field) = field {
                    row[field] = value;
                }
                continue;
            }
            for setting in record.settings.iter().filter(|setting| setting.is_in_file) {
                let is_own = |field: &Field| field.part == at && field.name == setting.key;
                let known = self.fields.iter().position(is_own);
                if known.is_none() && taken.settings.contains(&setting.key) {
                    continue;
                }
                let field = known.unwrap_or_else(|| self.add(&setting.key, at, &order));
                row.resize(self.fields.len(), String::new());
                row[field] = setting.value.clone();
            }
        }
        if let (true, Some(unit)) = (self.has_unit, unit) {
            let last = self
                .fields
                .iter()
                .position(|field| field.part == self.parts.len());
            row[last.unwrap_or_default()] = unit.to_owned();
        }
        self.note(&row);
        while row.last().is_some_and(String::is_empty) {
            row.pop();
        }
        row
    }

    /// Records the first appearance of values. Those of the configuration are not recorded, as in
    /// the original, and are sorted alphabetically.
    fn note(&mut self, row: &[String]) {
        let parts = &self.parts;
        for (field, value) in self.fields.iter_mut().zip(row) {
            let is_config = parts
                .get(field.part)
                .is_some_and(|part| part.key == ".config");
            if let FieldOrder::First(seen) = &mut field.order
                && !is_config
            {
                let next = seen.len();
                seen.entry(value.clone()).or_insert(next);
            }
        }
    }

    /// Returns the indices of the fields in order: by part, and within a part by first appearance.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.fields.len()).collect();
        order.sort_by_key(|at| self.fields[*at].part);
        order
    }

    /// Returns the name of a field.
    pub fn name(&self, field: usize) -> &str {
        &self.fields[field].name
    }

    /// Returns the index of the unit's field.
    pub fn unit(&self) -> Option<usize> {
        let is_unit = |field: &Field| self.has_unit && field.part == self.parts.len();
        self.fields.iter().position(is_unit)
    }

    /// Returns all nonempty values of a key.
    pub fn values(&self, key: &Key) -> String {
        let order = self.order();
        let values = order.iter().map(|at| of(key, *at));
        values
            .filter(|value| !value.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    pub fn sort(&self, keys: &mut [Key]) {
        let order = self.order();
        keys.sort_by(|a, b| {
            let fields = order
                .iter()
                .map(|at| (&self.fields[*at], of(a, *at), of(b, *at)));
            let mut unlike = fields.filter(|(_, a, b)| a != b);
            let first = unlike.next();
            first.map_or(Ordering::Equal, |(field, a, b)| {
                field.order.compare(a, b).then_with(|| a.cmp(b))
            })
        });
    }

    /// Returns the fields whose values differ among keys.
    pub fn differing(&self, keys: &[Key]) -> Vec<&str> {
        let differs = |at: &usize| {
            keys.windows(2)
                .any(|two| of(&two[0], *at) != of(&two[1], *at))
        };
        let order = self.order();
        order
            .into_iter()
            .filter(differs)
            .map(|at| self.name(at))
            .collect()
    }

    /// Whether the values of a result are listed in all fixed orders.
    pub fn admits(&self, record: &Record) -> bool {
        self.parts.iter().all(|part| match &part.order {
            PartOrder::Fixed(values) => values.contains(&value(&part.key, record)),
            _ => true,
        })
    }
}

/// Returns the value of a field; omitted trailing values are empty.
pub fn of(key: &Key, field: usize) -> &str {
    key.get(field).map_or("", String::as_str)
}

impl FieldOrder {
    fn compare(&self, a: &str, b: &str) -> Ordering {
        let among =
            |values: &[String], value: &str| values.iter().rposition(|known| known == value);
        match self {
            FieldOrder::First(seen) => {
                let place = |value: &str| seen.get(value).copied().unwrap_or(0);
                place(a).cmp(&place(b))
            }
            FieldOrder::Alpha => a.cmp(b),
            FieldOrder::Number => match (number(a), number(b)) {
                (Some(a), Some(b)) if a.is_nan() || b.is_nan() => a.is_nan().cmp(&b.is_nan()),
                (Some(a), Some(b)) => a.total_cmp(&b),
                (None, None) => Ordering::Equal,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            },
            FieldOrder::Fixed(values) => among(values, a)
                .unwrap_or(0)
                .cmp(&among(values, b).unwrap_or(0)),
        }
    }
}

/// Parses a number with a prefix and a byte suffix: `4k`, `1Mi`, `16KiB`.
fn number(text: &str) -> Option<f64> {
    const PREFIXES: &str = "KMGTPEZY";
    if let Ok(plain) = text.parse() {
        return Some(plain);
    }
    let text = text.strip_suffix(['b', 'B']).unwrap_or(text);
    let (text, base) = match text.strip_suffix('i') {
        Some(text) => (text, 1024f64),
        None => (text, 1000f64),
    };
    let prefix = text.chars().last()?;
    let power = match prefix {
        'k' => Some(1),
        other => PREFIXES.find(other).map(|at| at as i32 + 1),
    };
    let digits = match power {
        Some(_) => &text[..text.len() - prefix.len_utf8()],
        None if base == 1000.0 => text,
        None => return None,
    };
    let is_plain = digits
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '.' | '+' | '-'));
    let value: f64 = digits.parse().ok().filter(|_| is_plain)?;
    Some(value * base.powi(power.unwrap_or(0)))
}

/// Result of a filter: for the whole result, or for each of its figures.
enum Answer {
    Whole(bool),
    Each(Vec<bool>),
}

/// Returns the result with the figures that a filter keeps; `None` if none is left.
pub fn keep(filter: &Filter, mut record: Record) -> Option<Record> {
    match answer(filter, &record) {
        Answer::Whole(true) => Some(record),
        Answer::Whole(false) => None,
        Answer::Each(each) => {
            let mut kept = each.into_iter();
            record.figures.retain(|_| kept.next() == Some(true));
            (!record.figures.is_empty()).then_some(record)
        }
    }
}

/// Rejects keys that filters do not support.
///
/// # Errors
/// The message names the key and where it is allowed.
pub fn check(filter: &Filter) -> Result<(), String> {
    match filter {
        Filter::And(all) | Filter::Or(all) => all.iter().try_for_each(check),
        Filter::Not(one) => check(one),
        Filter::Match(key, _) if key == ".config" => {
            Err(".config is only allowed in projections".to_owned())
        }
        Filter::Match(key, _) if key.is_empty() => Err("key must not be empty".to_owned()),
        Filter::Match(..) => Ok(()),
    }
}

fn answer(filter: &Filter, record: &Record) -> Answer {
    let join = |all: &[Filter], is_and: bool| {
        let mut joined: Option<Vec<bool>> = None;
        for one in all {
            match (answer(one, record), &mut joined) {
                (Answer::Whole(is), _) if is != is_and => return Answer::Whole(is),
                (Answer::Whole(_), _) => {}
                (Answer::Each(each), None) => joined = Some(each),
                (Answer::Each(each), Some(known)) => {
                    for (known, is) in known.iter_mut().zip(each) {
                        *known = if is_and { *known && is } else { *known || is };
                    }
                }
            }
        }
        joined.map_or(Answer::Whole(is_and), Answer::Each)
    };
    match filter {
        Filter::And(all) => join(all, true),
        Filter::Or(all) => join(all, false),
        Filter::Not(one) => match answer(one, record) {
            Answer::Whole(is) => Answer::Whole(!is),
            Answer::Each(each) => Answer::Each(each.into_iter().map(|is| !is).collect()),
        },
        Filter::Match(key, wanted) if key == ".unit" => {
            let is = |wanted: &Wanted, figure: &crate::benchstat::records::Figure| {
                let typed = figure.typed_unit.as_deref();
                wanted.is(&figure.unit) || typed.is_some_and(|unit| wanted.is(unit))
            };
            Answer::Each(
                record
                    .figures
                    .iter()
                    .map(|figure| is(wanted, figure))
                    .collect(),
            )
        }
        Filter::Match(key, wanted) => Answer::Whole(wanted.is(&value(key, record))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchstat::query::{filter, projection};
    use crate::benchstat::records::Records;

    fn record() -> Record {
        let mut records = Records::default();
        records.read(
            "f",
            "old",
            "goos: linux\nBenchmarkA/size=4k/x=1-8 1 5 ns/op 3 B/op\n",
        );
        records.results.remove(0)
    }

    #[test]
    fn filters_keep_results_or_some_of_their_figures() {
        let kept = |text: &str| {
            let kept = keep(&filter(text).unwrap(), record());
            kept.map(|kept| kept.figures.len())
        };
        for (text, count) in [
            ("*", Some(2)),
            ("goos:linux /size:4k .name:A", Some(2)),
            ("goos:plan9", None),
            (".unit:ns/op", Some(1)),
            (".unit:(sec/op OR B/op)", Some(2)),
            ("-.unit:B/op", Some(1)),
            ("/gomaxprocs:8 -/x:2", Some(2)),
            (".file:/^o/ OR goos:plan9", Some(2)),
            (".unit:B/op goos:plan9", None),
        ] {
            assert_eq!(kept(text), count, "{text}");
        }
        assert!(check(&filter("a:1 .config:2").unwrap()).is_err());
    }

    #[test]
    fn what_one_projection_takes_the_others_leave_out() {
        let mut taken = Taken::default();
        let mut column = taken
            .project(projection("/size goos").unwrap(), false)
            .unwrap();
        let mut row = taken
            .project(projection(".fullname").unwrap(), false)
            .unwrap();
        let mut rest = taken.rest();
        let record = record();
        assert_eq!(column.key(&record, None, &taken), ["4k", "linux"]);
        assert_eq!(row.key(&record, None, &taken), ["A/x=1-8"]);
        assert_eq!(rest.key(&record, None, &taken), Key::new());
        assert!(taken.project(projection(".unit").unwrap(), false).is_err());
    }

    #[test]
    fn numbers_are_ordered_as_numbers_and_before_words() {
        let order = FieldOrder::Number;
        for (less, more) in [
            ("2", "10"),
            ("999", "1k"),
            ("1000", "1Ki"),
            ("5MB", "1GiB"),
            ("9", "x"),
        ] {
            assert_eq!(order.compare(less, more), Ordering::Less, "{less} {more}");
            assert_eq!(
                order.compare(more, less),
                Ordering::Greater,
                "{less} {more}"
            );
        }
        assert_eq!(order.compare("x", "y"), Ordering::Equal);
    }
}
