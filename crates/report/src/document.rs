//! Defines the content of a report, independent of its format.
//!
//! Reports build documents and formats render them, so a new format needs no change to reports.
//! This file therefore contains no escape sequence, no markup and no width. Start with [`Document`]
//! and [`ReportBlock`]; tables are in `table.rs`.

use crate::table::{ReportTable, TextEmphasis};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Write};

/// A report, ready to be rendered.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// The kind of report in one word: `comparison`, `summary`, `study`, `sessions` ...
    pub report: &'static str,
    /// The parts, in reading order.
    pub blocks: Vec<ReportBlock>,
    /// The results of gates, each in a line for people. They precede all blocks.
    pub gate_lines: Vec<String>,
    /// The sessions behind the results, each in a line at the top of a page.
    pub session_lines: Vec<SessionLine>,
    /// Named machine-readable values that belong to no table.
    pub data: Data,
}

/// Renders a document in one output format.
pub trait RenderDocument {
    /// Writes `document` to `out`.
    ///
    /// # Errors
    /// Fails if `out` fails.
    fn render(&self, document: &Document, out: &mut dyn Write) -> io::Result<()>;
}

/// A session in a few words. The texts may be empty.
#[derive(Debug, Clone, Default)]
pub struct SessionLine {
    /// The id of the session.
    pub id: String,
    /// The name that distinguishes the session from others, as in `@12`.
    pub name: LinkedText,
    /// The measured benchmark or command.
    pub measured: LinkedText,
    /// The measured revision, with its subject.
    pub revision: LinkedText,
    /// The branch.
    pub branch: LinkedText,
    /// The machine.
    pub machine: LinkedText,
    /// The start, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// The shell line that made the session.
    pub command: String,
}

/// Text with the address that it links to on a served page, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkedText {
    /// The text.
    pub text: String,
    /// The address.
    pub link: Option<String>,
}

impl LinkedText {
    /// Creates a text without a link.
    pub fn plain(text: impl Into<String>) -> LinkedText {
        LinkedText { text: text.into(), link: None }
    }
}

/// Machine-readable values by name.
type Data = Vec<(&'static str, Value)>;

/// One part of a document.
#[derive(Debug, Clone)]
pub enum ReportBlock {
    /// The title of the following blocks; level 1 is the highest.
    Heading {
        /// The level, 1 to 3.
        level: u8,
        /// The text of the title.
        text: String,
    },
    /// The answer in one sentence. A reader who stops here knows the result.
    Headline(String),
    /// Running text.
    Paragraph(String),
    /// A table.
    Table(ReportTable),
    /// Names with their values, for people. Programs get the same facts as data.
    Facts(Vec<Fact>),
    /// Names with the most important figures, for the top of a page. Other formats have the same
    /// figures in tables.
    KeyFigures(Vec<Fact>),
    /// A picture, for formats that can show one.
    Chart(Box<ReportChart>),
    /// Individual cases, for formats that can hold thousands of pictures.
    Gallery(CaseGallery),
    /// An explanation of the results above, which experts may skip.
    Note(String),
    /// A threat to the validity of the results.
    Warning(String),
    /// Parallel sentences.
    List(Vec<String>),
    /// Output of another program, unchanged.
    Verbatim {
        /// A label for the text.
        label: String,
        /// The text. If it is empty, the report says so.
        text: String,
    },
    /// A shell line to copy, never wrapped.
    Command {
        /// A description of the line.
        label: String,
        /// The line.
        line: String,
    },
    /// Details that a format may collapse.
    Aside {
        /// One line about the contents.
        summary: String,
        /// Whether the details start expanded, because they must not be overlooked.
        open: bool,
        /// The details.
        blocks: Vec<ReportBlock>,
    },
    /// Reference material, to look up rather than read. Pages and Markdown collapse it. Terminals
    /// omit it unless everything is requested.
    Appendix {
        /// The title.
        title: String,
        /// Text to show if the appendix is omitted.
        instead: Option<String>,
        /// The contents.
        blocks: Vec<ReportBlock>,
    },
    /// A part that `-q` shortens on standard output. Files always contain the whole part.
    /// [`OutputOptions::add_detail`](crate::OutputOptions::add_detail) creates it;
    /// [`Document::shortened`] and [`Document::whole`] replace it before rendering.
    Shortened {
        /// Replacement on standard output.
        short: Vec<ReportBlock>,
        /// The part as files show it.
        whole: Box<Document>,
    },
}

impl ReportBlock {
    /// Creates an appendix without a replacement text: where it is omitted, nothing is shown.
    pub fn appendix(title: impl Into<String>, blocks: Vec<ReportBlock>) -> ReportBlock {
        ReportBlock::Appendix { title: title.into(), instead: None, blocks }
    }

    /// Whether this is an answer.
    pub fn is_headline(&self) -> bool {
        matches!(self, ReportBlock::Headline(_))
    }

    /// Returns the text of a headline, a paragraph, a note or a warning.
    pub fn sentence(&self) -> Option<&str> {
        match self {
            ReportBlock::Headline(text)
            | ReportBlock::Paragraph(text)
            | ReportBlock::Note(text)
            | ReportBlock::Warning(text) => Some(text),
            _ => None,
        }
    }
}

/// A name and its value.
pub type Fact = (String, String);

/// Creates a fact.
pub fn new_fact(name: &str, value: impl Into<String>) -> Fact {
    (name.to_owned(), value.into())
}

/// Creates the facts whose value is known.
pub fn known_facts<'n>(facts: impl IntoIterator<Item = (&'n str, Option<String>)>) -> Vec<Fact> {
    facts.into_iter().filter_map(|(name, value)| Some(new_fact(name, value?))).collect()
}

/// Individual cases.
#[derive(Debug, Clone)]
pub struct CaseGallery {
    /// The kind of contents.
    pub kind: GalleryKind,
    /// The cases.
    pub cases: Vec<CaseView>,
}

/// The contents of a gallery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GalleryKind {
    /// The runs of a session.
    Runs,
    /// The trends of series over revisions.
    Trends,
}

/// An individual case.
#[derive(Debug, Clone)]
pub struct CaseView {
    /// The case's id. Table rows refer to it.
    pub id: String,
    /// The findings about the case.
    pub answers: Vec<CaseAnswer>,
    /// The charts of the case's runs, one per metric, or of its trend.
    pub charts: Vec<ReportChart>,
}

/// A finding about one candidate or variant of a case.
#[derive(Debug, Clone)]
pub struct CaseAnswer {
    /// The subject of the finding, which is needed if there are several findings.
    pub about: String,
    /// The finding, such as `▲ better +8.2% [+6.9, +9.6]`.
    pub text: String,
    /// The emphasis of the finding.
    pub emphasis: TextEmphasis,
}

/// A chart. Where no chart can be shown, the title replaces it.
#[derive(Debug, Clone)]
pub struct ReportChart {
    /// A description, for captions and screen readers.
    pub title: String,
    /// The picture as data.
    pub picture: speedwell_plot::AnyChart,
    /// Whether the tables and the gallery of a page show the same data in more detail.
    pub shown_elsewhere: bool,
}

impl ReportChart {
    /// Creates a chart whose contents are shown nowhere else.
    pub fn new(title: impl Into<String>, picture: speedwell_plot::AnyChart) -> ReportChart {
        ReportChart { title: title.into(), picture, shown_elsewhere: false }
    }

    /// Creates a chart that has the title of its picture.
    pub fn from_picture(picture: speedwell_plot::AnyChart) -> ReportChart {
        ReportChart::new(picture.title().to_owned(), picture)
    }
}

impl Document {
    /// Creates an empty report of the given kind.
    pub fn new(report: &'static str) -> Document {
        Document { report, ..Document::default() }
    }

    /// Adds a block at the end.
    pub fn push(&mut self, block: ReportBlock) {
        self.blocks.push(block);
    }

    /// Adds a headline.
    pub fn push_headline(&mut self, text: impl Into<String>) {
        self.push(ReportBlock::Headline(text.into()));
    }

    /// Adds running text.
    pub fn push_paragraph(&mut self, text: impl Into<String>) {
        self.push(ReportBlock::Paragraph(text.into()));
    }

    /// Adds a shell line to copy.
    pub fn push_command(&mut self, label: &str, line: &str) {
        self.push(ReportBlock::Command { label: label.to_owned(), line: line.to_owned() });
    }

    /// Adds a table.
    pub fn push_table(&mut self, table: ReportTable) {
        self.push(ReportBlock::Table(table));
    }

    /// Adds a table, as the last step of building a document.
    pub fn with_table(mut self, table: ReportTable) -> Document {
        self.push_table(table);
        self
    }

    /// Adds a note.
    pub fn push_note(&mut self, text: impl Into<String>) {
        self.push(ReportBlock::Note(text.into()));
    }

    /// Adds notes.
    pub fn push_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        self.extend(notes.into_iter().map(ReportBlock::Note));
    }

    /// Adds blocks at the end.
    pub fn extend(&mut self, blocks: impl IntoIterator<Item = ReportBlock>) {
        self.blocks.extend(blocks);
    }

    /// Adds a heading. Level 1 is the highest.
    pub fn push_heading(&mut self, level: u8, text: impl Into<String>) {
        self.push(ReportBlock::Heading { level, text: text.into() });
    }

    /// Adds warnings.
    pub fn push_warnings(&mut self, warnings: &[String]) {
        self.extend(warnings.iter().cloned().map(ReportBlock::Warning));
    }

    /// Adds charts.
    pub fn push_charts(&mut self, charts: impl IntoIterator<Item = ReportChart>) {
        self.extend(charts.into_iter().map(Box::new).map(ReportBlock::Chart));
    }

    /// Appends the blocks and data of `other`. Drops its kind.
    pub fn append_document(&mut self, other: Document) {
        self.gate_lines.extend(other.gate_lines);
        self.session_lines.extend(other.session_lines);
        self.blocks.extend(other.blocks);
        self.data.extend(other.data);
    }

    /// Adds machine-readable values.
    pub fn attach_data(&mut self, name: &'static str, value: Value) {
        self.data.push((name, value));
    }

    /// Returns the document for standard output, with the parts shortened by `-q`.
    pub fn shortened(&self) -> Cow<'_, Document> {
        self.resolved(false)
    }

    /// Returns the complete document, for files.
    pub fn whole(&self) -> Cow<'_, Document> {
        self.resolved(true)
    }

    /// Replaces each [`ReportBlock::Shortened`] with one of its forms.
    fn resolved(&self, is_whole: bool) -> Cow<'_, Document> {
        let is_shortened = |block: &&ReportBlock| matches!(block, ReportBlock::Shortened { .. });
        if !self.all_blocks().iter().any(is_shortened) {
            return Cow::Borrowed(self);
        }
        let mut document = self.clone();
        document.blocks = resolve(document.blocks, is_whole, &mut document.data);
        Cow::Owned(document)
    }

    /// Whether a sentence gives the answer.
    pub(crate) fn has_answer(&self) -> bool {
        self.blocks.iter().any(ReportBlock::is_headline)
    }

    /// Keeps only the answer, warnings and failures.
    pub(crate) fn answer_only(mut self) -> Document {
        let has_several = self.blocks.iter().filter(|block| block.is_headline()).count() > 1;
        self.blocks.retain(|block| match block {
            ReportBlock::Headline(_) | ReportBlock::Warning(_) => true,
            // Titles tell several answers apart.
            ReportBlock::Heading { .. } => has_several,
            ReportBlock::Aside { open, .. } => *open,
            _ => false,
        });
        self
    }

    /// Returns the blocks in the order for people, who read from the top: a single headline comes
    /// before the warnings.
    pub fn answer_first(&self) -> Vec<&ReportBlock> {
        let headlines = self.blocks.iter().filter(|block| block.is_headline());
        let mut blocks: Vec<&ReportBlock> = self.blocks.iter().collect();
        // If a report begins with a question, the question stays above its answer.
        if headlines.count() == 1 && self.leading_question().is_none() {
            // A stable sort moves only the headline.
            blocks.sort_by_key(|block| !block.is_headline());
        }
        blocks
    }

    /// Returns the question that the document answers: a leading level-1 heading.
    pub fn leading_question(&self) -> Option<&String> {
        let ReportBlock::Heading { level: 1, text } = self.blocks.first()? else { return None };
        Some(text)
    }

    /// Returns every block. Nested blocks follow their parent. The two forms of a shortened block
    /// are not included.
    pub fn all_blocks(&self) -> Vec<&ReportBlock> {
        let mut blocks = Vec::new();
        collect_nested(&self.blocks, &mut blocks);
        blocks
    }

    /// Returns every table, in reading order.
    pub fn tables(&self) -> impl Iterator<Item = &ReportTable> {
        self.all_blocks().into_iter().filter_map(|block| match block {
            ReportBlock::Table(table) => Some(table),
            _ => None,
        })
    }

    /// Applies `change` to every table, including nested tables.
    pub fn for_each_table(&mut self, change: &mut impl FnMut(&mut ReportTable)) {
        change_tables(&mut self.blocks, change);
    }

    /// Returns every standalone chart, in reading order.
    pub fn charts(&self) -> impl Iterator<Item = &ReportChart> {
        self.all_blocks().into_iter().filter_map(|block| match block {
            ReportBlock::Chart(chart) => Some(&**chart),
            _ => None,
        })
    }
}

/// Groups blocks for output. Adjacent blocks of one kind form a group if they pass `is_gathered`.
/// Every other block is a group of its own.
pub fn group_blocks<'a, 'b>(
    blocks: &'a [&'b ReportBlock],
    is_gathered: impl Fn(&ReportBlock) -> bool,
) -> impl Iterator<Item = &'a [&'b ReportBlock]> {
    blocks.chunk_by(move |one, next| {
        is_gathered(one) && std::mem::discriminant(*one) == std::mem::discriminant(*next)
    })
}

fn resolve(blocks: Vec<ReportBlock>, is_whole: bool, data: &mut Data) -> Vec<ReportBlock> {
    let mut resolved = Vec::with_capacity(blocks.len());
    for mut block in blocks {
        if let ReportBlock::Aside { blocks, .. } | ReportBlock::Appendix { blocks, .. } = &mut block
        {
            *blocks = resolve(std::mem::take(blocks), is_whole, data);
        }
        match block {
            ReportBlock::Shortened { whole, .. } if is_whole => {
                data.extend(whole.data);
                resolved.extend(resolve(whole.blocks, is_whole, data));
            }
            ReportBlock::Shortened { short, .. } => resolved.extend(resolve(short, is_whole, data)),
            other => resolved.push(other),
        }
    }
    resolved
}

fn change_tables(blocks: &mut [ReportBlock], change: &mut impl FnMut(&mut ReportTable)) {
    for block in blocks {
        match block {
            ReportBlock::Table(table) => change(table),
            ReportBlock::Aside { blocks, .. } | ReportBlock::Appendix { blocks, .. } => {
                change_tables(blocks, change);
            }
            _ => {}
        }
    }
}

fn collect_nested<'a>(blocks: &'a [ReportBlock], collected: &mut Vec<&'a ReportBlock>) {
    for block in blocks {
        collected.push(block);
        if let ReportBlock::Aside { blocks, .. } | ReportBlock::Appendix { blocks, .. } = block {
            collect_nested(blocks, collected);
        }
    }
}

/// Returns the priority of an item if there is no room for all: bad news first, then good news,
/// then open questions.
pub fn severity(emphasis: TextEmphasis) -> u8 {
    match emphasis {
        TextEmphasis::Bad => 0,
        TextEmphasis::Good => 1,
        TextEmphasis::Caution => 2,
        TextEmphasis::None | TextEmphasis::Strong | TextEmphasis::Muted => 3,
    }
}

/// Returns the indexes of at most `max_count` items, the most urgent ones, in their original order.
pub fn pick_most_severe(emphases: &[TextEmphasis], max_count: usize) -> Vec<usize> {
    let mut picked = by_severity(emphases);
    picked.truncate(max_count);
    picked.sort_unstable();
    picked
}

/// Returns all indexes, most urgent first. Equally urgent items keep their original order.
pub fn by_severity(emphases: &[TextEmphasis]) -> Vec<usize> {
    let mut indexes: Vec<usize> = (0..emphases.len()).collect();
    indexes.sort_by_key(|&index| severity(emphases[index]));
    indexes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_inside_asides_are_found_too() {
        let mut document = Document::new("summary");
        document.push(ReportBlock::Table(ReportTable::new("first")));
        document.push(ReportBlock::Aside {
            summary: "more".into(),
            open: true,
            blocks: vec![ReportBlock::Table(ReportTable::new("second"))],
        });
        let names: Vec<_> = document.tables().map(|table| table.name).collect();
        assert_eq!(names, ["first", "second"]);
    }

    #[test]
    fn shortened_blocks_can_be_rendered_in_short_or_in_full() {
        let mut whole = Document::new("details");
        whole.push(ReportBlock::Note("how it was found".into()));
        whole.attach_data("figures", Value::from(7));
        let mut document = Document::new("summary");
        document.push(ReportBlock::Aside {
            summary: "more".into(),
            open: true,
            blocks: vec![ReportBlock::Shortened {
                short: vec![ReportBlock::Paragraph("in short".into())],
                whole: Box::new(whole),
            }],
        });
        let texts = |document: &Document| -> Vec<String> {
            let texts = document.all_blocks().into_iter().filter_map(|block| match block {
                ReportBlock::Note(text) | ReportBlock::Paragraph(text) => Some(text.clone()),
                _ => None,
            });
            texts.collect()
        };
        let (short, whole) = (document.shortened(), document.whole());
        assert_eq!((texts(&short), short.data.len()), (vec!["in short".to_owned()], 0));
        assert_eq!(texts(&whole), ["how it was found"]);
        assert_eq!(whole.data, [("figures", Value::from(7))]);
        let plain = Document::new("plain");
        assert!(matches!(plain.whole(), Cow::Borrowed(_)));
    }

    #[test]
    fn bad_news_is_never_left_out_for_good_news() {
        use TextEmphasis::{Bad, Caution, Good, None};
        let all = [None, Good, Caution, Bad, None, Good];
        assert_eq!(pick_most_severe(&all, 3), [1, 3, 5]);
        assert_eq!(pick_most_severe(&all, 99), [0, 1, 2, 3, 4, 5]);
        assert_eq!(by_severity(&all), [3, 1, 5, 2, 0, 4]);
    }
}
