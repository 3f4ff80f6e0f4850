//! Documents for terminals: aligned, within the width of the screen, readable without colour.
//!
//! Tables are laid out and lines broken in `layout.rs`.

mod layout;

use crate::document::{Block, Document, Fact};
use crate::format::Render;
pub(crate) use crate::format::text::layout::turns;
use crate::format::text::layout::{paint, wrap};
pub use crate::format::text::layout::{visible, visible_line};
use crate::table::{Emphasis, Table, mark};
use std::io::{self, Write};

/// Running text is not wider than this, however wide the screen: long lines are hard to follow.
const READING_WIDTH: usize = 100;

/// Plain text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text {
    /// Columns of the screen; `None` lays tables out as wide as they are.
    pub width: Option<usize>,
    /// Whether to colour with ANSI escape sequences.
    pub color: bool,
    /// Whether to leave out reference matter.
    pub brief: bool,
}

impl Render for Text {
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        self.blocks(&document.blocks, 0, &mut text);
        out.write_all(format!("{}\n", text.trim_matches('\n')).as_bytes())
    }
}

impl Text {
    fn blocks(&self, blocks: &[Block], indent: usize, out: &mut String) {
        let mut previous: Option<&Block> = None;
        for block in blocks {
            if !self.shows(block) {
                continue;
            }
            if !previous.is_some_and(|previous| belong_together(previous, block)) {
                out.push('\n');
            }
            self.block(block, indent, out);
            previous = Some(block);
        }
    }

    fn shows(&self, block: &Block) -> bool {
        match block {
            Block::Chart(_) | Block::Gallery(_) | Block::Shortened { .. } => false,
            Block::Appendix { instead, .. } => !self.brief || instead.is_some(),
            _ => true,
        }
    }

    fn block(&self, block: &Block, indent: usize, out: &mut String) {
        match block {
            Block::Heading { level, text } => self.heading(*level, text, out),
            Block::Headline(text) => self.sentences("", text, indent, Emphasis::Strong, out),
            Block::Paragraph(text) => self.sentences("", text, indent, Emphasis::None, out),
            Block::Note(text) => self.sentences("", text, indent, Emphasis::Muted, out),
            Block::Warning(text) => self.sentences("! ", text, indent, Emphasis::Caution, out),
            Block::List(items) => {
                for item in items {
                    self.sentences("- ", item, indent + 2, Emphasis::None, out);
                }
            }
            Block::Table(table) => self.table(table, indent, out),
            Block::Facts(facts) => self.facts(facts, indent, out),
            Block::Verbatim { label, text } => self.verbatim(label, text, indent, out),
            Block::Command { label, line } => {
                let line = visible(line);
                out.push_str(&format!("{}{label}: {line}\n", " ".repeat(indent)));
            }
            Block::Appendix {
                instead: Some(words),
                ..
            } if self.brief => self.sentences("", words, indent, Emphasis::None, out),
            Block::Aside {
                summary: title,
                blocks,
                ..
            }
            | Block::Appendix { title, blocks, .. } => {
                self.sentences("", title, indent, Emphasis::Strong, out);
                let mut inside = String::new();
                self.blocks(blocks, indent + 2, &mut inside);
                out.push_str(inside.trim_start_matches('\n'));
            }
            Block::Chart(_) | Block::Gallery(_) | Block::Shortened { .. } => {}
        }
    }

    fn heading(&self, level: u8, text: &str, out: &mut String) {
        let rule = if level == 1 { "═" } else { "─" };
        let width = layout::width(text).min(self.reading_width());
        out.push_str(&format!("{}\n", paint(text, Emphasis::Strong, self.color)));
        out.push_str(&format!("{}\n", rule.repeat(width)));
    }

    fn sentences(
        &self,
        lead: &str,
        text: &str,
        indent: usize,
        emphasis: Emphasis,
        out: &mut String,
    ) {
        let lead_width = layout::width(lead);
        let room = self.reading_width().saturating_sub(indent + lead_width);
        let margin = " ".repeat(indent);
        for (at, line) in wrap(text, room).iter().enumerate() {
            let lead = if at == 0 {
                lead.to_owned()
            } else {
                " ".repeat(lead_width)
            };
            let line = paint(&format!("{lead}{line}"), emphasis, self.color);
            out.push_str(format!("{margin}{line}").trim_end());
            out.push('\n');
        }
    }

    fn table(&self, table: &Table, indent: usize, out: &mut String) {
        for caption in &table.caption {
            self.sentences("", caption, indent, Emphasis::None, out);
        }
        if !table.caption.is_empty() {
            out.push('\n');
        }
        let mut lines = String::new();
        layout::table(
            table,
            self.width.map(|room| room.saturating_sub(indent)),
            self.color,
            &mut lines,
        );
        for line in lines.lines() {
            out.push_str(&format!("{}{line}\n", " ".repeat(indent)));
        }
        for (at, footnote) in table.footnotes.iter().enumerate() {
            let lead = format!("{} ", mark(at + 1));
            self.sentences(&lead, footnote, indent, Emphasis::Muted, out);
        }
    }

    /// Names on the left, and what they are beside them.
    fn facts(&self, facts: &[Fact], indent: usize, out: &mut String) {
        let widest = facts.iter().map(|(name, _)| layout::width(name)).max();
        let widest = widest.unwrap_or(0);
        for (name, value) in facts {
            let free = " ".repeat(widest + 2 - layout::width(name));
            self.sentences(&format!("{name}{free}"), value, indent, Emphasis::None, out);
        }
    }

    fn verbatim(&self, label: &str, text: &str, indent: usize, out: &mut String) {
        let margin = " ".repeat(indent);
        if text.trim().is_empty() {
            out.push_str(&format!("{margin}(nothing on {label})\n"));
            return;
        }
        let room = self.reading_width().min(72).saturating_sub(indent);
        let title = format!("── {label} ");
        let rest = room.saturating_sub(layout::width(&title));
        out.push_str(&format!("{margin}{title}{}\n", "─".repeat(rest)));
        for line in text.trim_end().lines() {
            out.push_str(&format!("{margin}{}\n", visible(line)));
        }
        out.push_str(&format!("{margin}{}\n", "─".repeat(room)));
    }

    fn reading_width(&self) -> usize {
        self.width.unwrap_or(READING_WIDTH).clamp(20, READING_WIDTH)
    }
}

/// Whether no empty line stands between two blocks.
fn belong_together(first: &Block, second: &Block) -> bool {
    use Block::{Command, Heading, Headline, List, Note, Paragraph, Verbatim, Warning};
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
    fn other_programs_do_not_steer_the_terminal() {
        let text = "\x1b]0;title\x07boom\tat 1\n".to_owned();
        let block = Block::Verbatim {
            label: "stderr".into(),
            text,
        };
        let document = Document {
            blocks: vec![block],
            ..Document::new("t")
        };
        let mut out = Vec::new();
        Text::default().render(&document, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("\n\\x1b]0;title\\x07boom\tat 1\n"),
            "{text:?}"
        );
    }
}
