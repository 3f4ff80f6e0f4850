//! The query of an address: names and values in the form that browsers send
//! (application/x-www-form-urlencoded).
//!
//! Unknown names are rejected rather than ignored: a filter in an address must take effect.

use crate::link::{decoded, encoded};
use crate::refusal::Refusal;

/// More names than any page has.
const MOST: usize = 64;

/// Names and values in order; empty values are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the text after the `?`.
    ///
    /// # Errors
    /// If there are too many names, or a part does not decode to text.
    pub fn parse(text: &str) -> Result<Query, Refusal> {
        let mut all = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let read = |text: &str| decoded(&text.replace('+', " "));
            let (Some(name), Some(value)) = (read(name), read(value)) else {
                return Err(Refusal::bad(format!("'{part}' is no text")));
            };
            let value = value.trim().to_owned();
            if !value.is_empty() {
                all.push((name, value));
            }
        }
        if all.len() > MOST {
            return Err(Refusal::bad(format!(
                "there are {} values; no page takes more than {MOST}",
                all.len()
            )));
        }
        Ok(Query(all))
    }

    /// Returns the last value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut own = self.0.iter().rev().filter(|(known, _)| known == name);
        own.next().map(|(_, value)| value.as_str())
    }

    pub fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        let own = self.0.iter().filter(move |(known, _)| known == name);
        own.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a name as a number.
    ///
    /// # Errors
    /// If it is not a number.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let parsed = self.get(name).map(|text| {
            text.trim_start_matches('@').parse::<i64>().map_err(|_| {
                Refusal::bad(format!("'{text}' is no number")).hint(format!("in {name}=..."))
            })
        });
        parsed.transpose()
    }

    /// Rejects names that the page does not know.
    ///
    /// # Errors
    /// If there is an unknown name.
    pub fn check(&self, known: &[&str]) -> Result<(), Refusal> {
        let unknown = self
            .0
            .iter()
            .find(|(name, _)| !known.contains(&name.as_str()));
        match unknown {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => Err(Refusal::bad(format!(
                "this page has no '{name}', nor anything else to choose"
            ))),
            Some((name, _)) => Err(Refusal::bad(format!("this page has no '{name}'"))
                .hint(format!("it has {}", known.join(", ")))),
        }
    }

    /// Formats the query with another value of a name, or without the name if `value` is `None`.
    pub fn with(&self, name: &str, value: Option<&str>) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (known, kept) in self.0.iter().filter(|(known, _)| known != name) {
            parts.push(format!("{}={}", encoded(known), encoded(kept)));
        }
        if let Some(value) = value {
            parts.push(format!("{}={}", encoded(name), encoded(value)));
        }
        if parts.is_empty() {
            String::new()
        } else {
            format!("?{}", parts.join("&"))
        }
    }

    /// Returns the query without a name.
    pub fn without(&self, name: &str) -> Query {
        let others = self.0.iter().filter(|(known, _)| known != name);
        Query(others.cloned().collect())
    }

    /// Formats the query as in addresses.
    pub fn text(&self) -> String {
        self.with("", None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_as_they_went_in() {
        let query = Query::parse("case=a%2Fb+len%3D16&empty=&of=%401&of=%402").unwrap();
        assert_eq!(query.get("case"), Some("a/b len=16"));
        assert_eq!(query.get("empty"), None);
        assert_eq!(query.all("of").collect::<Vec<_>>(), ["@1", "@2"]);
        assert_eq!(Query::parse(&query.text()[1..]).unwrap(), query);
        assert_eq!(query.with("of", None), "?case=a%2Fb%20len%3D16");
    }

    #[test]
    fn what_is_no_text_or_too_much_or_unknown_is_refused() {
        assert!(Query::parse("a=%ff").is_err());
        assert!(Query::parse("a=%4").is_err());
        assert!(Query::parse(&"a=1&".repeat(65)).is_err());
        assert!(Query::parse("brnch=x").unwrap().check(&["branch"]).is_err());
        assert!(Query::parse("n=one").unwrap().number("n").is_err());
    }
}
