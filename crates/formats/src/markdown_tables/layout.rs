//! Finds the tables in a Markdown text, and the headings above them.
//!
//! Splits tables into rows and cells, following GitHub's extension of CommonMark (GFM 0.29, section
//! 4.10), and parses numbers with units. This module knows nothing about metrics. Start at
//! [`parse_tables`] and [`PrintedNumber::parse`].

use crate::foreign::unit::MeasuredUnit;

/// A table of text cells.
#[derive(Debug, Default)]
pub struct MarkdownTable {
    /// Headings above the table, outermost first, without markup.
    pub headings: Vec<String>,
    /// Cells of the header row.
    pub columns: Vec<String>,
    /// Cells of the other rows; each row is padded to the number of columns.
    pub rows: Vec<Vec<String>>,
}

/// Returns all tables of a document, and a warning if its last line is a table row without a
/// newline. Such a row is dropped unless it looks complete: it has all cells and ends with a bar.
pub fn parse_tables(text: &str) -> (Vec<MarkdownTable>, Option<String>) {
    let mut tables: Vec<MarkdownTable> = Vec::new();
    let mut headings: Vec<(usize, String)> = Vec::new();
    let mut is_code = false;
    let mut is_inside = false;
    let mut cut = None;
    let mut previous_cells: Option<Vec<String>> = None;
    for raw_line in text.split_inclusive('\n') {
        let line = raw_line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
        }
        if is_code || !line.contains('|') {
            (is_inside, previous_cells) = (false, None);
            if let Some((level, heading)) = parse_heading(line).filter(|_| !is_code) {
                headings.retain(|(other, _)| *other < level);
                headings.push((level, heading));
            }
            continue;
        }
        let mut cells = split_cells(line);
        let columns = previous_cells.take();
        if is_inside && let Some(table) = tables.last_mut() {
            let is_whole = line.ends_with('|') && cells.len() == table.columns.len();
            let has_end = raw_line.ends_with('\n');
            if has_end || is_whole {
                // Missing cells are empty; surplus cells are ignored.
                cells.resize(table.columns.len(), String::new());
                table.rows.push(cells);
            }
            let consequence =
                if is_whole { "the text may be cut short after it" } else { "it was left out" };
            cut = (!has_end)
                .then(|| format!("its last row '{line}' has no newline, so {consequence}"));
        } else if let Some(columns) = columns.filter(|columns| is_delimiter(columns, &cells)) {
            is_inside = true;
            let texts = headings.iter().map(|(_, heading)| heading.clone()).collect();
            tables.push(MarkdownTable { headings: texts, columns, rows: Vec::new() });
        } else {
            previous_cells = Some(cells);
        }
    }
    (tables, cut)
}

/// Parses `## Heading` into its level and its text.
fn parse_heading(line: &str) -> Option<(usize, String)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let heading = line[level..].strip_prefix(' ')?.trim().trim_end_matches('#');
    ((1..=6).contains(&level)).then(|| (level, strip_markup(heading)))
}

fn is_delimiter(columns: &[String], cells: &[String]) -> bool {
    let is_dashes = |cell: &String| {
        let start = cell.strip_prefix(':').unwrap_or(cell);
        let rule = start.strip_suffix(':').unwrap_or(start);
        !rule.is_empty() && rule.bytes().all(|byte| byte == b'-')
    };
    columns.len() == cells.len() && cells.iter().all(is_dashes)
}

/// Splits a line into cells, without markup.
fn split_cells(line: &str) -> Vec<String> {
    let start = line.strip_prefix('|').unwrap_or(line);
    let row = if start.ends_with("\\|") { start } else { start.strip_suffix('|').unwrap_or(start) };
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut characters = row.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek() == Some(&'|') => cell.extend(characters.next()),
            '|' => cells.push(strip_markup(&std::mem::take(&mut cell))),
            other => cell.push(other),
        }
    }
    cells.push(strip_markup(&cell));
    cells
}

/// Removes the markup of code, emphasis and links.
fn strip_markup(text: &str) -> String {
    let mut stripped = String::new();
    let mut rest = text.trim();
    while let Some(start) = rest.find('[') {
        let Some((name, tail)) = rest[start + 1..].split_once("](") else { break };
        let Some((_, after)) = tail.split_once(')') else { break };
        stripped.push_str(rest[..start].trim_end_matches('!'));
        stripped.push_str(name);
        rest = after;
    }
    stripped.push_str(rest);
    stripped.replace("**", "").replace('`', "").trim().trim_matches('_').to_owned()
}

/// A number as the text prints it. The digits remain text until the unit is known.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintedNumber {
    digits: String,
    /// Unit next to the number, if any.
    pub unit: Option<MeasuredUnit>,
}

impl PrintedNumber {
    /// Parses `62.17 ms`, `54,620` or `8.54`. Returns `None` for a signed number, an unknown unit,
    /// or anything else.
    pub fn parse(text: &str) -> Option<PrintedNumber> {
        let text = text.trim();
        let end =
            text.find(|character: char| !character.is_ascii_digit() && !".,".contains(character));
        let (digits, symbol) = text.split_at(end.unwrap_or(text.len()));
        let unit = match symbol.trim() {
            "" => None,
            symbol => Some(MeasuredUnit::parse(symbol)?),
        };
        let digits = strip_thousands_separators(digits)?;
        let is_finite = digits.parse().is_ok_and(f64::is_finite);
        is_finite.then_some(PrintedNumber { digits, unit })
    }

    /// Converts the number, whose unit is `unit`, to the unit in which such values are stored, for
    /// example nanoseconds. The result is as close to the printed digits as a float can be.
    pub fn to_stored_unit(&self, unit: MeasuredUnit) -> f64 {
        let value: f64 = format!("{}e{}", self.digits, unit.exponent10).parse().unwrap_or(f64::NAN);
        value * f64::powi(2.0, unit.exponent2)
    }

    /// Returns the number of digits after the decimal point.
    pub fn decimals(&self) -> usize {
        self.digits.split_once('.').map_or(0, |(_, decimals)| decimals.len())
    }
}

/// Removes the commas from a number. Returns `None` if a comma does not separate thousands.
fn strip_thousands_separators(digits: &str) -> Option<String> {
    let (integer_part, _) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups = integer_part.split(',');
    let first = groups.next().unwrap_or_default();
    let mut other_groups = groups.peekable();
    let is_short = first.is_empty() || first.len() > 3;
    if other_groups.peek().is_some() && (is_short || !other_groups.all(|group| group.len() == 3)) {
        return None;
    }
    let without_commas = digits.replace(',', "");
    let is_number = without_commas.starts_with(|character: char| character.is_ascii_digit());
    is_number.then_some(without_commas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_know_their_headings_and_lose_their_markup() {
        let text = "# A\n## [B](http://b)\n\n| Test | With `m` |\n|---|:-:|\n| x\\|y | **1** |\n| z |\n\n\
                    ### C\n```\n| no | no |\n|---|---|\n| 1 | 2 |\n```\n## D\na | b\n-|-\nc | 4\n";
        let (tables, cut) = parse_tables(text);
        assert_eq!(cut, None);
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0].headings, ["A", "B"]);
        assert_eq!(tables[0].columns, ["Test", "With m"]);
        assert_eq!(tables[0].rows, [["x|y", "1"], ["z", ""]]);
        assert_eq!(tables[1].headings, ["A", "D"]);
        assert_eq!(tables[1].rows, [["c", "4"]]);
    }

    #[test]
    fn a_row_that_may_have_lost_digits_is_left_out() {
        let (read, cut) = parse_tables("| a | b |\n|---|---|\n| x | 12 |\n| y | 3");
        assert_eq!(read[0].rows, [["x", "12"]]);
        assert!(cut.unwrap().contains("'| y | 3'"));
        let (read, cut) = parse_tables("| a | b |\n|---|---|\n| x | 12 |");
        assert_eq!(read[0].rows.len(), 1);
        assert!(cut.unwrap().ends_with("the text may be cut short after it"));
    }

    #[test]
    fn numbers_keep_their_digits_whatever_their_unit() {
        let number = |text: &str| PrintedNumber::parse(text).unwrap();
        assert_eq!(number("62.17 ms").to_stored_unit(MeasuredUnit::MS), 62_170_000.0);
        assert_eq!(number("54,620").to_stored_unit(MeasuredUnit::PER_SECOND), 54_620.0);
        let bytes = number("8.54").to_stored_unit(MeasuredUnit::MIB_PER_SECOND);
        assert_eq!(bytes / 1_048_576.0, 8.54);
        assert_eq!(number("8.50").decimals(), 2);
        for invalid in ["+3 %", "-5", "v1.2", "1,23", "5 apples", "", ".", "1.2.3", "1e999"] {
            assert_eq!(PrintedNumber::parse(invalid), None, "{invalid}");
        }
    }
}
