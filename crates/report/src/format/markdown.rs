//! Writes documents in GitHub Flavored Markdown, for pull requests and notes. The answer comes
//! first, then warnings that cast doubt on it, then the tables. Reference material is collapsed.
//!
//! Start at [`Markdown`]. [`write_table`] writes tables; [`escape_markdown`] escapes markup in
//! names.

use crate::document::{Document, Fact, RenderDocument, ReportBlock, by_severity, group_blocks};
use crate::figure::format_count;
use crate::format::escape_controls;
use crate::table::{ColumnKind, ReportCell, ReportRow, ReportTable, superscript_number};
use std::collections::HashSet;
use std::io::{self, Write};

/// Maximum number of characters in the rows of all tables together. GitHub allows 65,536 per
/// comment; the rest is for the text around the tables.
const MAX_ROW_CHARS: usize = 45_000;

/// GitHub Flavored Markdown.
#[derive(Debug, Clone, Default)]
pub struct Markdown {
    /// Paths of the document's charts, in order. Charts without a path are omitted.
    pub pictures: Vec<String>,
}

impl RenderDocument for Markdown {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let mut page = MarkdownPage {
            pictures: self.pictures.iter(),
            budget: MAX_ROW_CHARS,
            out: String::new(),
        };
        for line in &document.gate_lines {
            page.write_line(&format!("\n**{}**", escape_markdown(line)));
        }
        page.write_blocks(&document.answer_first());
        out.write_all(page.out.trim_start_matches('\n').as_bytes())
    }
}

/// A page being written.
struct MarkdownPage<'a> {
    pictures: std::slice::Iter<'a, String>,
    /// Characters left for the rows of tables.
    budget: usize,
    out: String,
}

impl MarkdownPage<'_> {
    fn write_blocks(&mut self, blocks: &[&ReportBlock]) {
        let is_gathered =
            |block: &ReportBlock| matches!(block, ReportBlock::Note(_) | ReportBlock::Warning(_));
        for run in group_blocks(blocks, is_gathered) {
            let before = self.out.len();
            let sentences = run.iter().filter_map(|block| block.sentence()).map(escape_markdown);
            match run[0] {
                ReportBlock::Note(_) => {
                    let notes = sentences.collect::<Vec<_>>().join("<br>\n");
                    self.write_line(&format!("<sub>{notes}</sub>"));
                }
                // One GitHub alert for all. Programs that do not know alerts show a labelled
                // quotation.
                ReportBlock::Warning(_) => {
                    self.write_line("> [!WARNING]");
                    for warning in sentences {
                        self.write_line(&format!("> - {warning}"));
                    }
                }
                block => self.add_block(block),
            }
            if self.out.len() > before {
                self.out.insert(before, '\n');
            }
        }
    }

    fn add_block(&mut self, block: &ReportBlock) {
        match block {
            ReportBlock::Heading { level, text } => {
                let marks = "#".repeat(usize::from(*level) + 1);
                self.write_line(&format!("{marks} {}", escape_markdown(text)));
            }
            ReportBlock::Headline(text) => {
                self.write_line(&format!("**{}**", escape_markdown(text)))
            }
            ReportBlock::Paragraph(text) => self.write_line(&escape_markdown(text)),
            // `write_blocks` writes notes and warnings in groups. Galleries contain only pictures.
            ReportBlock::Note(_)
            | ReportBlock::Warning(_)
            | ReportBlock::Gallery(_)
            | ReportBlock::KeyFigures(_)
            | ReportBlock::Shortened { .. } => {}
            ReportBlock::List(items) => {
                for item in items {
                    self.write_line(&format!("- {}", escape_markdown(item)));
                }
            }
            ReportBlock::Facts(facts) => self.write_facts(facts),
            ReportBlock::Table(table) => {
                let used_chars = write_table(table, self.budget, &mut self.out);
                self.budget = self.budget.saturating_sub(used_chars);
            }
            ReportBlock::Chart(chart) => {
                if let Some(path) = self.pictures.next() {
                    self.write_line(&format!("![{}](<{path}>)", escape_markdown(&chart.title)));
                }
            }
            ReportBlock::Verbatim { label, text } if text.trim().is_empty() => {
                self.write_line(&format!("(nothing on {})", escape_markdown(label)));
            }
            ReportBlock::Verbatim { label, text } => self.write_quoted(label, text, "text"),
            ReportBlock::Command { label, line } => self.write_quoted(label, line, "sh"),
            ReportBlock::Aside { summary: title, blocks, .. }
            | ReportBlock::Appendix { title, blocks, .. } => self.write_details(title, blocks),
        }
    }

    fn write_line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn write_quoted(&mut self, label: &str, text: &str, language: &str) {
        let block = fence_code(text, language);
        self.out.push_str(&format!("{}:\n\n{block}", escape_markdown(label)));
    }

    fn write_facts(&mut self, facts: &[Fact]) {
        self.write_line("|  |  |\n| :--- | :--- |");
        for (name, value) in facts {
            self.write_line(&format!("| {} | {} |", escape_markdown(name), escape_markdown(value)));
        }
    }

    fn write_details(&mut self, title: &str, blocks: &[ReportBlock]) {
        self.write_line(&format!("<details><summary>{}</summary>", escape_markdown(title)));
        self.write_blocks(&blocks.iter().collect::<Vec<_>>());
        self.write_line("\n</details>");
    }
}

/// A table with more rows is collapsed. The largest changes of a comparison with many cases remain
/// visible, because they are listed above the table.
const MAX_UNFOLDED_ROWS: usize = 20;
/// Columns with a larger `expendable` number are omitted, because a comment is narrow. The HTML
/// page and the CSV file have these columns.
const MAX_EXPENDABLE: u8 = 4;

/// Appends `table`. The rows take at most about `budget` characters; further rows are omitted.
/// Returns how many characters the rows take.
pub fn write_table(table: &ReportTable, budget: usize, out: &mut String) -> usize {
    for caption in &table.caption {
        out.push_str(&format!("{}\n\n", escape_markdown(caption)));
    }
    let mut shown = table.for_people();
    shown.retain(|&index| table.columns[index].expendable <= MAX_EXPENDABLE);
    if shown.is_empty() {
        return 0;
    }
    let rows = table.cell_rows().count();
    let shown_rows = fitting_rows(table, &shown, budget);
    if rows > MAX_UNFOLDED_ROWS {
        let summary = match format_count(shown_rows.len(), "row", "rows") {
            shown if shown_rows.len() == rows => format!("All {shown}"),
            shown => format!("{shown} of {rows}"),
        };
        out.push_str(&format!("<details><summary>{summary}</summary>\n\n"));
    }
    let used_chars = write_rows(table, &shown, &shown_rows, out);
    if shown_rows.len() < rows {
        out.push_str(
            "\nThe other rows do not fit into a comment; -o report.html or -o report.csv writes all of them.\n",
        );
    }
    for (index, footnote) in table.footnotes.iter().enumerate() {
        out.push_str(&format!(
            "\n{} {}\n",
            superscript_number(index + 1),
            escape_markdown(footnote)
        ));
    }
    if rows > MAX_UNFOLDED_ROWS {
        out.push_str("\n</details>\n");
    }
    used_chars
}

/// Selects the rows that fit into `budget` characters, most urgent first. Returns their indexes
/// among the rows with cells.
fn fitting_rows(table: &ReportTable, shown: &[usize], budget: usize) -> HashSet<usize> {
    let cells: Vec<&Vec<ReportCell>> = table.cell_rows().collect();
    let mut remaining = budget;
    let mut fitting = HashSet::new();
    for number in by_severity(&table.row_emphases()) {
        let length = row_line(table, shown, cells[number]).len();
        let Some(remainder) = remaining.checked_sub(length) else { break };
        remaining = remainder;
        fitting.insert(number);
    }
    fitting
}

fn write_rows(
    table: &ReportTable,
    shown: &[usize],
    shown_rows: &HashSet<usize>,
    out: &mut String,
) -> usize {
    let before = out.len();
    let columns = || shown.iter().map(|&index| &table.columns[index]);
    out.push_str(&join_cells(columns().map(|column| escape_markdown(&column.header))));
    let alignment = |kind: ColumnKind| if kind == ColumnKind::Figure { "---:" } else { ":---" };
    out.push_str(&join_cells(columns().map(|column| alignment(column.kind).to_owned())));
    let mut number = 0;
    // A group's heading and reference precede the first shown row of the group. A remark is written
    // only if the row above it is shown.
    let mut heading: Option<String> = None;
    let mut below = true;
    // A row with only a first cell.
    let single_cell_row = |text: String| {
        let others = (1..shown.len()).map(|_| String::new());
        join_cells(std::iter::once(text).chain(others))
    };
    for row in &table.rows {
        match row {
            ReportRow::Group(name) => {
                let text = format!("**{}**", escape_markdown(&name.full));
                heading = (!name.full.is_empty()).then(|| single_cell_row(text));
            }
            ReportRow::Remark(text) if below => {
                out.push_str(&single_cell_row(format!("↳ _{}_", escape_markdown(text))));
            }
            ReportRow::Remark(_) => {}
            ReportRow::Reference(cells) => {
                heading.get_or_insert_default().push_str(&row_line(table, shown, cells));
            }
            ReportRow::Cells(cells) => {
                below = shown_rows.contains(&number);
                number += 1;
                if below {
                    out.push_str(&heading.take().unwrap_or_default());
                    out.push_str(&row_line(table, shown, cells));
                }
            }
        }
    }
    out.len() - before
}

fn row_line(table: &ReportTable, shown: &[usize], cells: &[ReportCell]) -> String {
    join_cells(shown.iter().map(|&at| format_cell(&cells[at], table.columns[at].kind)))
}

fn join_cells(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

fn format_cell(cell: &ReportCell, kind: ColumnKind) -> String {
    let is_name = matches!(kind, ColumnKind::Label | ColumnKind::Identifier);
    let is_code = is_name && !cell.text.is_empty();
    if is_code { format_code(&cell.text) } else { escape_markdown(&cell.text) }
}

/// Formats a name as code. Consecutive spaces, which align names on fixed-width screens, become
/// one. A bar is escaped even inside code, because Markdown splits a table row into cells before it
/// looks for code.
fn format_code(text: &str) -> String {
    let text =
        escape_controls(text).split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// An invisible comment between `@` or `#` and a name. It keeps GitHub from seeing a reference to a
/// user or an issue: `@latest` is a session and must not notify a user of that name.
const NO_MENTION: &str = "<!-- -->";

/// Escapes everything in `text` that Markdown or HTML would take for markup. Brackets, and
/// underscores inside words, are kept where they cannot be markup: intervals and names are full of
/// them, and people also read the source.
fn escape_markdown(text: &str) -> String {
    let text = escape_controls(text);
    let links = text.contains("](") || text.contains("][") || text.contains("]:");
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let in_word = before.is_alphanumeric()
            && characters.peek().is_some_and(|next| next.is_alphanumeric());
        let markup = match character {
            '\\' | '|' | '*' | '`' | '~' => true,
            '_' => !in_word,
            '[' => links || matches!(characters.peek(), Some('^' | ' ' | 'x')),
            '#' | '+' | '-' | '>' => escaped.is_empty() && characters.peek() == Some(&' '),
            _ => false,
        };
        if markup {
            escaped.push('\\');
        }
        match character {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' => escaped.push(' '),
            other => escaped.push(other),
        }
        let named = characters.peek().is_some_and(|next| next.is_alphanumeric());
        if matches!(character, '@' | '#') && !before.is_alphanumeric() && named {
            escaped.push_str(NO_MENTION);
        }
        before = character;
    }
    escaped
}

/// Makes a code block of `text`. The fence is longer than any sequence of backticks in the text.
fn fence_code(text: &str, language: &str) -> String {
    let longest = text.split(|character: char| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", escape_controls(text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(blocks: Vec<ReportBlock>) -> String {
        let mut out = Vec::new();
        let document = Document { blocks, ..Document::new("t") };
        Markdown::default().render(&document, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn details_are_folded_away() {
        let inside = vec![ReportBlock::Paragraph("boom".into())];
        let text = rendered(vec![ReportBlock::Aside {
            summary: "1 run failed".into(),
            open: true,
            blocks: inside,
        }]);
        assert_eq!(text, "<details><summary>1 run failed</summary>\n\nboom\n\n</details>\n");
    }

    #[test]
    fn the_headline_comes_before_the_warnings() {
        let warning = |text: &str| ReportBlock::Warning(text.into());
        let text = rendered(vec![
            warning("the load was 3.2"),
            warning("the *clock* drifted"),
            ReportBlock::Headline("new is faster.".into()),
        ]);
        assert_eq!(
            text,
            "**new is faster.**\n\n> [!WARNING]\n> - the load was 3.2\n> - the \\*clock\\* drifted\n"
        );
    }

    #[test]
    fn only_text_that_could_be_markup_is_escaped() {
        for (text, escaped) in [
            ("string_decoder [+6.9, +9.6]", "string_decoder [+6.9, +9.6]"),
            ("_private *bold*", "\\_private \\*bold\\*"),
            ("[x](http://a)", "\\[x](http://a)"),
            ("a < b & c", "a &lt; b &amp; c"),
            ("# one", "\\# one"),
            ("@12 of a@b, see #7", "@<!-- -->12 of a@b, see #<!-- -->7"),
        ] {
            assert_eq!(escape_markdown(text), escaped);
        }
    }

    #[test]
    fn a_fence_is_longer_than_the_ones_inside() {
        assert_eq!(fence_code("```", "text"), "````text\n```\n````\n");
    }
}

#[cfg(test)]
mod table_tests {
    use super::*;
    use crate::table::ReportColumn;
    use crate::table::RowName;
    use crate::table::TextEmphasis;

    fn rendered(table_: &ReportTable, budget: usize) -> String {
        let mut out = String::new();
        write_table(table_, budget, &mut out);
        out
    }

    #[test]
    fn names_with_bars_and_backticks_do_not_break_the_table() {
        let columns = vec![
            ReportColumn::new("c", "case", ColumnKind::Label),
            ReportColumn::new("x", "a|b", ColumnKind::Figure),
        ];
        let rows = vec![
            ReportRow::Cells(vec![ReportCell::words("q=\"a|b\""), ReportCell::words("<0.001")]),
            ReportRow::Cells(vec![ReportCell::words("q=`x`  n=1"), ReportCell::words("2")]),
        ];
        let table = ReportTable { columns, rows, ..ReportTable::new("t") };
        assert_eq!(
            rendered(&table, usize::MAX),
            "| case | a\\|b |\n| :--- | ---: |\n\
             | `q=\"a\\|b\"` | &lt;0.001 |\n| `` q=`x` n=1 `` | 2 |\n"
        );
    }

    fn long(rows: usize) -> ReportTable {
        let columns = vec![
            ReportColumn::new("c", "case", ColumnKind::Label),
            ReportColumn::new("v", "verdict", ColumnKind::Words).facet(),
            ReportColumn::new("p", "p", ColumnKind::Figure).expendable(5),
        ];
        let mut lines = vec![ReportRow::Group(RowName::plain("group"))];
        for at in 0..rows {
            let (word, emphasis) = if at + 1 == rows {
                ("worse", TextEmphasis::Bad)
            } else {
                ("same", TextEmphasis::None)
            };
            lines.push(ReportRow::Cells(vec![
                ReportCell::words(format!("case {at}")),
                ReportCell::words(word).with_emphasis(emphasis),
                ReportCell::words("0.5"),
            ]));
            lines.push(ReportRow::Remark(format!("about {at}")));
        }
        ReportTable { columns, rows: lines, ..ReportTable::new("t") }
    }

    #[test]
    fn a_long_table_is_folded_away() {
        let text = rendered(&long(21), usize::MAX);
        assert!(text.starts_with("<details><summary>All 21 rows</summary>\n\n| case |"), "{text}");
        assert!(text.ends_with("\n</details>\n"), "{text}");
        assert!(!rendered(&long(20), usize::MAX).contains("details"));
    }

    #[test]
    fn a_table_that_does_not_fit_keeps_the_bad_news() {
        let text = rendered(&long(1_000), 60);
        assert!(text.contains("2 rows of 1000"), "{text}");
        assert!(text.contains("| `case 999` | worse |"), "{text}");
        assert!(text.contains("about 999") && !text.contains("about 500"), "{text}");
        assert!(text.contains("do not fit into a comment"), "{text}");
    }

    #[test]
    fn columns_that_do_not_fit_a_comment_are_left_out() {
        assert!(rendered(&long(1), usize::MAX).starts_with("| case | verdict |\n"));
    }
}
