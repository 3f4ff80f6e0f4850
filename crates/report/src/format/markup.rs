//! Documents in AsciiDoc and in Org: the answer first, as in Markdown. Charts are left out.
//!
//! What both languages have is written in the same order by [`Page`]; how each says it is in its [`Language`].

use crate::document::{Block, Document};
use crate::format::{Render, visible};
use crate::table::{Kind, Row, Table, mark};
use std::io::{self, Write};

/// A document in AsciiDoc.
#[derive(Debug, Clone, Copy, Default)]
pub struct AsciiDoc;

/// A document in Org, the outlines of Emacs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Org;

impl Render for AsciiDoc {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        Page::new(Language::AsciiDoc).render(document, out)
    }
}

impl Render for Org {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        Page::new(Language::Org).render(document, out)
    }
}

/// Which language a page is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    AsciiDoc,
    Org,
}

/// A page being written.
struct Page {
    language: Language,
    out: String,
}

impl Page {
    fn new(language: Language) -> Page {
        Page {
            language,
            out: String::new(),
        }
    }

    fn render(mut self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        self.blocks(&document.answer_first());
        out.write_all(self.out.trim_start_matches('\n').as_bytes())
    }

    fn blocks(&mut self, blocks: &[&Block]) {
        for block in blocks {
            let before = self.out.len();
            self.block(block);
            if self.out.len() > before {
                self.out.insert(before, '\n');
            }
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading { level, text } => self.heading(usize::from(*level), text),
            Block::Headline(text) => self.line(&format!("*{}*", self.escaped(text))),
            Block::Paragraph(text) | Block::Note(text) => self.paragraph(text),
            Block::Warning(text) => match self.language {
                Language::AsciiDoc => self.line(&format!("WARNING: {}", self.escaped(text))),
                Language::Org => {
                    let text = self.escaped(text);
                    self.line(&format!("#+begin_quote\nWarning: {text}\n#+end_quote"));
                }
            },
            Block::List(items) => {
                for item in items {
                    let mark = self.language.bullet();
                    self.line(&format!("{mark} {}", self.escaped(item)));
                }
            }
            Block::Facts(facts) => {
                for (name, value) in facts {
                    let (name, value) = (self.escaped(name), self.escaped(value));
                    match self.language {
                        Language::AsciiDoc => self.line(&format!("{name}:: {value}")),
                        Language::Org => self.line(&format!("- {name} :: {value}")),
                    }
                }
            }
            Block::Table(table) => self.table(table),
            Block::Verbatim { label, text } if text.trim().is_empty() => {
                self.paragraph(&format!("(nothing on {label})"));
            }
            Block::Verbatim { label, text } => self.quoted(label, text),
            Block::Command { label, line } => self.quoted(label, line),
            Block::Aside {
                summary: title,
                blocks,
                ..
            }
            | Block::Appendix { title, blocks, .. } => {
                self.heading(3, title);
                self.blocks(&blocks.iter().collect::<Vec<_>>());
            }
            Block::Chart(_) | Block::Gallery(_) | Block::Shortened { .. } => {}
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn heading(&mut self, level: usize, text: &str) {
        let marks = match self.language {
            Language::AsciiDoc => "=".repeat(level + 1),
            Language::Org => "*".repeat(level),
        };
        self.line(&format!("{marks} {}", self.escaped(text)));
    }

    fn paragraph(&mut self, text: &str) {
        self.line(&self.escaped(text));
    }

    fn escaped(&self, text: &str) -> String {
        self.language.escaped(text)
    }

    /// Text of another program, or for one: unchanged but for lines that would end it.
    fn quoted(&mut self, label: &str, text: &str) {
        let text = visible(text.trim_end());
        let label = self.escaped(label);
        match self.language {
            Language::AsciiDoc => {
                let longest = text.lines().filter(|line| line.chars().all(|c| c == '-'));
                let fence = "-".repeat(longest.map(str::len).max().unwrap_or(0).max(3) + 1);
                self.line(&format!(".{label}\n{fence}\n{text}\n{fence}"));
            }
            Language::Org => {
                let is_marked = |line: &&str| line.starts_with('*') || line.starts_with("#+");
                let lines = text.lines().map(|line| match Some(line).filter(is_marked) {
                    Some(line) => format!(",{line}\n"),
                    None => format!("{line}\n"),
                });
                let text: String = lines.collect();
                self.line(&format!("{label}:\n#+begin_example\n{text}#+end_example"));
            }
        }
    }

    fn table(&mut self, table: &Table) {
        for caption in &table.caption {
            self.paragraph(caption);
            self.out.push('\n');
        }
        let shown = table.for_people();
        if shown.is_empty() {
            return;
        }
        let columns: Vec<_> = shown.iter().map(|&at| &table.columns[at]).collect();
        let headers = columns.iter().map(|column| self.escaped(&column.header));
        let headers: Vec<String> = headers.collect();
        let is_figure = |kind: Kind| kind == Kind::Figure;
        match self.language {
            Language::AsciiDoc => {
                let marks = columns
                    .iter()
                    .map(|c| if is_figure(c.kind) { ">" } else { "<" });
                let marks: Vec<&str> = marks.collect();
                self.line(&format!(
                    "[cols=\"{}\",options=\"header\"]\n|===",
                    marks.join(",")
                ));
                self.row(&headers);
            }
            Language::Org => {
                self.row(&headers);
                self.line(&format!("|{}|", vec!["---"; headers.len()].join("+")));
            }
        }
        for row in &table.rows {
            let cells = match row {
                Row::Group(name) if name.full.is_empty() => continue,
                Row::Group(name) => alone(format!("*{}*", self.escaped(&name.full)), shown.len()),
                Row::Remark(text) => alone(self.escaped(text), shown.len()),
                Row::Cells(cells) => {
                    let texts = shown
                        .iter()
                        .zip(&columns)
                        .map(|(&at, column)| match column.kind {
                            Kind::Label | Kind::Identifier => self.language.code(&cells[at].text),
                            _ => self.escaped(&cells[at].text),
                        });
                    texts.collect()
                }
            };
            self.row(&cells);
        }
        if self.language == Language::AsciiDoc {
            self.line("|===");
        }
        for (at, footnote) in table.footnotes.iter().enumerate() {
            let text = format!("\n{} {}", mark(at + 1), self.escaped(footnote));
            self.line(&text);
        }
    }

    fn row(&mut self, cells: &[String]) {
        match self.language {
            Language::AsciiDoc => self.line(&format!("| {}", cells.join(" | "))),
            Language::Org => self.line(&format!("| {} |", cells.join(" | "))),
        }
    }
}

fn alone(text: String, columns: usize) -> Vec<String> {
    let mut cells = vec![String::new(); columns];
    cells[0] = text;
    cells
}

impl Language {
    fn bullet(self) -> char {
        match self {
            Language::AsciiDoc => '*',
            Language::Org => '-',
        }
    }

    /// A name in letters of one width, with nothing in it that would end a cell.
    fn code(self, text: &str) -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = visible(&words.join(" ")).into_owned();
        match self {
            _ if text.is_empty() => text,
            // Between `+` and `+` nothing is markup but the bar of a table.
            Language::AsciiDoc if !text.contains('+') => {
                format!("`+{}+`", text.replace('|', "\\|"))
            }
            Language::Org if !text.contains(['~', '|']) => format!("~{text}~"),
            _ => self.escaped(&text),
        }
    }

    /// Running text with everything escaped that would be taken for markup.
    fn escaped(self, text: &str) -> String {
        let text = visible(text).replace('\n', " ");
        let mut out = String::with_capacity(text.len());
        let mut before = ' ';
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let next = letters.peek().copied().unwrap_or(' ');
            let in_word = before.is_alphanumeric() && next.is_alphanumeric();
            match (self, letter) {
                (Language::AsciiDoc, '|') => out.push_str("{vbar}"),
                (Language::AsciiDoc, '*') => out.push_str("{asterisk}"),
                (Language::AsciiDoc, '`') => out.push_str("{backtick}"),
                (Language::AsciiDoc, '^') => out.push_str("{caret}"),
                (Language::AsciiDoc, '~') => out.push_str("{tilde}"),
                (Language::AsciiDoc, '#') => out.push_str("&#35;"),
                (Language::AsciiDoc, '+') if !next.is_ascii_digit() => out.push_str("{plus}"),
                (Language::AsciiDoc, '_') if !in_word => out.push_str("&#95;"),
                (Language::AsciiDoc, '{') => out.push_str("\\{"),
                (Language::AsciiDoc, '<') if next == '<' => out.push_str("&#60;"),
                (Language::Org, '|') => out.push_str("\\vert{}"),
                (Language::Org, '*' | '/' | '_' | '=' | '~' | '+' | '[' | '<' | '#')
                    if !in_word && !next.is_ascii_digit() && !next.is_whitespace() =>
                {
                    // A space without width: the mark no longer stands before a word.
                    out.push(letter);
                    out.push('\u{200b}');
                }
                (_, letter) => out.push(letter),
            }
            before = letter;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, Column, Name};

    fn document() -> Document {
        let columns = vec![
            Column::new("c", "case", Kind::Label),
            Column::new("x", "a|b", Kind::Figure),
        ];
        let rows = vec![
            Row::Group(Name::plain("eval/sh")),
            Row::Cells(vec![Cell::words("q=\"a|b\""), Cell::words("[+6.9, +9.6]")]),
            Row::Cells(vec![Cell::words("n=1"), Cell::words("2")]),
            Row::Remark("half *done*".into()),
        ];
        Document {
            blocks: vec![
                Block::Warning("the load was 3.2".into()),
                Block::Headline("new is faster.".into()),
                Block::Table(Table {
                    columns,
                    rows,
                    ..Table::new("t")
                }),
                Block::Verbatim {
                    label: "stderr".into(),
                    text: "* boom\n----\n".into(),
                },
            ],
            ..Document::new("t")
        }
    }

    fn rendered(format: &dyn Render) -> String {
        let mut out = Vec::new();
        format.render(&document(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_document_in_asciidoc_has_its_answer_first_and_a_table_whose_cells_stay_apart() {
        assert_eq!(
            rendered(&AsciiDoc),
            "*new is faster.*\n\nWARNING: the load was 3.2\n\n\
             [cols=\"<,>\",options=\"header\"]\n|===\n| case | a{vbar}b\n| *eval/sh* | \n\
             | `+q=\"a\\|b\"+` | [+6.9, +9.6]\n| `+n=1+` | 2\n| half {asterisk}done{asterisk} | \n|===\n\n\
             .stderr\n-----\n* boom\n----\n-----\n"
        );
    }

    #[test]
    fn a_document_in_org_quotes_what_would_begin_a_heading() {
        assert_eq!(
            rendered(&Org),
            "*new is faster.*\n\n#+begin_quote\nWarning: the load was 3.2\n#+end_quote\n\n\
             | case | a\\vert{}b |\n|---+---|\n| *eval/sh* |  |\n\
             | q=\u{200b}\"a\\vert{}b\" | [\u{200b}+6.9, +9.6] |\n| ~n=1~ | 2 |\n| half *\u{200b}done* |  |\n\n\
             stderr:\n#+begin_example\n,* boom\n----\n#+end_example\n"
        );
    }
}
