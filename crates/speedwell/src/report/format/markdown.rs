//! Documents in GitHub's Markdown, for pull requests and notes.
//!
//! Source of the rules: "GitHub Flavored Markdown Spec", section 4.10 (tables) and 2.4 (escapes).

use super::Render;
use crate::report::document::{Block, Document};
use crate::report::footnotes::mark;
use crate::report::table::{Cell, Kind, Row, Table};
use std::io::{self, Write};

/// GitHub's Markdown.
#[derive(Debug, Clone, Default)]
pub struct Markdown {
    /// Where the document's charts are to be found, in their order; charts beyond are left out.
    pub pictures: Vec<String>,
}

impl Render for Markdown {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let mut pictures = self.pictures.iter();
        let mut text = String::new();
        blocks(&document.blocks, &mut pictures, &mut text);
        out.write_all(text.trim_start_matches('\n').as_bytes())
    }
}

type Pictures<'a> = std::slice::Iter<'a, String>;

fn blocks(blocks: &[Block], pictures: &mut Pictures<'_>, out: &mut String) {
    let mut rest = blocks.iter().peekable();
    while let Some(block) = rest.next() {
        let before = out.len();
        if let Block::Note(first) = block {
            let mut notes = vec![escape(first)];
            while let Some(Block::Note(next)) = rest.next_if(|next| matches!(next, Block::Note(_)))
            {
                notes.push(escape(next));
            }
            out.push_str(&format!("<sub>{}</sub>\n", notes.join("<br>\n")));
        } else {
            one(block, pictures, out);
        }
        if out.len() > before {
            out.insert(before, '\n');
        }
    }
}

fn one(block: &Block, pictures: &mut Pictures<'_>, out: &mut String) {
    match block {
        Block::Heading { level, text } => {
            out.push_str(&format!(
                "{} {}\n",
                "#".repeat(usize::from(*level) + 1),
                escape(text)
            ));
        }
        Block::Headline(text) => out.push_str(&format!("**{}**\n", escape(text))),
        Block::Paragraph(text) => out.push_str(&format!("{}\n", escape(text))),
        // Notes are written by `blocks`, several together.
        Block::Note(_) => {}
        Block::Warning(text) => out.push_str(&format!("> ⚠ {}\n", escape(text))),
        Block::List(items) => {
            for item in items {
                out.push_str(&format!("- {}\n", escape(item)));
            }
        }
        Block::Table(table) => self::table(table, out),
        Block::Chart(chart) => {
            if let Some(path) = pictures.next() {
                out.push_str(&format!("![{}](<{path}>)\n", escape(&chart.title)));
            }
        }
        Block::Verbatim { label, text } if text.trim().is_empty() => {
            out.push_str(&format!("(nothing on {})\n", escape(label)));
        }
        Block::Verbatim { label, text } => {
            out.push_str(&format!("{}:\n\n{}", escape(label), fenced(text, "text")));
        }
        Block::Command { label, line } => {
            out.push_str(&format!("{}:\n\n{}", escape(label), fenced(line, "sh")));
        }
        Block::Aside {
            summary,
            blocks: inside,
        } => {
            let summary = escape(summary);
            out.push_str(&format!("<details><summary>{summary}</summary>\n"));
            blocks(inside, pictures, out);
            out.push_str("\n</details>\n");
        }
    }
}

fn table(table: &Table, out: &mut String) {
    let shown = table.for_people();
    for caption in &table.caption {
        out.push_str(&format!("{}\n\n", escape(caption)));
    }
    if shown.is_empty() {
        return;
    }
    let columns = || shown.iter().map(|&at| &table.columns[at]);
    out.push_str(&line(columns().map(|column| escape(&column.header))));
    out.push_str(&line(columns().map(|column| rule(column.kind).to_owned())));
    for row in &table.rows {
        let cells: Vec<String> = match row {
            Row::Group(name) if name.full.is_empty() => continue,
            Row::Group(name) => alone(format!("**{}**", escape(&name.full)), shown.len()),
            Row::Remark(text) => alone(format!("↳ _{}_", escape(text)), shown.len()),
            Row::Cells(cells) => shown
                .iter()
                .map(|&at| cell(&cells[at], table.columns[at].kind))
                .collect(),
        };
        out.push_str(&line(cells.into_iter()));
    }
    for (at, footnote) in table.footnotes.iter().enumerate() {
        out.push_str(&format!("\n{} {}\n", mark(at + 1), escape(footnote)));
    }
}

fn rule(kind: Kind) -> &'static str {
    match kind {
        Kind::Figure => "---:",
        Kind::Label | Kind::Identifier | Kind::Words => ":---",
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
fn code(text: &str) -> String {
    let text = text
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

/// `text` with everything escaped that Markdown or HTML would take for markup. Brackets and inner
/// underscores stay as they are where they cannot be markup, because intervals and names are full
/// of them and the source is read, too.
fn escape(text: &str) -> String {
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
        before = character;
    }
    escaped
}

/// A code block whose fence is longer than any run of backticks inside.
fn fenced(text: &str, language: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::Column;

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
            rendered(vec![Block::Table(table)]),
            "| case | a\\|b |\n| :--- | ---: |\n\
             | `q=\"a\\|b\"` | &lt;0.001 |\n| `` q=`x` n=1 `` | 2 |\n"
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
        ] {
            assert_eq!(escape(text), escaped);
        }
    }

    #[test]
    fn a_fence_is_longer_than_the_ones_inside() {
        let text = rendered(vec![Block::Verbatim {
            label: "stderr".into(),
            text: "```".into(),
        }]);
        assert_eq!(text, "stderr:\n\n````text\n```\n````\n");
    }

    #[test]
    fn details_are_folded_away() {
        let inside = vec![Block::Paragraph("boom".into())];
        let text = rendered(vec![Block::Aside {
            summary: "1 run failed".into(),
            blocks: inside,
        }]);
        assert_eq!(
            text,
            "<details><summary>1 run failed</summary>\n\nboom\n\n</details>\n"
        );
    }
}
