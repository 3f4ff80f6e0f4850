//! Tables in GitHub's Markdown. A comment holds 65,536 characters, so a long table is folded away and
//! cut where it would not fit: what is worse or better stays.
//!
//! Source of the rules: "GitHub Flavored Markdown Spec", section 4.10.

use super::escape::{code, escape};
use crate::footnotes::mark;
use crate::metric_words::count;
use crate::table::{Cell, Kind, Row, Table};
use crate::urgency::by_urgency;
use std::collections::HashSet;

/// Longer tables are folded away; the largest changes of these are listed above them.
const OPEN_ROWS: usize = 20;
/// Columns beyond this order are left out: a comment is narrow, and those who look for them have the
/// page or the CSV.
const EXPENDABLE: u8 = 4;

/// Appends `table`, its rows within about `room` characters, and returns how many it took.
pub fn table(table: &Table, room: usize, out: &mut String) -> usize {
    for caption in &table.caption {
        out.push_str(&format!("{}\n\n", escape(caption)));
    }
    let mut shown = table.for_people();
    shown.retain(|&at| table.columns[at].expendable <= EXPENDABLE);
    if shown.is_empty() {
        return 0;
    }
    let rows = table.cells().count();
    let kept = fitting(table, &shown, room);
    if rows > OPEN_ROWS {
        let summary = match kept.len() {
            all if all == rows => format!("All {}", count(rows, "row", "rows")),
            some => format!("{} of {}", count(some, "row", "rows"), rows),
        };
        out.push_str(&format!("<details><summary>{summary}</summary>\n\n"));
    }
    let taken = lines(table, &shown, &kept, out);
    if kept.len() < rows {
        out.push_str(
            "\nThe other rows do not fit into a comment; a report.html or report.csv has all of them.\n",
        );
    }
    for (at, footnote) in table.footnotes.iter().enumerate() {
        out.push_str(&format!("\n{} {}\n", mark(at + 1), escape(footnote)));
    }
    if rows > OPEN_ROWS {
        out.push_str("\n</details>\n");
    }
    taken
}

/// Numbers of the rows with cells that fit, the most urgent ones first.
fn fitting(table: &Table, shown: &[usize], room: usize) -> HashSet<usize> {
    let cells: Vec<&Vec<Cell>> = table.cells().collect();
    let mut left = room;
    let mut kept = HashSet::new();
    for at in by_urgency(&table.emphases()) {
        let Some(rest) = left.checked_sub(line_of(table, shown, cells[at]).len()) else {
            break;
        };
        left = rest;
        kept.insert(at);
    }
    kept
}

fn lines(table: &Table, shown: &[usize], kept: &HashSet<usize>, out: &mut String) -> usize {
    let before = out.len();
    let columns = || shown.iter().map(|&at| &table.columns[at]);
    out.push_str(&line(columns().map(|column| escape(&column.header))));
    out.push_str(&line(columns().map(|column| rule(column.kind).to_owned())));
    let mut number = 0;
    // A heading is written with the first of its rows, a remark only below its row.
    let mut heading: Option<String> = None;
    let mut below = true;
    for row in &table.rows {
        match row {
            Row::Group(name) => {
                let text = alone(format!("**{}**", escape(&name.full)), shown.len());
                heading = (!name.full.is_empty()).then(|| line(text.into_iter()));
            }
            Row::Remark(text) if below => {
                let text = alone(format!("↳ _{}_", escape(text)), shown.len());
                out.push_str(&line(text.into_iter()));
            }
            Row::Remark(_) => {}
            Row::Cells(cells) => {
                below = kept.contains(&number);
                number += 1;
                if below {
                    out.push_str(&heading.take().unwrap_or_default());
                    out.push_str(&line_of(table, shown, cells));
                }
            }
        }
    }
    out.len() - before
}

fn line_of(table: &Table, shown: &[usize], cells: &[Cell]) -> String {
    line(
        shown
            .iter()
            .map(|&at| cell(&cells[at], table.columns[at].kind)),
    )
}

fn rule(kind: Kind) -> &'static str {
    match kind {
        Kind::Figure => "---:",
        Kind::Label | Kind::Identifier | Kind::Words | Kind::Drawn => ":---",
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

fn alone(text: String, columns: usize) -> Vec<String> {
    let mut cells = vec![String::new(); columns];
    cells[0] = text;
    cells
}

fn cell(cell: &Cell, kind: Kind) -> String {
    match kind {
        Kind::Label | Kind::Identifier if !cell.text.is_empty() => code(&cell.text),
        _ => escape(&cell.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Emphasis;
    use crate::table::{Column, Name};

    fn rendered(table_: &Table, room: usize) -> String {
        let mut out = String::new();
        table(table_, room, &mut out);
        out
    }

    #[test]
    fn names_with_bars_and_backticks_do_not_break_the_table() {
        let columns = vec![
            Column::new("c", "case", Kind::Label),
            Column::new("x", "a|b", Kind::Figure),
        ];
        let rows = vec![
            Row::Cells(vec![Cell::words("q=\"a|b\""), Cell::words("<0.001")]),
            Row::Cells(vec![Cell::words("q=`x`  n=1"), Cell::words("2")]),
        ];
        let table = Table {
            columns,
            rows,
            ..Table::new("t")
        };
        assert_eq!(
            rendered(&table, usize::MAX),
            "| case | a\\|b |\n| :--- | ---: |\n\
             | `q=\"a\\|b\"` | &lt;0.001 |\n| `` q=`x` n=1 `` | 2 |\n"
        );
    }

    fn long(rows: usize) -> Table {
        let columns = vec![
            Column::new("c", "case", Kind::Label),
            Column::new("v", "verdict", Kind::Words).facet(),
            Column::new("p", "p", Kind::Figure).expendable(5),
        ];
        let mut lines = vec![Row::Group(Name::plain("group"))];
        for at in 0..rows {
            let (word, emphasis) = if at + 1 == rows {
                ("worse", Emphasis::Bad)
            } else {
                ("same", Emphasis::None)
            };
            lines.push(Row::Cells(vec![
                Cell::words(format!("case {at}")),
                Cell::words(word).emphasised(emphasis),
                Cell::words("0.5"),
            ]));
            lines.push(Row::Remark(format!("about {at}")));
        }
        Table {
            columns,
            rows: lines,
            ..Table::new("t")
        }
    }

    #[test]
    fn a_long_table_is_folded_away() {
        let text = rendered(&long(21), usize::MAX);
        assert!(
            text.starts_with("<details><summary>All 21 rows</summary>\n\n| case |"),
            "{text}"
        );
        assert!(text.ends_with("\n</details>\n"), "{text}");
        assert!(!rendered(&long(20), usize::MAX).contains("details"));
    }

    #[test]
    fn a_table_that_does_not_fit_keeps_the_bad_news() {
        let text = rendered(&long(1_000), 60);
        assert!(text.contains("2 rows of 1000"), "{text}");
        assert!(text.contains("| `case 999` | worse |"), "{text}");
        assert!(
            text.contains("about 999") && !text.contains("about 500"),
            "{text}"
        );
        assert!(text.contains("do not fit into a comment"), "{text}");
    }

    #[test]
    fn what_a_comment_has_no_width_for_is_left_out() {
        assert!(rendered(&long(1), usize::MAX).starts_with("| case | verdict |\n"));
    }
}
