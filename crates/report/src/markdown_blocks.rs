//! Converts the Markdown of a posted comment back into blocks, so that a page shows the comment as
//! the forge does.
//!
//! It understands what `format/markdown.rs` writes; any other line becomes a paragraph. Start at
//! [`markdown_blocks`].

use crate::document::ReportBlock;
use crate::table::{ColumnKind, ReportCell, ReportColumn, ReportRow, ReportTable};

/// Keys of the columns of a table. Further columns are left out.
const COLUMN_KEYS: &str = "column_1 column_2 column_3 column_4 column_5 column_6 column_7 column_8 \
    column_9 column_10 column_11 column_12 column_13 column_14 column_15 column_16";

/// Maximum depth of nested details.
const MAX_DEPTH: usize = 8;

/// Converts a comment.
pub fn markdown_blocks(text: &str) -> Vec<ReportBlock> {
    let mut lines = text.lines();
    read_blocks(&mut lines, 0)
}

/// Returns the answer of a comment: its first sentence in bold. Empty if there is none.
pub fn markdown_answer(text: &str) -> String {
    text.lines().find(|line| line.len() > 4 && is_bold(line)).map(plain_text).unwrap_or_default()
}

fn is_bold(line: &str) -> bool {
    line.starts_with("**") && line.ends_with("**")
}

/// Reads blocks until the end of the text or of the details.
fn read_blocks(lines: &mut std::str::Lines<'_>, depth: usize) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let mut is_in_table = false;
    while let Some(line) = lines.next() {
        let cells = table_cells(line);
        let continues_table = is_in_table && cells.is_some();
        is_in_table = cells.is_some();
        if line == "</details>" {
            // A lone end, outside of all details, ends nothing.
            if depth > 0 {
                break;
            }
            continue;
        }
        if let Some(title) = line.strip_prefix("<details><summary>") {
            let summary = plain_text(title.trim_end_matches("</summary>"));
            if depth < MAX_DEPTH {
                let inner = read_blocks(lines, depth + 1);
                blocks.push(ReportBlock::Aside { summary, open: false, blocks: inner });
            }
        } else if let Some(fence) = fence_of(line) {
            let label = take_label(&mut blocks);
            let code: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
            blocks.push(ReportBlock::Verbatim { label, text: code.join("\n") });
        } else if let Some(cells) = cells {
            add_row(&mut blocks, &cells, continues_table);
        } else {
            add_line(&mut blocks, line);
        }
    }
    blocks
}

/// Adds a line that is a block of its own or belongs to the block before it.
fn add_line(blocks: &mut Vec<ReportBlock>, markdown: &str) {
    let line =
        markdown.trim_start_matches("<sub>").trim_end_matches("</sub>").trim_end_matches("<br>");
    let is_hidden = line.starts_with("<!--") || line.starts_with("![") || line == "> [!WARNING]";
    if line.trim().is_empty() || is_hidden {
        return;
    }
    if let Some(warning) = line.strip_prefix("> ") {
        blocks.push(ReportBlock::Warning(plain_text(warning.trim_start_matches("- "))));
    } else if let Some(item) = line.strip_prefix("- ") {
        match blocks.last_mut() {
            Some(ReportBlock::List(items)) => items.push(plain_text(item)),
            _ => blocks.push(ReportBlock::List(vec![plain_text(item)])),
        }
    } else if line.starts_with('#') && line.trim_start_matches('#').starts_with(' ') {
        let text = plain_text(line.trim_start_matches('#').trim());
        blocks.push(ReportBlock::Heading { level: 3, text });
    } else {
        blocks.push(ReportBlock::Paragraph(plain_text(line)));
    }
}

/// Returns the fence at the start of a code block.
fn fence_of(line: &str) -> Option<&str> {
    let length = line.len() - line.trim_start_matches('`').len();
    (length >= 3).then(|| &line[..length])
}

/// Returns the label of a code block: the paragraph before it, which ends with a colon.
fn take_label(blocks: &mut Vec<ReportBlock>) -> String {
    let before = blocks.last().and_then(ReportBlock::sentence);
    let Some(label) = before.and_then(|text| text.strip_suffix(':')).map(str::to_owned) else {
        return "code".to_owned();
    };
    blocks.pop();
    label
}

/// Splits the row of a table into its cells. A bar after a backslash does not end a cell.
fn table_cells(line: &str) -> Option<Vec<String>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    let mut cells = vec![String::new()];
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        let cell = cells.last_mut()?;
        match character {
            '|' => cells.push(String::new()),
            '\\' => {
                cell.push(character);
                cell.extend(characters.next());
            }
            _ => cell.push(character),
        }
    }
    Some(cells.iter().map(|cell| cell.trim().to_owned()).collect())
}

/// Adds a row to the table before it, or begins a table with it.
fn add_row(blocks: &mut Vec<ReportBlock>, cells: &[String], continues_table: bool) {
    let is_alignment = |cell: &String| {
        cell.contains("---") && cell.chars().all(|character| ":-".contains(character))
    };
    if !continues_table {
        let header = |(key, cell): (&'static str, &String)| {
            ReportColumn::words(key, plain_text(cell)).for_people()
        };
        blocks.push(ReportBlock::Table(ReportTable {
            columns: COLUMN_KEYS.split(' ').zip(cells).map(header).collect(),
            ..ReportTable::new("comment")
        }));
        return;
    }
    let Some(ReportBlock::Table(table)) = blocks.last_mut() else { return };
    if table.rows.is_empty() && cells.iter().all(is_alignment) {
        for (column, cell) in table.columns.iter_mut().zip(cells) {
            let is_figure = !cell.starts_with(':');
            column.kind = if is_figure { ColumnKind::Figure } else { ColumnKind::Words };
        }
        return;
    }
    let texts = cells.iter().map(|cell| ReportCell::text(plain_text(cell)));
    let mut row: Vec<ReportCell> = texts.collect();
    row.resize_with(table.columns.len(), ReportCell::default);
    table.rows.push(ReportRow::Cells(row));
}

/// Removes the markup of a line: escapes, references, emphasis, code marks, comments and links.
fn plain_text(line: &str) -> String {
    let uncommented = line.replace("<!-- -->", "");
    let mut text = String::with_capacity(uncommented.len());
    let mut characters = uncommented.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(characters.next()),
            '`' => {}
            '*' if characters.peek() == Some(&'*') => {
                characters.next();
            }
            _ => text.push(character),
        }
    }
    if text.contains("](<") {
        text = text.replacen('[', "", 1).replace("](<", ": ").replace(">)", "");
    }
    if let Some(remark) = text.strip_prefix("↳ _") {
        text = format!("↳ {}", remark.trim_end_matches('_'));
    }
    text.trim().replace("&lt;", "<").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::format::{Markdown, RenderDocument as _};

    /// What the report of a comparison consists of.
    fn blocks() -> Vec<ReportBlock> {
        let columns = vec![
            ReportColumn::new("case", "case", ColumnKind::Label),
            ReportColumn::new("change", "change", ColumnKind::Figure),
        ];
        let cells = vec![ReportCell::words("a|b <i> n=1"), ReportCell::words("+10% [+9, +11]")];
        vec![
            ReportBlock::Headline("new_x is *slower* than @old".into()),
            ReportBlock::Warning("The machine was <busy>.".into()),
            ReportBlock::Table(ReportTable {
                columns,
                rows: vec![ReportRow::Cells(cells)],
                ..ReportTable::new("t")
            }),
            ReportBlock::List(vec!["one".into(), "two & three".into()]),
            ReportBlock::appendix(
                "Details",
                vec![ReportBlock::Verbatim { label: "stderr".into(), text: "```\n| x |".into() }],
            ),
        ]
    }

    #[test]
    fn a_comment_is_read_as_it_was_written() {
        let mut out = Vec::new();
        let document = Document { blocks: blocks(), ..Document::new("t") };
        Markdown::default().render(&document, &mut out).unwrap();
        let markdown = String::from_utf8(out).unwrap();
        assert_eq!(markdown_answer(&markdown), "new_x is *slower* than @old");
        let read = markdown_blocks(&markdown);
        let [headline, warning, ReportBlock::Table(table), ReportBlock::List(items), details] =
            &read[..]
        else {
            panic!("{markdown}\n{read:#?}");
        };
        assert_eq!(headline.sentence(), Some("new_x is *slower* than @old"));
        assert_eq!(warning.sentence(), Some("The machine was <busy>."));
        assert_eq!(table.columns[1].kind, ColumnKind::Figure);
        let cells: Vec<&str> = table.cell_rows().flatten().map(|cell| cell.text.as_str()).collect();
        assert_eq!(cells, ["a|b <i> n=1", "+10% [+9, +11]"]);
        assert_eq!(items[..], ["one".to_owned(), "two & three".to_owned()]);
        let ReportBlock::Aside { summary, open: false, blocks } = details else {
            panic!("{details:#?}");
        };
        assert_eq!(summary, "Details");
        let [ReportBlock::Verbatim { label, text }] = &blocks[..] else {
            panic!("{blocks:#?}");
        };
        assert_eq!((label.as_str(), text.as_str()), ("stderr", "```\n| x |"));
    }

    #[test]
    fn any_other_text_is_shown_as_text() {
        let nested = "<details><summary>a</summary>\n".repeat(100);
        assert!(!markdown_blocks(&nested).is_empty());
        for text in ["", "|", "||", "\\", "**", "****", "```", "> ", "</details>", "#", "| |\n|"] {
            let _ = (markdown_blocks(text), markdown_answer(text));
        }
        let read = markdown_blocks("<script>alert(1)</script>\n<sub>[all](<http://h/>)</sub>");
        let sentences: Vec<&str> = read.iter().filter_map(ReportBlock::sentence).collect();
        assert_eq!(sentences, ["<script>alert(1)</script>", "all: http://h/"]);
    }
}
