//! Writes documents as text for terminals: aligned, within the screen width, and readable without
//! color.

mod drawn;

use crate::document::{Document, Fact, ReportBlock};
use crate::format::RenderDocument;
use crate::format::text::drawn::{DRAWN_WIDTH, IntervalAxis, MIN_DRAWN_SCREEN};
use crate::table::{
    ColumnKind, ReportCell, ReportRow, ReportTable, RowName, TextEmphasis, superscript_number,
};
use std::borrow::Cow;
use std::io::{self, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Maximum width of running text on any screen: long lines are hard to follow.
const READING_WIDTH: usize = 100;

/// Plain text.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextFormat {
    /// Width of the screen in columns; `None` gives tables their natural width.
    pub width: Option<usize>,
    /// Whether to color with ANSI escape sequences.
    pub color: bool,
    /// Whether to omit appendices, which contain reference material.
    pub brief: bool,
}

impl RenderDocument for TextFormat {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let mut page = TextPage { format: *self, indent: 0, out: String::new() };
        page.write_blocks(&document.blocks);
        out.write_all(format!("{}\n", page.out.trim_matches('\n')).as_bytes())
    }
}

/// A text being written. Its lines start with `indent` spaces.
struct TextPage {
    format: TextFormat,
    indent: usize,
    out: String,
}

impl TextPage {
    fn write_blocks(&mut self, blocks: &[ReportBlock]) {
        let mut previous: Option<&ReportBlock> = None;
        for block in blocks {
            if !self.is_shown(block) {
                continue;
            }
            if !previous.is_some_and(|previous| belong_together(previous, block)) {
                self.out.push('\n');
            }
            self.write_block(block);
            previous = Some(block);
        }
    }

    fn is_shown(&self, block: &ReportBlock) -> bool {
        match block {
            ReportBlock::Chart(_) | ReportBlock::Gallery(_) | ReportBlock::Shortened { .. } => {
                false
            }
            ReportBlock::Appendix { instead, .. } => !self.format.brief || instead.is_some(),
            _ => true,
        }
    }

    fn write_block(&mut self, block: &ReportBlock) {
        match block {
            ReportBlock::Heading { level, text } => self.write_heading(*level, text),
            ReportBlock::Headline(text) => self.write_sentences("", text, TextEmphasis::Strong),
            ReportBlock::Paragraph(text) => self.write_sentences("", text, TextEmphasis::None),
            ReportBlock::Note(text) => self.write_sentences("", text, TextEmphasis::Muted),
            ReportBlock::Warning(text) => self.write_sentences("! ", text, TextEmphasis::Caution),
            ReportBlock::List(items) => {
                self.indent += 2;
                for item in items {
                    self.write_sentences("- ", item, TextEmphasis::None);
                }
                self.indent -= 2;
            }
            ReportBlock::Table(table) => self.write_table(table),
            ReportBlock::Facts(facts) => self.write_facts(facts),
            ReportBlock::Verbatim { label, text } => self.write_verbatim(label, text),
            ReportBlock::Command { label, line } => {
                self.write_line(&format!("{label}: {}", escape_controls(line)));
            }
            ReportBlock::Appendix { instead: Some(words), .. } if self.format.brief => {
                self.write_sentences("", words, TextEmphasis::None)
            }
            ReportBlock::Aside { summary: title, blocks, .. }
            | ReportBlock::Appendix { title, blocks, .. } => {
                self.write_sentences("", title, TextEmphasis::Strong);
                let start = self.out.len();
                self.indent += 2;
                self.write_blocks(blocks);
                self.indent -= 2;
                let inside = self.out.split_off(start);
                self.out.push_str(inside.trim_start_matches('\n'));
            }
            ReportBlock::Chart(_) | ReportBlock::Gallery(_) | ReportBlock::Shortened { .. } => {}
        }
    }

    fn write_line(&mut self, line: &str) {
        self.out.push_str(&" ".repeat(self.indent));
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn write_heading(&mut self, level: u8, text: &str) {
        let rule = if level == 1 { "═" } else { "─" };
        let width = display_width(text).min(self.reading_width());
        let title = paint_text(text, TextEmphasis::Strong, self.format.color);
        self.out.push_str(&format!("{title}\n{}\n", rule.repeat(width)));
    }

    fn write_sentences(&mut self, lead: &str, text: &str, emphasis: TextEmphasis) {
        let lead_width = display_width(lead);
        let width = self.reading_width().saturating_sub(self.indent + lead_width);
        let margin = " ".repeat(self.indent);
        for (index, line) in wrap_text(text, width).iter().enumerate() {
            let lead = if index == 0 { lead.to_owned() } else { " ".repeat(lead_width) };
            let line = paint_text(&format!("{lead}{line}"), emphasis, self.format.color);
            self.out.push_str(format!("{margin}{line}").trim_end());
            self.out.push('\n');
        }
    }

    fn write_table(&mut self, table: &ReportTable) {
        for caption in &table.caption {
            self.write_sentences("", caption, TextEmphasis::None);
        }
        if !table.caption.is_empty() {
            self.out.push('\n');
        }
        let mut lines = String::new();
        let room = self.format.width.map(|room| room.saturating_sub(self.indent));
        write_table(table, room, self.format.color, &mut lines);
        for line in lines.lines() {
            self.write_line(line);
        }
        for (index, footnote) in table.footnotes.iter().enumerate() {
            let lead = format!("{} ", superscript_number(index + 1));
            self.write_sentences(&lead, footnote, TextEmphasis::Muted);
        }
    }

    fn write_facts(&mut self, facts: &[Fact]) {
        let widest = facts.iter().map(|(name, _)| display_width(name)).max().unwrap_or(0);
        for (name, value) in facts {
            let padding = " ".repeat(widest + 2 - display_width(name));
            self.write_sentences(&format!("{name}{padding}"), value, TextEmphasis::None);
        }
    }

    fn write_verbatim(&mut self, label: &str, text: &str) {
        if text.trim().is_empty() {
            return self.write_line(&format!("(nothing on {label})"));
        }
        let room = self.reading_width().min(72).saturating_sub(self.indent);
        let title = format!("── {label} ");
        let rule_width = room.saturating_sub(display_width(&title));
        self.write_line(&format!("{title}{}", "─".repeat(rule_width)));
        for line in text.trim_end().lines() {
            self.write_line(&escape_controls(line));
        }
        self.write_line(&"─".repeat(room));
    }

    fn reading_width(&self) -> usize {
        self.format.width.unwrap_or(READING_WIDTH).clamp(20, READING_WIDTH)
    }
}

/// Whether two blocks have no empty line between them.
fn belong_together(first: &ReportBlock, second: &ReportBlock) -> bool {
    use ReportBlock::{Command, Heading, Headline, List, Note, Paragraph, Verbatim, Warning};
    matches!(
        (first, second),
        (Heading { .. }, Headline(_))
            | (Headline(_), Paragraph(_) | Headline(_))
            | (Note(_), Note(_))
            | (Warning(_), Warning(_))
            | (Paragraph(_), Verbatim { .. } | Command { .. } | List(_))
            | (Verbatim { .. }, Command { .. })
    )
}

// Fits a table to the screen width: chooses the columns to show and their widths, and writes the
// lines.
//
// Rows show their full names if every important column fits next to them, otherwise their short
// names. If even the required columns do not fit next to the short names, names and headings are
// cut, with a key below the table, and the last columns are omitted if that does not suffice.
// Expendable columns fill the remaining room, and a line below the table lists the omitted columns.
// A wide screen also shows the intervals as drawings. Control characters are escaped, because text that others wrote must not
// control the terminal.

/// Spaces between columns.
const COLUMN_GAP: usize = 2;
/// Columns with an `expendable` number up to this are important. If they do not fit next to full
/// names, rows show their short names.
const MAX_IMPORTANT_ORDER: u8 = 2;
/// Place of the drawings among the expendable columns.
const DRAWN_ORDER: u8 = 3;
/// Minimum width to which a name is shortened.
const MIN_NAME_WIDTH: usize = 8;
/// Width to which headings are shortened before names are: variants may have whole commands as names.
const LONG_HEADING_WIDTH: usize = 20;
/// Maximum number of names that the key of a table lists.
const MAX_KEYS: usize = 30;
/// Indent of rows below a heading.
const GROUP_INDENT: usize = 2;

/// A column's index in the table and its width on the screen.
type PlacedColumn = (usize, usize);

/// Appends `table` to `out`, at most `max_width` terminal columns wide if possible.
pub fn write_table(table: &ReportTable, max_width: Option<usize>, color: bool, out: &mut String) {
    let page = TablePage::fit_columns(table, max_width.unwrap_or(usize::MAX), color);
    if page.layout.is_empty() {
        return;
    }
    page.write_header(out);
    let mut indent = 0;
    let mut keys = page.cut_headings();
    for row in &table.rows {
        match row {
            ReportRow::Group(name) => indent = page.write_group(name, out),
            ReportRow::Cells(cells) => {
                keys.extend(page.cut_name(cells, indent));
                page.write_cells(cells, indent, out);
            }
            ReportRow::Remark(text) => page.write_remark(text, indent + GROUP_INDENT, out),
        }
    }
    page.write_omitted(out);
    page.write_keys(&keys, out);
}

/// A shortened name and the whole name.
type NameKey = (String, String);

struct TablePage<'a> {
    table: &'a ReportTable,
    max_width: usize,
    /// Indexes of the columns that people see. Other columns are only in machine-readable output.
    people: Vec<usize>,
    layout: Vec<PlacedColumn>,
    /// The axis of the drawings, on a screen wide enough for them.
    axis: Option<IntervalAxis>,
    short: bool,
    color: bool,
}

impl<'a> TablePage<'a> {
    fn fit_columns(table: &'a ReportTable, max_width: usize, color: bool) -> TablePage<'a> {
        let mut people = table.for_people();
        let mut axis = None;
        if (MIN_DRAWN_SCREEN..usize::MAX).contains(&max_width) {
            let is_drawn = |index: &usize| table.columns[*index].kind == ColumnKind::Drawn;
            let drawn = (0..table.columns.len()).find(is_drawn);
            axis = drawn.and_then(|column| IntervalAxis::of_column(table, column));
            if axis.is_some() {
                people = table.for_pages();
            }
        }
        let mut page =
            TablePage { table, max_width, people, layout: Vec::new(), axis, short: false, color };
        page.layout = page.columns_up_to(MAX_IMPORTANT_ORDER);
        page.short = page.total_width() > max_width;
        page.layout = page.columns_up_to(0);
        if page.shrink_to_fit() {
            page.add_expendable();
        }
        page
    }

    /// Shortens long headings, then names, then all headings until the required columns fit. If
    /// that does not suffice, removes the last columns, and returns `false`.
    fn shrink_to_fit(&mut self) -> bool {
        for (names, least) in
            [(false, LONG_HEADING_WIDTH), (true, MIN_NAME_WIDTH), (false, MIN_NAME_WIDTH)]
        {
            for position in 0..self.layout.len() {
                let excess = self.total_width().saturating_sub(self.max_width);
                let (index, width) = self.layout[position];
                if excess > 0 && is_name(self.table, index) == names {
                    let cells = if names { 0 } else { self.widest_cell(index) };
                    let least = least.max(cells).min(width);
                    self.layout[position].1 = width.saturating_sub(excess).max(least);
                }
            }
        }
        let required = self.layout.len();
        while self.layout.len() > 2 && self.total_width() > self.max_width {
            let is_facet = |(index, _): &PlacedColumn| self.table.columns[*index].facet;
            let last = self.layout.iter().skip(1).rposition(|column| !is_facet(column));
            self.layout.remove(last.map_or(self.layout.len() - 1, |position| position + 1));
        }
        self.layout.len() == required
    }

    /// Returns the columns whose `expendable` number is at most the given one, with their natural
    /// widths. Columns with the number 0 are required.
    fn columns_up_to(&self, expendable: u8) -> Vec<PlacedColumn> {
        let shown = self.people.iter().copied();
        let included = shown.filter(|&index| self.order_of(index) <= expendable);
        included.map(|index| (index, self.natural_width(index))).collect()
    }

    fn order_of(&self, index: usize) -> u8 {
        let column = &self.table.columns[index];
        if column.kind == ColumnKind::Drawn { DRAWN_ORDER } else { column.expendable }
    }

    /// Adds each expendable column that still fits, most important column first.
    fn add_expendable(&mut self) {
        let mut others = self.people.clone();
        others.retain(|&index| self.order_of(index) > 0);
        others.sort_by_key(|&index| self.order_of(index));
        for index in others {
            let width = self.natural_width(index);
            if self.total_width() + COLUMN_GAP + width <= self.max_width {
                let position = self.layout.partition_point(|&(other, _)| other < index);
                self.layout.insert(position, (index, width));
            }
        }
    }

    /// Returns the width of a column if nothing is shortened.
    fn natural_width(&self, index: usize) -> usize {
        display_width(&self.table.columns[index].header).max(self.widest_cell(index))
    }

    fn widest_cell(&self, index: usize) -> usize {
        if self.table.columns[index].kind == ColumnKind::Drawn {
            return DRAWN_WIDTH;
        }
        let mut widest = 0;
        let mut indent = 0;
        for row in &self.table.rows {
            match row {
                ReportRow::Group(name) => {
                    indent = if self.shown_name(name).is_empty() { 0 } else { GROUP_INDENT }
                }
                ReportRow::Cells(cells) => {
                    let indent = if self.people.first() == Some(&index) { indent } else { 0 };
                    widest = widest.max(indent + display_width(&self.shown_text(&cells[index])));
                }
                ReportRow::Remark(_) => {}
            }
        }
        widest
    }

    /// Returns a name on a single line, whatever the name contains.
    fn shown_name<'n>(&self, name: &'n RowName) -> Cow<'n, str> {
        escape_line(if self.short { &name.short } else { &name.full })
    }

    fn shown_text<'c>(&self, cell: &'c ReportCell) -> Cow<'c, str> {
        escape_line(cell.short().filter(|_| self.short).unwrap_or(&cell.text))
    }

    fn total_width(&self) -> usize {
        let gaps = self.layout.len().saturating_sub(1) * COLUMN_GAP;
        self.layout.iter().map(|(_, width)| width).sum::<usize>() + gaps
    }

    fn write_header(&self, out: &mut String) {
        let header = |&(index, width): &PlacedColumn| {
            let column = &self.table.columns[index];
            let text = shorten_text(&column.header, width);
            let padding = " ".repeat(width.saturating_sub(display_width(&text)));
            if column.kind == ColumnKind::Figure { padding + &text } else { text + &padding }
        };
        let headers: Vec<String> = self.layout.iter().map(header).collect();
        let line = headers.join(&" ".repeat(COLUMN_GAP));
        if line.trim().is_empty() {
            return;
        }
        self.write_line(line.trim_end(), TextEmphasis::Strong, out);
        self.write_line(&"─".repeat(self.total_width()), TextEmphasis::Muted, out);
    }

    /// Writes a heading. Returns the indent of the rows below it.
    fn write_group(&self, name: &RowName, out: &mut String) -> usize {
        let name = self.shown_name(name);
        if name.is_empty() {
            return 0;
        }
        self.write_line(&shorten_text(&name, self.max_width), TextEmphasis::Strong, out);
        GROUP_INDENT
    }

    fn write_cells(&self, cells: &[ReportCell], indent: usize, out: &mut String) {
        let mut line = String::new();
        let mut pending_spaces = 0;
        for (position, &(index, width)) in self.layout.iter().enumerate() {
            let indent = if position == 0 { indent } else { 0 };
            let mut text = match (&self.axis, cells[index].drawn()) {
                (Some(axis), Some(interval)) => axis.draw_interval(interval),
                _ => self.shown_text(&cells[index]).into_owned(),
            };
            if is_name(self.table, index) {
                text = shorten_text(&text, width.saturating_sub(indent));
            }
            let text = " ".repeat(indent) + &text;
            let padding = width.saturating_sub(display_width(&text));
            let is_right_aligned = self.table.columns[index].kind == ColumnKind::Figure;
            let (before, after) = if is_right_aligned { (padding, 0) } else { (0, padding) };
            line.push_str(&" ".repeat(pending_spaces + before));
            line.push_str(&paint_text(&text, cells[index].emphasis, self.color));
            pending_spaces = after + COLUMN_GAP;
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }

    fn write_remark(&self, text: &str, margin: usize, out: &mut String) {
        let width = self.max_width.min(self.total_width().max(80));
        for line in wrap_text(text, width.saturating_sub(margin)) {
            out.push_str(&" ".repeat(margin));
            self.write_line(&line, TextEmphasis::Muted, out);
        }
    }

    /// Returns the headings that do not fit.
    fn cut_headings(&self) -> Vec<NameKey> {
        let heading =
            |&(index, width): &PlacedColumn| cut_key(&self.table.columns[index].header, width);
        self.layout.iter().filter_map(heading).collect()
    }

    /// Returns the name of a row if it does not fit.
    fn cut_name(&self, cells: &[ReportCell], indent: usize) -> Option<NameKey> {
        let &(index, width) =
            self.layout.first().filter(|(index, _)| is_name(self.table, *index))?;
        cut_key(&self.shown_text(&cells[index]), width.saturating_sub(indent))
    }

    /// Writes the whole names of those that were cut, unless they are too many.
    fn write_keys(&self, keys: &[NameKey], out: &mut String) {
        for (position, (cut, name)) in keys.iter().enumerate() {
            if keys.len() <= MAX_KEYS && !keys[..position].contains(&keys[position]) {
                for line in wrap_text(&format!("{cut}: {name}"), self.max_width) {
                    self.write_line(&line, TextEmphasis::Muted, out);
                }
            }
        }
    }

    fn write_omitted(&self, out: &mut String) {
        let is_named = |index: &usize| {
            let is_shown = self.layout.iter().any(|(shown, _)| shown == index);
            !is_shown && self.table.columns[*index].kind != ColumnKind::Drawn
        };
        let missing = self.people.iter().copied().filter(is_named);
        let names: Vec<_> =
            missing.map(|index| self.table.columns[index].header.as_str()).collect();
        if !names.is_empty() {
            for line in wrap_text(&format!("(no room for: {})", names.join(", ")), self.max_width) {
                self.write_line(&line, TextEmphasis::Muted, out);
            }
        }
    }

    fn write_line(&self, text: &str, emphasis: TextEmphasis, out: &mut String) {
        out.push_str(&paint_text(text, emphasis, self.color));
        out.push('\n');
    }
}

/// Returns a name with its shortened form, if it must be shortened to `width` columns.
fn cut_key(name: &str, width: usize) -> Option<NameKey> {
    (display_width(name) > width).then(|| (shorten_text(name, width), name.to_owned()))
}

fn is_name(table: &ReportTable, index: usize) -> bool {
    table.columns[index].kind == ColumnKind::Label
}

/// Returns the display width of `text` in terminal columns.
pub fn display_width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Wraps `text` at spaces into lines of at most `max_width` columns. A longer word gets its own
/// line, unbroken: ids and paths must stay copyable. Line breaks in the text are kept.
pub fn wrap_text(text: &str, max_width: usize) -> Vec<String> {
    text.lines().flat_map(|line| wrap_line(line, max_width)).collect()
}

fn wrap_line(line: &str, max_width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in split_words(line) {
        let last = lines.len() - 1;
        let used = display_width(&lines[last]);
        if used > 0 && used + 1 + display_width(&word) > max_width {
            lines.push(word);
        } else {
            if used > 0 {
                lines[last].push(' ');
            }
            lines[last].push_str(&word);
        }
    }
    lines
}

/// Splits a line into words. A percentage (`2 %`) or an interval (`[+6.9, +9.6]`) is a single word.
fn split_words(line: &str) -> Vec<String> {
    /// Maximum length of an interval. A bracket starts an interval only if the closing bracket
    /// follows within this length.
    const MAX_FIGURE_LENGTH: usize = 24;
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match words.last_mut() {
            Some(last)
                if last.len() < MAX_FIGURE_LENGTH
                    && (last.starts_with('[') && !last.contains(']') || word.starts_with('%')) =>
            {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Shortens `text` to `max_width` columns with an ellipsis. Keeps more of the end than of the
/// start, because names in neighboring rows usually differ at the end.
fn shorten_text(text: &str, max_width: usize) -> String {
    if display_width(text) <= max_width {
        return text.to_owned();
    }
    let remaining = max_width.saturating_sub(1);
    let front = remaining * 2 / 5;
    let head = take_columns(text.chars(), front);
    let tail: String =
        take_columns(text.chars().rev(), remaining - display_width(&head)).chars().rev().collect();
    format!("{head}…{tail}")
}

/// Returns the longest prefix of `characters` that fits into `max_width` columns.
fn take_columns(characters: impl Iterator<Item = char>, max_width: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|character| {
            used += UnicodeWidthChar::width(*character).unwrap_or(0);
            used <= max_width
        })
        .collect()
}

/// Escapes the control characters in `text`. If `color` is set, also colors the text by `emphasis`.
fn paint_text(text: &str, emphasis: TextEmphasis, color: bool) -> String {
    let code = match emphasis {
        TextEmphasis::None => "",
        TextEmphasis::Strong => "1",
        TextEmphasis::Good => "32",
        TextEmphasis::Bad => "31",
        TextEmphasis::Caution => "33",
        TextEmphasis::Muted => "2",
    };
    let text = escape_controls(text);
    if !color || code.is_empty() || text.trim().is_empty() {
        return text.into_owned();
    }
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Replaces control characters with visible escapes such as `\x1b`, except line feed and tab. Also
/// replaces bidirectional controls with escapes such as `\u{202e}` (ECMA-48; Unicode Standard Annex
/// 9, section 2).
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    escape_where(text, is_control)
}

/// Does the same as [`escape_controls`], and also escapes line feeds: a name takes one line.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_where(text, |character| is_control(character) || character == '\n')
}

fn escape_where(text: &str, is_escaped: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            _ if !is_escaped(character) => escaped.push(character),
            '\0'..='\u{ff}' => escaped.push_str(&format!("\\x{:02x}", u32::from(character))),
            _ => escaped.push_str(&character.escape_unicode().to_string()),
        }
    }
    Cow::Owned(escaped)
}

fn is_control(character: char) -> bool {
    is_bidi_control(character) || character.is_control() && character != '\n' && character != '\t'
}

/// Whether a character changes the direction of text, or is a line break that only some programs
/// know.
pub fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ReportColumn;

    #[test]
    fn output_of_other_programs_is_shown_with_control_characters_escaped() {
        let text = "\x1b]0;title\x07boom\tat 1\n".to_owned();
        let block = ReportBlock::Verbatim { label: "stderr".into(), text };
        let document = Document { blocks: vec![block], ..Document::new("t") };
        let mut out = Vec::new();
        TextFormat::default().render(&document, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\n\\x1b]0;title\\x07boom\tat 1\n"), "{text:?}");
    }

    fn sample() -> ReportTable {
        let columns = vec![
            ReportColumn::new("case", "", ColumnKind::Label),
            ReportColumn::new("old", "old", ColumnKind::Figure),
            ReportColumn::new("p", "p", ColumnKind::Figure).expendable(3),
            ReportColumn::new("q", "q", ColumnKind::Figure).expendable(1),
            ReportColumn::new("verdict", "verdict", ColumnKind::Words),
        ];
        let row = |full: &str, short: &str| {
            let name = RowName { full: full.into(), short: short.into() };
            ReportRow::Cells(vec![
                ReportCell::words(full).with_name(&name),
                ReportCell::words("1.23"),
                ReportCell::words("<0.001"),
                ReportCell::words("0.02"),
                ReportCell::words("▲ better"),
            ])
        };
        let heading =
            RowName { full: "decoder n=5".into(), short: "decoder n=5 (encoding, len)".into() };
        let rows = vec![
            ReportRow::Group(heading),
            row("encoding=base64-utf8 len=16", "base64-utf8 16"),
            ReportRow::Remark("mean +9 %".into()),
            ReportRow::Group(RowName::default()),
            row("compare", "compare"),
        ];
        ReportTable { columns, rows, ..ReportTable::new("t") }
    }

    fn lines(room: Option<usize>) -> Vec<String> {
        let mut out = String::new();
        write_table(&sample(), room, false, &mut out);
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_table_with_room_shows_everything_aligned() {
        assert_eq!(
            lines(None),
            [
                "                                old       p     q  verdict",
                "───────────────────────────────────────────────────────────",
                "decoder n=5",
                "  encoding=base64-utf8 len=16  1.23  <0.001  0.02  ▲ better",
                "    mean +9 %",
                "compare                        1.23  <0.001  0.02  ▲ better",
            ]
        );
    }

    #[test]
    fn names_stay_whole_if_only_unimportant_columns_have_to_go() {
        let narrow = lines(Some(55));
        assert_eq!(narrow[3], "  encoding=base64-utf8 len=16  1.23  0.02  ▲ better");
        assert_eq!(narrow[6], "(no room for: p)");
    }

    #[test]
    fn shortened_names_are_explained_by_a_longer_heading() {
        let narrow = lines(Some(45));
        assert_eq!(narrow[2], "decoder n=5 (encoding, len)");
        assert_eq!(narrow[3], "  base64-utf8 16  1.23  0.02  ▲ better");
        let narrower = lines(Some(26));
        assert_eq!(narrower[3], "  ba…f8 16  1.23  ▲ better");
        assert_eq!(narrower.last().unwrap(), "ba…f8 16: base64-utf8 16");
        for width in 20..60 {
            let fits = |line: &String| display_width(line) <= width;
            assert!(lines(Some(width)).iter().all(fits), "{width}");
        }
    }

    #[test]
    fn a_wide_screen_shows_intervals_and_a_narrow_one_cuts_headings_with_a_key() {
        let row = |estimate: f64, low: f64, high: f64| {
            let drawn = speedwell_plot::ForestRow {
                label: String::new(),
                estimate,
                low,
                high,
                mark: speedwell_plot::VerdictMark::Better,
            };
            ReportRow::Cells(vec![
                ReportCell::words("a"),
                ReportCell::words("1.23"),
                ReportCell::drawing(Some(drawn)),
            ])
        };
        let columns = vec![
            ReportColumn::label("case", "case"),
            ReportColumn::figure("old", "python3 scripts/with-a-long-name.py --fast"),
            ReportColumn::new("drawn", "change in %", ColumnKind::Drawn).for_people(),
        ];
        let rows = vec![row(-10.0, -20.0, -5.0), row(10.0, f64::NEG_INFINITY, 20.0)];
        let table = ReportTable { columns, rows, ..ReportTable::new("t") };
        let drawn = |width| {
            let mut out = String::new();
            write_table(&table, width, false, &mut out);
            out.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let wide = drawn(Some(100));
        assert!(wide[2].ends_with("1.23  ─────●─── │"), "{}", wide[2]);
        assert!(wide[3].ends_with("1.23  ──────────┼────●─────"), "{}", wide[3]);
        let narrow = drawn(Some(30));
        assert_eq!(narrow[0], "case  python3 s…name.py --fast");
        assert!(!drawn(None).concat().contains('●'));
    }

    #[test]
    fn colours_do_not_change_the_layout() {
        let (mut plain, mut painted) = (String::new(), String::new());
        write_table(&sample(), Some(60), false, &mut plain);
        write_table(&sample(), Some(60), true, &mut painted);
        let bare =
            regex::Regex::new("\x1b\\[[0-9]*m").unwrap().replace_all(&painted, "").into_owned();
        assert!(painted.len() > plain.len());
        assert_eq!(bare, plain);
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_stay_whole() {
        assert_eq!(wrap_text("is it faster", 5), ["is it", "faster"]);
        assert_eq!(wrap_text("a bb\nc", 80), ["a bb", "c"]);
        assert_eq!(wrap_text("", 10), Vec::<String>::new());
    }

    #[test]
    fn figures_are_not_torn_apart() {
        assert_eq!(wrap_text("change: +8 % [+7, +9].", 14), ["change: +8 %", "[+7, +9]."]);
        assert_eq!(wrap_text("within 2 % in", 8), ["within", "2 % in"]);
    }

    #[test]
    fn long_text_is_shortened_in_the_middle() {
        assert_eq!(shorten_text("string-decoder.js len=16", 15), "strin…js len=16");
        assert_eq!(shorten_text("short", 5), "short");
        assert_eq!(display_width(&shorten_text("日本語のベンチマーク", 9)), 9);
        assert_eq!(shorten_text("abc", 1), "…");
    }

    #[test]
    fn nothing_is_painted_unless_asked() {
        assert_eq!(paint_text("x", TextEmphasis::Bad, false), "x");
        assert_eq!(paint_text("x", TextEmphasis::Bad, true), "\x1b[31mx\x1b[0m");
        assert_eq!(paint_text("  ", TextEmphasis::Bad, true), "  ");
    }

    #[test]
    fn control_characters_are_escaped_and_other_text_is_unchanged() {
        for (text, shown) in [
            ("old né ▲\n\tx", "old né ▲\n\tx"),
            ("\u{1b}[2J\0\u{7}\r", "\\x1b[2J\\x00\\x07\\x0d"),
            ("\u{9b}31m\u{7f}", "\\x9b31m\\x7f"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
        ] {
            assert_eq!(escape_controls(text), shown);
        }
        assert_eq!(escape_line("a\nb\tc\u{202e}"), "a\\x0ab\tc\\u{202e}");
    }

    #[test]
    fn a_name_with_a_line_feed_is_escaped_and_aligned_by_its_shown_width() {
        let columns = vec![
            ReportColumn::new("c", "case", ColumnKind::Label),
            ReportColumn::new("x", "x", ColumnKind::Figure),
        ];
        let rows = ["a\n\u{1b}b", "abcdefghij"]
            .map(|name| ReportRow::Cells(vec![ReportCell::words(name), ReportCell::words("1")]));
        let named = ReportTable { columns, rows: rows.to_vec(), ..ReportTable::new("t") };
        let mut out = String::new();
        write_table(&named, None, false, &mut out);
        let lines: Vec<&str> = out.lines().skip(2).collect();
        assert_eq!(lines, ["a\\x0a\\x1bb  1", "abcdefghij  1"]);
    }
}
