//! Documents in GitHub's Markdown, for pull requests and notes: the answer first, then the threats to it,
//! then the figures; everything that is looked up rather than read is folded away.
//!
//! Start at [`Markdown`]; tables are written by [`write_table`], and markup in names is escaped by [`escape`].

use crate::document::{Block, Document, Fact, by_severity, runs_of_alike};
use crate::figure::count;
use crate::format::{Render, visible};
use crate::table::{Cell, Kind, Row, Table, mark};
use std::collections::HashSet;
use std::io::{self, Write};

/// Characters for the rows of all tables together. GitHub takes 65,536 in a comment; the rest is left to
/// the words around the tables.
const ROWS: usize = 45_000;

/// GitHub's Markdown.
#[derive(Debug, Clone, Default)]
pub struct Markdown {
    /// Where the document's charts are to be found, in their order; charts beyond are left out.
    pub pictures: Vec<String>,
}

impl Render for Markdown {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let mut page = Page {
            pictures: self.pictures.iter(),
            budget: ROWS,
            out: String::new(),
        };
        page.blocks(&document.answer_first());
        out.write_all(page.out.trim_start_matches('\n').as_bytes())
    }
}

/// A page being written.
struct Page<'a> {
    pictures: std::slice::Iter<'a, String>,
    /// Characters left for the rows of tables.
    budget: usize,
    out: String,
}

impl Page<'_> {
    fn blocks(&mut self, blocks: &[&Block]) {
        let is_gathered = |block: &Block| matches!(block, Block::Note(_) | Block::Warning(_));
        for run in runs_of_alike(blocks, is_gathered) {
            let before = self.out.len();
            match run[0] {
                Block::Note(_) => self.notes(run),
                Block::Warning(_) => self.warnings(run),
                block => self.add_block(block),
            }
            if self.out.len() > before {
                self.out.insert(before, '\n');
            }
        }
    }

    fn add_block(&mut self, block: &Block) {
        match block {
            Block::Heading { level, text } => {
                let marks = "#".repeat(usize::from(*level) + 1);
                self.line(&format!("{marks} {}", escape(text)));
            }
            Block::Headline(text) => self.line(&format!("**{}**", escape(text))),
            Block::Paragraph(text) => self.line(&escape(text)),
            // Written by `blocks`, several together. The cases of a gallery are pictures.
            Block::Note(_) | Block::Warning(_) | Block::Gallery(_) => {}
            Block::List(items) => {
                for item in items {
                    self.line(&format!("- {}", escape(item)));
                }
            }
            Block::Facts(facts) => self.facts(facts),
            Block::Table(table) => {
                let taken = write_table(table, self.budget, &mut self.out);
                self.budget = self.budget.saturating_sub(taken);
            }
            Block::Chart(chart) => {
                if let Some(path) = self.pictures.next() {
                    self.line(&format!("![{}](<{path}>)", escape(&chart.title)));
                }
            }
            Block::Verbatim { label, text } if text.trim().is_empty() => {
                self.line(&format!("(nothing on {})", escape(label)));
            }
            Block::Verbatim { label, text } => self.quoted(label, text, "text"),
            Block::Command { label, line } => self.quoted(label, line, "sh"),
            Block::Aside {
                summary: title,
                blocks,
                ..
            }
            | Block::Appendix { title, blocks, .. } => self.details(title, blocks),
            Block::Shortened { .. } => {}
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn quoted(&mut self, label: &str, text: &str, language: &str) {
        let block = fenced(text, language);
        self.out.push_str(&format!("{}:\n\n{block}", escape(label)));
    }

    fn facts(&mut self, facts: &[Fact]) {
        self.line("|  |  |\n| :--- | :--- |");
        for (name, value) in facts {
            self.line(&format!("| {} | {} |", escape(name), escape(value)));
        }
    }

    fn details(&mut self, title: &str, blocks: &[Block]) {
        self.line(&format!("<details><summary>{}</summary>", escape(title)));
        self.blocks(&blocks.iter().collect::<Vec<_>>());
        self.line("\n</details>");
    }

    fn notes(&mut self, notes: &[&Block]) {
        let notes: Vec<String> = notes
            .iter()
            .filter_map(|block| match block {
                Block::Note(text) => Some(escape(text)),
                _ => None,
            })
            .collect();
        self.line(&format!("<sub>{}</sub>", notes.join("<br>\n")));
    }

    /// One box for all warnings, as GitHub draws it; elsewhere a quotation that says what it is.
    fn warnings(&mut self, warnings: &[&Block]) {
        self.line("> [!WARNING]");
        for block in warnings {
            if let Block::Warning(text) = block {
                self.line(&format!("> - {}", escape(text)));
            }
        }
    }
}

/// Longer tables are folded away; the largest changes of these are listed above them.
const OPEN_ROWS: usize = 20;
/// Columns beyond this order are left out: a comment is narrow, and those who look for them have the
/// page or the CSV.
const EXPENDABLE: u8 = 4;

/// Appends `table`, its rows within about `room` characters, and returns how many it took.
pub fn write_table(table: &Table, budget: usize, out: &mut String) -> usize {
    for caption in &table.caption {
        out.push_str(&format!("{}\n\n", escape(caption)));
    }
    let mut shown = table.for_people();
    shown.retain(|&at| table.columns[at].expendable <= EXPENDABLE);
    if shown.is_empty() {
        return 0;
    }
    let rows = table.cells().count();
    let kept = fitting(table, &shown, budget);
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
fn fitting(table: &Table, shown: &[usize], budget: usize) -> HashSet<usize> {
    let cells: Vec<&Vec<Cell>> = table.cells().collect();
    let mut left = budget;
    let mut kept = HashSet::new();
    for at in by_severity(&table.emphases()) {
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

/// A name as code. Runs of blanks are for screens of fixed width and fall together here; a bar has
/// to be escaped even inside code, because the table is cut into cells first.
pub fn code(text: &str) -> String {
    let text = visible(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|");
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}

/// Ends what GitHub would take for the name of a person or the number of an issue, without a trace in the
/// page: `@latest` is a session, and nobody called latest wants to hear of it.
const NO_MENTION: &str = "<!-- -->";

/// `text` with everything escaped that Markdown or HTML would take for markup. Brackets and inner
/// underscores stay as they are where they cannot be markup, because intervals and names are full
/// of them and the source is read, too.
pub fn escape(text: &str) -> String {
    let text = visible(text);
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

/// A code block whose fence is longer than any run of backticks inside.
pub fn fenced(text: &str, language: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", visible(text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(blocks: Vec<Block>) -> String {
        let mut out = Vec::new();
        let document = Document {
            blocks,
            ..Document::new("t")
        };
        Markdown::default().render(&document, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn details_are_folded_away() {
        let inside = vec![Block::Paragraph("boom".into())];
        let text = rendered(vec![Block::Aside {
            summary: "1 run failed".into(),
            open: true,
            blocks: inside,
        }]);
        assert_eq!(
            text,
            "<details><summary>1 run failed</summary>\n\nboom\n\n</details>\n"
        );
    }

    #[test]
    fn the_answer_comes_before_what_may_spoil_it() {
        let warning = |text: &str| Block::Warning(text.into());
        let text = rendered(vec![
            warning("the load was 3.2"),
            warning("the *clock* drifted"),
            Block::Headline("new is faster.".into()),
        ]);
        assert_eq!(
            text,
            "**new is faster.**\n\n> [!WARNING]\n> - the load was 3.2\n> - the \\*clock\\* drifted\n"
        );
    }

    #[test]
    fn only_what_could_be_markup_is_escaped() {
        for (text, escaped) in [
            ("string_decoder [+6.9, +9.6]", "string_decoder [+6.9, +9.6]"),
            ("_private *bold*", "\\_private \\*bold\\*"),
            ("[x](http://a)", "\\[x](http://a)"),
            ("a < b & c", "a &lt; b &amp; c"),
            ("# one", "\\# one"),
            ("@12 of a@b, see #7", "@<!-- -->12 of a@b, see #<!-- -->7"),
        ] {
            assert_eq!(escape(text), escaped);
        }
    }

    #[test]
    fn a_fence_is_longer_than_the_ones_inside() {
        assert_eq!(fenced("```", "text"), "````text\n```\n````\n");
    }
}

#[cfg(test)]
mod table_tests {
    use super::*;
    use crate::table::Column;
    use crate::table::Emphasis;
    use crate::table::Name;

    fn rendered(table_: &Table, budget: usize) -> String {
        let mut out = String::new();
        write_table(table_, budget, &mut out);
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
