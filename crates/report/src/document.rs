//! What a report says, independent of how it is written down.
//!
//! Reports build documents, formats render them, so that reports and formats add up instead of
//! multiplying. This file knows no format: no escape sequence, no markup, no width. Start with
//! [`Document`] and [`Block`]; tables are in `table.rs`.

use crate::table::{Emphasis, Table};
use serde_json::Value;
use std::borrow::Cow;

/// A report, ready to be rendered.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// Which report it is, one word: `comparison`, `summary`, `study`, `sessions` ...
    pub report: &'static str,
    /// Its parts, in reading order.
    pub blocks: Vec<Block>,
    /// Figures for machines that have no place in a table, by name.
    pub data: Data,
}

/// Figures for machines, by name.
type Data = Vec<(&'static str, Value)>;

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
    /// Names and what they are. For people: machines get the same as data.
    Facts(Vec<Fact>),
    /// A picture, for formats that can show one.
    Chart(Box<Chart>),
    /// Every case by itself, for formats that can hold thousands of pictures.
    Gallery(Gallery),
    /// An explanation of the figures above: one that an expert may skip.
    Note(String),
    /// A threat to the figures.
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
        /// Whether it is not to be overlooked, so that nothing folds it away at first.
        open: bool,
        /// The details.
        blocks: Vec<Block>,
    },
    /// Reference matter that is looked up rather than read. A page and Markdown fold it away; a
    /// terminal leaves it out unless everything is requested.
    Appendix {
        /// What is inside.
        title: String,
        /// What is said where it is left out, if anything.
        instead: Option<String>,
        /// The matter.
        blocks: Vec<Block>,
    },
    /// What `-q` shortens on standard output; files hold the whole. Made by [`Output::add_detail`](crate::Output::add_detail)
    /// and resolved by [`Document::shortened`] and [`Document::whole`] before a format sees it.
    Shortened {
        /// What standard output shows instead.
        short: Vec<Block>,
        /// What files show.
        whole: Box<Document>,
    },
}

/// A name and what it is.
pub type Fact = (String, String);

/// Cases by themselves.
#[derive(Debug, Clone)]
pub struct Gallery {
    /// What is shown of them.
    pub kind: GalleryKind,
    /// The cases.
    pub cases: Vec<CaseView>,
}

/// What a gallery shows of its cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GalleryKind {
    /// The runs of a session.
    Runs,
    /// Their courses along a line of revisions.
    Courses,
}

/// One case by itself.
#[derive(Debug, Clone)]
pub struct CaseView {
    /// The id of the case, by which rows of tables refer to it.
    pub id: String,
    /// What was found about it.
    pub answers: Vec<Answer>,
    /// Its runs, one chart per metric; or its course.
    pub charts: Vec<Chart>,
}

/// What was found about one candidate or variant of a case.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What it is about; needed only beside other answers.
    pub about: String,
    /// The finding: `▲ better +8.2 % [+6.9, +9.6]`.
    pub text: String,
    /// How it stands out.
    pub emphasis: Emphasis,
}

/// A chart with the words that stand in for it where it cannot be shown.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What it shows, for captions and for readers who do not see it.
    pub title: String,
    /// The picture as data.
    pub picture: speedwell_plot::Chart,
    /// Whether the tables and the gallery of a page show the same, and more of it.
    pub shown_elsewhere: bool,
}

impl Chart {
    /// A chart that shows what nothing else does.
    pub fn new(title: impl Into<String>, picture: speedwell_plot::Chart) -> Chart {
        Chart {
            title: title.into(),
            picture,
            shown_elsewhere: false,
        }
    }
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

    /// Adds blocks at the end.
    pub fn extend(&mut self, blocks: impl IntoIterator<Item = Block>) {
        self.blocks.extend(blocks);
    }

    /// Adds a heading; level 1 is the highest.
    pub fn push_heading(&mut self, level: u8, text: impl Into<String>) {
        let text = text.into();
        self.push(Block::Heading { level, text });
    }

    /// Adds warnings.
    pub fn push_warnings(&mut self, warnings: &[String]) {
        self.extend(warnings.iter().cloned().map(Block::Warning));
    }

    /// Adds charts.
    pub fn push_charts(&mut self, charts: impl IntoIterator<Item = Chart>) {
        self.extend(charts.into_iter().map(Box::new).map(Block::Chart));
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

    /// The document of standard output: short wherever `-q` shortens.
    pub fn shortened(&self) -> Cow<'_, Document> {
        self.resolved(&mut |short, _, _| short.to_vec())
    }

    /// The document of files, which have everything.
    pub fn whole(&self) -> Cow<'_, Document> {
        self.resolved(&mut |_, whole, data| {
            data.extend(whole.data.iter().cloned());
            whole.blocks.clone()
        })
    }

    /// Replaces each [`Block::Shortened`] by what `choose` returns, which may add data.
    fn resolved(&self, choose: &mut Choose<'_>) -> Cow<'_, Document> {
        let is_shortened = |block: &&Block| matches!(block, Block::Shortened { .. });
        if !self.walk().iter().any(is_shortened) {
            return Cow::Borrowed(self);
        }
        let mut document = self.clone();
        document.blocks = resolve(document.blocks, choose, &mut document.data);
        Cow::Owned(document)
    }

    /// The blocks with the answer first: where there is a single headline, it comes before the warnings.
    /// For readers who begin at the top of a page; on a terminal the end of the warnings is nearer to
    /// the figures.
    pub fn answer_first(&self) -> Vec<&Block> {
        let headlines = self
            .blocks
            .iter()
            .filter(|block| matches!(block, Block::Headline(_)));
        let mut blocks: Vec<&Block> = self.blocks.iter().collect();
        // A question that stands above everything stays above its answer.
        let is_asked = matches!(self.blocks.first(), Some(Block::Heading { level: 1, .. }));
        if headlines.count() == 1 && !is_asked {
            // A stable sort moves the one headline and nothing else.
            blocks.sort_by_key(|block| !matches!(block, Block::Headline(_)));
        }
        blocks
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

    /// Changes every table, wherever it stands.
    pub fn for_each_table(&mut self, change: &mut impl FnMut(&mut Table)) {
        change_tables(&mut self.blocks, change);
    }

    /// Every chart that stands by itself, in reading order.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.walk().into_iter().filter_map(|block| match block {
            Block::Chart(chart) => Some(&**chart),
            _ => None,
        })
    }
}

/// Blocks as they are written: neighbours of one kind together where `is_gathered`, all others alone.
pub fn runs_of_alike<'a, 'b>(
    blocks: &'a [&'b Block],
    is_gathered: impl Fn(&Block) -> bool,
) -> impl Iterator<Item = &'a [&'b Block]> {
    blocks.chunk_by(move |one, next| {
        is_gathered(one) && std::mem::discriminant(*one) == std::mem::discriminant(*next)
    })
}

/// Chooses between the short and the whole form of a block.
type Choose<'a> = dyn FnMut(&[Block], &Document, &mut Data) -> Vec<Block> + 'a;

fn resolve(blocks: Vec<Block>, choose: &mut Choose<'_>, data: &mut Data) -> Vec<Block> {
    let mut resolved = Vec::with_capacity(blocks.len());
    for mut block in blocks {
        match &mut block {
            Block::Shortened { short, whole } => {
                let chosen = choose(short, whole, data);
                resolved.extend(resolve(chosen, choose, data));
                continue;
            }
            Block::Aside { blocks, .. } | Block::Appendix { blocks, .. } => {
                *blocks = resolve(std::mem::take(blocks), choose, data);
            }
            _ => {}
        }
        resolved.push(block);
    }
    resolved
}

fn change_tables(blocks: &mut [Block], change: &mut impl FnMut(&mut Table)) {
    for block in blocks {
        match block {
            Block::Table(table) => change(table),
            Block::Aside { blocks, .. } | Block::Appendix { blocks, .. } => {
                change_tables(blocks, change);
            }
            _ => {}
        }
    }
}

fn collect<'a>(blocks: &'a [Block], all: &mut Vec<&'a Block>) {
    for block in blocks {
        all.push(block);
        if let Block::Aside { blocks, .. } | Block::Appendix { blocks, .. } = block {
            collect(blocks, all);
        }
    }
}

/// What comes first where there is no room for all: bad news, then good, then what is open.
pub fn severity(emphasis: Emphasis) -> u8 {
    match emphasis {
        Emphasis::Bad => 0,
        Emphasis::Good => 1,
        Emphasis::Caution => 2,
        Emphasis::None | Emphasis::Strong | Emphasis::Muted => 3,
    }
}

/// Positions of the at most `most` most urgent items, in their own order.
pub fn most_severe(emphases: &[Emphasis], most: usize) -> Vec<usize> {
    let mut kept = by_severity(emphases);
    kept.truncate(most);
    kept.sort_unstable();
    kept
}

/// All positions, the most urgent ones first, else in their own order.
pub fn by_severity(emphases: &[Emphasis]) -> Vec<usize> {
    let mut all: Vec<usize> = (0..emphases.len()).collect();
    all.sort_by_key(|&at| severity(emphases[at]));
    all
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
            open: true,
            blocks: vec![Block::Table(Table::new("second"))],
        });
        let names: Vec<_> = document.tables().map(|table| table.name).collect();
        assert_eq!(names, ["first", "second"]);
    }

    #[test]
    fn what_is_shortened_is_whole_in_files() {
        let mut whole = Document::new("details");
        whole.push(Block::Note("how it was found".into()));
        whole.attach("figures", Value::from(7));
        let mut document = Document::new("summary");
        document.push(Block::Aside {
            summary: "more".into(),
            open: true,
            blocks: vec![Block::Shortened {
                short: vec![Block::Paragraph("in short".into())],
                whole: Box::new(whole),
            }],
        });
        let texts = |document: &Document| -> Vec<String> {
            let texts = document.walk().into_iter().filter_map(|block| match block {
                Block::Note(text) | Block::Paragraph(text) => Some(text.clone()),
                _ => None,
            });
            texts.collect()
        };
        let (short, whole) = (document.shortened(), document.whole());
        assert_eq!(
            (texts(&short), short.data.len()),
            (vec!["in short".to_owned()], 0)
        );
        assert_eq!(texts(&whole), ["how it was found"]);
        assert_eq!(whole.data, [("figures", Value::from(7))]);
        let plain = Document::new("plain");
        assert!(matches!(plain.whole(), Cow::Borrowed(_)));
    }

    #[test]
    fn bad_news_is_never_left_out_for_good_news() {
        use Emphasis::{Bad, Caution, Good, None};
        let all = [None, Good, Caution, Bad, None, Good];
        assert_eq!(most_severe(&all, 3), [1, 3, 5]);
        assert_eq!(most_severe(&all, 99), [0, 1, 2, 3, 4, 5]);
        assert_eq!(by_severity(&all), [3, 1, 5, 2, 0, 4]);
    }
}
