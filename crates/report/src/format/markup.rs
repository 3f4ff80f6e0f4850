//! Writes documents in AsciiDoc and Org. As in Markdown, the answer comes first. Charts are
//! omitted.
//!
//! [`MarkupPage`] writes the same blocks in the same order for both languages; [`MarkupLanguage`]
//! knows how to escape text in each language.

use crate::document::{Document, ReportBlock};
use crate::format::{RenderDocument, escape_controls};
use crate::table::{ColumnKind, ReportColumn, ReportRow, ReportTable, superscript_number};
use std::io::{self, Write};

/// A document in AsciiDoc.
#[derive(Debug, Clone, Copy, Default)]
pub struct AsciiDoc;

/// A document in Org, Emacs' outline format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Org;

impl RenderDocument for AsciiDoc {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        MarkupPage::new(MarkupLanguage::AsciiDoc).render(document, out)
    }
}

impl RenderDocument for Org {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        MarkupPage::new(MarkupLanguage::Org).render(document, out)
    }
}

/// The language of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkupLanguage {
    AsciiDoc,
    Org,
}

/// A page being written.
struct MarkupPage {
    language: MarkupLanguage,
    out: String,
}

impl MarkupPage {
    fn new(language: MarkupLanguage) -> MarkupPage {
        MarkupPage {
            language,
            out: String::new(),
        }
    }

    fn render(mut self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        self.write_blocks(&document.answer_first());
        out.write_all(self.out.trim_start_matches('\n').as_bytes())
    }

    fn write_blocks(&mut self, blocks: &[&ReportBlock]) {
        for block in blocks {
            let before = self.out.len();
            self.write_block(block);
            if self.out.len() > before {
                self.out.insert(before, '\n');
            }
        }
    }

    fn write_block(&mut self, block: &ReportBlock) {
        match block {
            ReportBlock::Heading { level, text } => self.write_heading(usize::from(*level), text),
            ReportBlock::Headline(text) => {
                self.write_line(&format!("*{}*", self.escape_text(text)))
            }
            ReportBlock::Paragraph(text) | ReportBlock::Note(text) => self.write_paragraph(text),
            ReportBlock::Warning(text) => match self.language {
                MarkupLanguage::AsciiDoc => {
                    self.write_line(&format!("WARNING: {}", self.escape_text(text)))
                }
                MarkupLanguage::Org => {
                    let text = self.escape_text(text);
                    self.write_line(&format!("#+begin_quote\nWarning: {text}\n#+end_quote"));
                }
            },
            ReportBlock::List(items) => {
                for item in items {
                    let mark = self.language.bullet_char();
                    self.write_line(&format!("{mark} {}", self.escape_text(item)));
                }
            }
            ReportBlock::Facts(facts) => {
                for (name, value) in facts {
                    let (name, value) = (self.escape_text(name), self.escape_text(value));
                    match self.language {
                        MarkupLanguage::AsciiDoc => self.write_line(&format!("{name}:: {value}")),
                        MarkupLanguage::Org => self.write_line(&format!("- {name} :: {value}")),
                    }
                }
            }
            ReportBlock::Table(table) => self.write_table(table),
            ReportBlock::Verbatim { label, text } if text.trim().is_empty() => {
                self.write_paragraph(&format!("(nothing on {label})"));
            }
            ReportBlock::Verbatim { label, text } => self.write_quoted(label, text),
            ReportBlock::Command { label, line } => self.write_quoted(label, line),
            ReportBlock::Aside {
                summary: title,
                blocks,
                ..
            }
            | ReportBlock::Appendix { title, blocks, .. } => {
                self.write_heading(3, title);
                self.write_blocks(&blocks.iter().collect::<Vec<_>>());
            }
            ReportBlock::Chart(_) | ReportBlock::Gallery(_) | ReportBlock::Shortened { .. } => {}
        }
    }

    fn write_line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn write_heading(&mut self, level: usize, text: &str) {
        let marks = match self.language {
            MarkupLanguage::AsciiDoc => "=".repeat(level + 1),
            MarkupLanguage::Org => "*".repeat(level),
        };
        self.write_line(&format!("{marks} {}", self.escape_text(text)));
    }

    fn write_paragraph(&mut self, text: &str) {
        self.write_line(&self.escape_text(text));
    }

    fn escape_text(&self, text: &str) -> String {
        self.language.escape_markup(text)
    }

    /// Writes the output of another program, or a command, as a block of code. In AsciiDoc, the
    /// fence is longer than any line of dashes in the text. In Org, lines that start with `*` or
    /// `#+` get a comma in front. Apart from control characters, which are escaped, nothing else is
    /// changed.
    fn write_quoted(&mut self, label: &str, text: &str) {
        let text = escape_controls(text.trim_end());
        let label = self.escape_text(label);
        match self.language {
            MarkupLanguage::AsciiDoc => {
                let dashes = text.lines().filter(|line| line.chars().all(|c| c == '-'));
                let fence = "-".repeat(dashes.map(str::len).max().unwrap_or(0).max(3) + 1);
                self.write_line(&format!(".{label}\n{fence}\n{text}\n{fence}"));
            }
            MarkupLanguage::Org => {
                let is_marked = |line: &&str| line.starts_with('*') || line.starts_with("#+");
                let lines = text.lines().map(|line| match Some(line).filter(is_marked) {
                    Some(line) => format!(",{line}\n"),
                    None => format!("{line}\n"),
                });
                let text: String = lines.collect();
                self.write_line(&format!("{label}:\n#+begin_example\n{text}#+end_example"));
            }
        }
    }

    fn write_table(&mut self, table: &ReportTable) {
        for caption in &table.caption {
            self.write_paragraph(caption);
            self.out.push('\n');
        }
        let shown = table.for_people();
        if shown.is_empty() {
            return;
        }
        let columns: Vec<_> = shown.iter().map(|&index| &table.columns[index]).collect();
        let header = |column: &&ReportColumn| self.escape_text(&column.header);
        let headers: Vec<String> = columns.iter().map(header).collect();
        match self.language {
            MarkupLanguage::AsciiDoc => {
                let mark = |column: &&ReportColumn| match column.kind {
                    ColumnKind::Figure => ">",
                    _ => "<",
                };
                let marks = columns.iter().map(mark).collect::<Vec<_>>().join(",");
                self.write_line(&format!("[cols=\"{marks}\",options=\"header\"]\n|==="));
                self.write_row(&headers);
            }
            MarkupLanguage::Org => {
                self.write_row(&headers);
                self.write_line(&format!("|{}|", vec!["---"; headers.len()].join("+")));
            }
        }
        for row in &table.rows {
            let cells = match row {
                ReportRow::Group(name) if name.full.is_empty() => continue,
                ReportRow::Group(name) => {
                    single_cell_row(format!("*{}*", self.escape_text(&name.full)), shown.len())
                }
                ReportRow::Remark(text) => single_cell_row(self.escape_text(text), shown.len()),
                ReportRow::Cells(cells) => {
                    let texts = shown
                        .iter()
                        .zip(&columns)
                        .map(|(&i, column)| match column.kind {
                            ColumnKind::Label | ColumnKind::Identifier => {
                                self.language.format_code(&cells[i].text)
                            }
                            _ => self.escape_text(&cells[i].text),
                        });
                    texts.collect()
                }
            };
            self.write_row(&cells);
        }
        if self.language == MarkupLanguage::AsciiDoc {
            self.write_line("|===");
        }
        for (index, footnote) in table.footnotes.iter().enumerate() {
            let text = format!(
                "\n{} {}",
                superscript_number(index + 1),
                self.escape_text(footnote)
            );
            self.write_line(&text);
        }
    }

    fn write_row(&mut self, cells: &[String]) {
        match self.language {
            MarkupLanguage::AsciiDoc => self.write_line(&format!("| {}", cells.join(" | "))),
            MarkupLanguage::Org => self.write_line(&format!("| {} |", cells.join(" | "))),
        }
    }
}

fn single_cell_row(text: String, columns: usize) -> Vec<String> {
    let mut cells = vec![String::new(); columns];
    cells[0] = text;
    cells
}

impl MarkupLanguage {
    fn bullet_char(self) -> char {
        match self {
            MarkupLanguage::AsciiDoc => '*',
            MarkupLanguage::Org => '-',
        }
    }

    /// Formats a name in monospace, without anything that would end a cell.
    fn format_code(self, text: &str) -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = escape_controls(&words.join(" ")).into_owned();
        match self {
            _ if text.is_empty() => text,
            // Between `+` signs, the only character that AsciiDoc takes for markup is the bar that
            // separates the cells of a table.
            MarkupLanguage::AsciiDoc if !text.contains('+') => {
                format!("`+{}+`", text.replace('|', "\\|"))
            }
            MarkupLanguage::Org if !text.contains(['~', '|']) => format!("~{text}~"),
            _ => self.escape_markup(&text),
        }
    }

    /// Escapes everything in running text that would be taken for markup.
    fn escape_markup(self, text: &str) -> String {
        let text = escape_controls(text).replace('\n', " ");
        let mut out = String::with_capacity(text.len());
        let mut previous = ' ';
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let next = characters.peek().copied().unwrap_or(' ');
            let in_word = previous.is_alphanumeric() && next.is_alphanumeric();
            match (self, character) {
                (MarkupLanguage::AsciiDoc, '|') => out.push_str("{vbar}"),
                (MarkupLanguage::AsciiDoc, '*') => out.push_str("{asterisk}"),
                (MarkupLanguage::AsciiDoc, '`') => out.push_str("{backtick}"),
                (MarkupLanguage::AsciiDoc, '^') => out.push_str("{caret}"),
                (MarkupLanguage::AsciiDoc, '~') => out.push_str("{tilde}"),
                (MarkupLanguage::AsciiDoc, '#') => out.push_str("&#35;"),
                (MarkupLanguage::AsciiDoc, '+') if !next.is_ascii_digit() => out.push_str("{plus}"),
                (MarkupLanguage::AsciiDoc, '_') if !in_word => out.push_str("&#95;"),
                (MarkupLanguage::AsciiDoc, '{') => out.push_str("\\{"),
                (MarkupLanguage::AsciiDoc, '<') if next == '<' => out.push_str("&#60;"),
                (MarkupLanguage::Org, '|') => out.push_str("\\vert{}"),
                (MarkupLanguage::Org, '*' | '/' | '_' | '=' | '~' | '+' | '[' | '<' | '#')
                    if !in_word && !next.is_ascii_digit() && !next.is_whitespace() =>
                {
                    // Org takes the character for markup only directly before a word, so a
                    // zero-width space follows it.
                    out.push(character);
                    out.push('\u{200b}');
                }
                (_, character) => out.push(character),
            }
            previous = character;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{ReportCell, ReportColumn, RowName};

    fn document() -> Document {
        let columns = vec![
            ReportColumn::new("c", "case", ColumnKind::Label),
            ReportColumn::new("x", "a|b", ColumnKind::Figure),
        ];
        let rows = vec![
            ReportRow::Group(RowName::plain("eval/sh")),
            ReportRow::Cells(vec![
                ReportCell::words("q=\"a|b\""),
                ReportCell::words("[+6.9, +9.6]"),
            ]),
            ReportRow::Cells(vec![ReportCell::words("n=1"), ReportCell::words("2")]),
            ReportRow::Remark("half *done*".into()),
        ];
        Document {
            blocks: vec![
                ReportBlock::Warning("the load was 3.2".into()),
                ReportBlock::Headline("new is faster.".into()),
                ReportBlock::Table(ReportTable {
                    columns,
                    rows,
                    ..ReportTable::new("t")
                }),
                ReportBlock::Verbatim {
                    label: "stderr".into(),
                    text: "* boom\n----\n".into(),
                },
            ],
            ..Document::new("t")
        }
    }

    fn render_document(format: &dyn RenderDocument) -> String {
        let mut out = Vec::new();
        format.render(&document(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_document_in_asciidoc_has_its_answer_first_and_a_table_whose_cells_stay_apart() {
        assert_eq!(
            render_document(&AsciiDoc),
            "*new is faster.*\n\nWARNING: the load was 3.2\n\n\
             [cols=\"<,>\",options=\"header\"]\n|===\n| case | a{vbar}b\n| *eval/sh* | \n\
             | `+q=\"a\\|b\"+` | [+6.9, +9.6]\n| `+n=1+` | 2\n| half {asterisk}done{asterisk} | \n|===\n\n\
             .stderr\n-----\n* boom\n----\n-----\n"
        );
    }

    #[test]
    fn a_document_in_org_quotes_what_would_begin_a_heading() {
        assert_eq!(
            render_document(&Org),
            "*new is faster.*\n\n#+begin_quote\nWarning: the load was 3.2\n#+end_quote\n\n\
             | case | a\\vert{}b |\n|---+---|\n| *eval/sh* |  |\n\
             | q=\u{200b}\"a\\vert{}b\" | [\u{200b}+6.9, +9.6] |\n| ~n=1~ | 2 |\n| half *\u{200b}done* |  |\n\n\
             stderr:\n#+begin_example\n,* boom\n----\n#+end_example\n"
        );
    }
}
