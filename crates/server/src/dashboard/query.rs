//! Parses and formats the query string of a URL (application/x-www-form-urlencoded).
//!
//! Unknown names are rejected, because a filter in a URL must never be ignored.

use crate::dashboard::link::{decode_segment, encode_segment};
use crate::http::HttpError;

/// Maximum number of values; no page has so many parameters.
const MAX_VALUES: usize = 64;

/// Names and values in order; empty values are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery(Vec<(String, String)>);

impl PageQuery {
    /// Parses the text after the `?`.
    ///
    /// # Errors
    /// Fails if there are too many values, or a part does not decode to text.
    pub fn parse(text: &str) -> Result<PageQuery, HttpError> {
        let mut values = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let decode = |text: &str| decode_segment(&text.replace('+', " "));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(HttpError::bad_request(format!(
                    "cannot decode '{part}': expected percent-encoded UTF-8"
                )));
            };
            if !value.trim().is_empty() {
                values.push((name, value.trim().to_owned()));
            }
        }
        if values.len() > MAX_VALUES {
            return Err(HttpError::bad_request(format!(
                "the query has {} parameters: expected at most {MAX_VALUES}",
                values.len()
            )));
        }
        Ok(PageQuery(values))
    }

    /// Returns the last value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut matching = self.0.iter().rev().filter(|(key, _)| key == name);
        matching.next().map(|(_, value)| value.as_str())
    }

    pub fn get_all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        let matching = self.0.iter().filter(move |(key, _)| key == name);
        matching.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a name as a number.
    ///
    /// # Errors
    /// Fails if the value is not a number.
    pub fn get_number(&self, name: &str) -> Result<Option<i64>, HttpError> {
        let parsed = self.get(name).map(|text| {
            text.trim_start_matches('@').parse::<i64>().map_err(|_| {
                HttpError::bad_request(format!("invalid {name} '{text}': expected a number"))
            })
        });
        parsed.transpose()
    }

    /// Rejects parameters that the page does not have.
    ///
    /// # Errors
    /// Fails if there is an unknown name.
    pub fn check_names(&self, known: &[&str]) -> Result<(), HttpError> {
        let unknown = self.0.iter().find(|(name, _)| !known.contains(&name.as_str()));
        match unknown {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => Err(HttpError::bad_request(format!(
                "unknown parameter '{name}': no parameters are accepted here"
            ))),
            Some((name, _)) => Err(HttpError::bad_request(format!("unknown parameter '{name}'"))
                .with_hint(format!("known parameters: {}", known.join(", ")))),
        }
    }

    /// Formats the query with `name` set to `value`, or without `name` if `value` is `None`.
    pub fn with_value(&self, name: &str, value: Option<&str>) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (key, current) in self.0.iter().filter(|(key, _)| key != name) {
            parts.push(format!("{}={}", encode_segment(key), encode_segment(current)));
        }
        if let Some(value) = value {
            parts.push(format!("{}={}", encode_segment(name), encode_segment(value)));
        }
        if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
    }

    /// Returns the query without a name.
    pub fn without_name(&self, name: &str) -> PageQuery {
        let remaining = self.0.iter().filter(|(key, _)| key != name);
        PageQuery(remaining.cloned().collect())
    }

    /// Formats the query string for a URL.
    pub fn to_query_string(&self) -> String {
        self.with_value("", None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_survive_a_round_trip() {
        let query = PageQuery::parse("case=a%2Fb+len%3D16&empty=&of=%401&of=%402").unwrap();
        assert_eq!(query.get("case"), Some("a/b len=16"));
        assert_eq!(query.get("empty"), None);
        assert_eq!(query.get_all("of").collect::<Vec<_>>(), ["@1", "@2"]);
        assert_eq!(PageQuery::parse(&query.to_query_string()[1..]).unwrap(), query);
        assert_eq!(query.with_value("of", None), "?case=a%2Fb%20len%3D16");
    }

    #[test]
    fn invalid_oversized_and_unknown_query_parameters_are_refused() {
        assert!(PageQuery::parse("a=%ff").is_err());
        assert!(PageQuery::parse("a=%4").is_err());
        assert!(PageQuery::parse(&"a=1&".repeat(65)).is_err());
        assert!(PageQuery::parse("brnch=x").unwrap().check_names(&["branch"]).is_err());
        assert!(PageQuery::parse("n=one").unwrap().get_number("n").is_err());
    }
}
