//! The line that a benchmark script prints for people: `url/a.js n=1 type="short": 3,113,325.03`.
//!
//! Decides its text; when it is due is the driver's business.

use speedwell_model::Value;
use speedwell_results::formats::node_csv::{javascript, number};

/// The line of one result, as `run.js` prints it.
pub fn simple_line(name: &str, values: &[(String, Value)], rate: f64) -> String {
    let pairs: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name}={}", javascript::json(value)))
        .collect();
    format!(
        "{name} {}: {}\n",
        pairs.join(" "),
        with_separators(&number::text(rate))
    )
}

/// A comma before every third digit of the whole part; the rest of the text stays as it is.
fn with_separators(number: &str) -> String {
    let start = number.len() - number.trim_start_matches('-').len();
    let digits = number[start..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    let (whole, rest) = number.split_at(start + digits);
    let mut out = String::with_capacity(number.len() + digits / 3);
    for (at, c) in whole.char_indices() {
        if at > start && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_part_is_grouped() {
        for (number, grouped) in [
            ("814", "814"),
            ("3665.14", "3,665.14"),
            ("1136275.8332310684", "1,136,275.8332310684"),
            ("0.0001234", "0.0001234"),
            ("1.7976931348623157e+308", "1.7976931348623157e+308"),
            ("-1234", "-1,234"),
            ("123456", "123,456"),
        ] {
            assert_eq!(with_separators(number), grouped);
        }
    }

    #[test]
    fn without_parameters_a_blank_stands_before_the_colon() {
        assert_eq!(simple_line("g/a.js", &[], 5.0), "g/a.js : 5\n");
    }
}
