//! Writes documents as text for terminals: aligned, within the screen width, and readable without
//! color.

mod line;
mod table_page;

pub use line::{escape_controls, escape_line, is_bidi_control};

use crate::document::{Document, Fact, RenderDocument, ReportBlock};
use crate::format::text::line::{display_width, paint_text, wrap_text};
use crate::format::text::table_page::write_table;
use crate::table::{ReportTable, TextEmphasis, superscript_number};
use std::io::{self, Write};

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
}
