//! Text of which a pattern says what a line of results looks like.
//!
//! Its groups `value` and, where they are there, `name` and `unit` are read; other lines say nothing. Start at [`read`].

use super::{Reported, excerpt, first_line, json_path};
use crate::foreign::utf8;
use anyhow::{Context, Result, bail};
use regex::Regex;
use speedwell_model::Better;

/// Reads the lines that match. `unit` is that of lines without one.
///
/// # Errors
/// Not UTF-8, no line that matches, or a value that is not a number.
pub fn read(
    bytes: &[u8],
    pattern: &Regex,
    unit: &str,
    better: Option<Better>,
) -> Result<Vec<Reported>> {
    let text = utf8(bytes)?;
    let mut found: Vec<Reported> = Vec::new();
    for (line, at) in text.lines().zip(1..) {
        let Some(groups) = pattern.captures(line) else {
            continue;
        };
        let group = |name: &str| groups.name(name).map(|group| group.as_str());
        let value = group("value").unwrap_or_default();
        // A thousand may be written 1,000.
        let number: f64 = (value.replace(',', "").parse())
            .ok()
            .with_context(|| format!("line {at}: '{}' is not a number", excerpt(value)))?;
        let measure = json_path::measure(group("unit").unwrap_or(unit), better);
        let name = group("name").map(str::to_owned);
        let known = found.iter().position(|known| known.name == name);
        let place = known.unwrap_or_else(|| {
            found.push(Reported::new(name));
            found.len() - 1
        });
        (found[place].add(&measure, number, None)).with_context(|| format!("line {at}"))?;
    }
    if found.is_empty() {
        bail!(
            "no line matches '{}'; the first one is '{}'",
            pattern.as_str(),
            first_line(text)
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_match_are_results_and_lines_of_one_name_are_its_samples() {
        let pattern = Regex::new(r"^(?P<name>\w+): (?P<value>[\d,.]+) (?P<unit>\S+)$").unwrap();
        let read = |text: &str| read(text.as_bytes(), &pattern, "ns", None);
        let found = read("hello\na: 1,500 us\nb: 2 ops/s\na: 1.25 ms\n").unwrap();
        let values: Vec<f64> = found[0].samples.iter().map(|sample| sample.value).collect();
        assert_eq!(values, [1.5e6, 1.25e6]);
        assert_eq!(found[1].metrics[0].better, Better::Higher);
        let told = read("\n  nothing here\n").unwrap_err().to_string();
        assert!(told.ends_with("the first one is 'nothing here'"), "{told}");
        assert!(read("a: 1.2.3 us").is_err());
    }
}
