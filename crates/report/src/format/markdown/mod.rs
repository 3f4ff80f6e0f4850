//! Documents in GitHub's Markdown, for pull requests and notes: the answer first, then what may spoil it,
//! then the figures; everything that is looked up rather than read is folded away.
//!
//! Tables are written in `table.rs`, and what is markup in a name in `escape.rs`.

mod escape;
mod table;

use super::Render;
use crate::document::{Block, Document, Fact};
use escape::{escape, fenced};
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
            room: ROWS,
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
    room: usize,
    out: String,
}

impl Page<'_> {
    fn blocks(&mut self, blocks: &[&Block]) {
        let mut rest = blocks;
        while let Some((first, others)) = rest.split_first() {
            let before = self.out.len();
            let alike =
                |block: &&&Block| std::mem::discriminant(**block) == std::mem::discriminant(*first);
            let together = 1 + others.iter().take_while(alike).count();
            let mut taken = together;
            match first {
                Block::Note(_) => self.notes(&rest[..together]),
                Block::Warning(_) => self.warnings(&rest[..together]),
                block => {
                    self.one(block);
                    taken = 1;
                }
            }
            rest = &rest[taken..];
            if self.out.len() > before {
                self.out.insert(before, '\n');
            }
        }
    }

    fn one(&mut self, block: &Block) {
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
                let taken = table::table(table, self.room, &mut self.out);
                self.room = self.room.saturating_sub(taken);
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
}
