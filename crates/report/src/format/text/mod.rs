//! Writes documents as text for terminals: aligned, within the screen width, and readable without
//! color.

mod table_page;

use crate::document::{Document, Fact, RenderDocument, ReportBlock};
use crate::format::text::table_page::write_table;
use crate::table::{ReportTable, TextEmphasis, superscript_number};
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
        for line in &document.gate_lines {
            page.write_sentences("", line, TextEmphasis::Strong);
        }
        page.write_blocks(document.answer_first());
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
    fn write_blocks<'b>(&mut self, blocks: impl IntoIterator<Item = &'b ReportBlock>) {
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
            ReportBlock::Chart(_)
            | ReportBlock::Gallery(_)
            | ReportBlock::KeyFigures(_)
            | ReportBlock::Shortened { .. } => false,
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
            ReportBlock::Chart(_)
            | ReportBlock::Gallery(_)
            | ReportBlock::KeyFigures(_)
            | ReportBlock::Shortened { .. } => {}
        }
    }

    fn write_line(&mut self, line: &str) {
        let margin = " ".repeat(self.indent);
        self.out.push_str(&format!("{margin}{line}\n"));
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
        lines.lines().for_each(|line| self.write_line(line));
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

/// Splits a line into words. An interval (`[+6.9, +9.6]`) is a single word.
fn split_words(line: &str) -> Vec<String> {
    /// Maximum length of an interval. A bracket starts an interval only if the closing bracket
    /// follows within this length.
    const MAX_FIGURE_LENGTH: usize = 24;
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let is_open = |last: &&mut String| {
            last.len() < MAX_FIGURE_LENGTH && last.starts_with('[') && !last.contains(']')
        };
        match words.last_mut().filter(is_open) {
            Some(last) => last.push_str(&format!(" {word}")),
            None => words.push(word.to_owned()),
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

    #[test]
    fn lines_break_at_spaces_and_long_words_stay_whole() {
        assert_eq!(wrap_text("is it faster", 5), ["is it", "faster"]);
        assert_eq!(wrap_text("a bb\nc", 80), ["a bb", "c"]);
        assert_eq!(wrap_text("", 10), Vec::<String>::new());
    }

    #[test]
    fn figures_are_not_torn_apart() {
        assert_eq!(wrap_text("change: +8% [+7, +9].", 14), ["change: +8%", "[+7, +9]."]);
        assert_eq!(wrap_text("within 2% in", 8), ["within", "2% in"]);
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
}
