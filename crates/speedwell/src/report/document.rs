//! What a report says, independent of how it is written down.
//!
//! Reports build documents, formats render them, so that reports and formats add up instead of
//! multiplying. This file knows no format: no escape sequence, no markup, no width. Start with
//! [`Document`] and [`Block`]; tables are in `table.rs`.

use super::table::Table;
use serde_json::Value;

/// A report, ready to be rendered.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// Which report it is, one word: `comparison`, `summary`, `study`, `sessions` ...
    pub report: &'static str,
    /// Its parts, in reading order.
    pub blocks: Vec<Block>,
    /// Figures for machines that have no place in a table, by name.
    pub data: Vec<(&'static str, Value)>,
}

/// One part of a document.
#[derive(Debug, Clone)]
pub enum Block {
    /// The title of what follows; level 1 is the highest.
    Heading {
        /// 1 to 3.
        level: u8,
        /// Its words.
        text: String,
    },
    /// The answer in one sentence. A reader who stops here knows the result.
    Headline(String),
    /// Running text.
    Paragraph(String),
    /// Figures.
    Table(Table),
    /// A picture, for formats that can show one.
    Chart(Box<Chart>),
    /// An explanation of the figures above: one that an expert may skip.
    Note(String),
    /// Something that may spoil the figures.
    Warning(String),
    /// Sentences that stand side by side.
    List(Vec<String>),
    /// What another program wrote, unchanged.
    Verbatim {
        /// What it is.
        label: String,
        /// The text; empty is said explicitly.
        text: String,
    },
    /// A line to paste into a shell, never wrapped.
    Command {
        /// What the line does.
        label: String,
        /// The line.
        line: String,
    },
    /// Details that a format may fold away.
    Aside {
        /// One line that tells what is inside.
        summary: String,
        /// The details.
        blocks: Vec<Block>,
    },
}

/// A chart with the words that stand in for it where it cannot be shown.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What it shows, for captions and for readers who do not see it.
    pub title: String,
    /// The picture as data.
    pub picture: speedwell_plot::Chart,
}

/// How a piece of text is to stand out. No meaning rests on it alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Emphasis {
    /// Ordinary text.
    #[default]
    None,
    /// Important.
    Strong,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// Not known yet, or to be taken with care.
    Caution,
    /// Less important.
    Muted,
}

impl Document {
    /// An empty report of that kind.
    pub fn new(report: &'static str) -> Document {
        Document {
            report,
            ..Document::default()
        }
    }

    /// Adds a block at the end.
    pub fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Adds everything in `other`, which gives up its own kind.
    pub fn append(&mut self, other: Document) {
        self.blocks.extend(other.blocks);
        self.data.extend(other.data);
    }

    /// Adds figures for machines.
    pub fn attach(&mut self, name: &'static str, value: Value) {
        self.data.push((name, value));
    }

    /// Every block, those inside asides after the aside itself.
    pub fn walk(&self) -> Vec<&Block> {
        let mut all = Vec::new();
        collect(&self.blocks, &mut all);
        all
    }

    /// Every table, in reading order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.walk().into_iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
    }

    /// Every chart, in reading order.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.walk().into_iter().filter_map(|block| match block {
            Block::Chart(chart) => Some(&**chart),
            _ => None,
        })
    }
}

fn collect<'a>(blocks: &'a [Block], all: &mut Vec<&'a Block>) {
    for block in blocks {
        all.push(block);
        if let Block::Aside { blocks, .. } = block {
            collect(blocks, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_inside_asides_are_found_too() {
        let mut document = Document::new("summary");
        document.push(Block::Table(Table::new("first")));
        document.push(Block::Aside {
            summary: "more".into(),
            blocks: vec![Block::Table(Table::new("second"))],
        });
        let names: Vec<_> = document.tables().map(|table| table.name).collect();
        assert_eq!(names, ["first", "second"]);
    }
}
