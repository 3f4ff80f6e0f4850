//! The pages, one file each: a document with links and forms.
//!
//! A page calls the same functions as the corresponding command and computes nothing itself. Start
//! at [`page`].

// These files depend on each other: every page takes a `Visit` and returns a `Page` defined here,
// and `page` calls each of them. `site.rs` is part of the cycle, because a site holds the viewers
// of live pages (`live.rs`), which render pages.
mod alerts;
mod benchmarks;
mod branch;
pub(crate) mod charts;
mod compare;
mod live;
mod machines;
mod overview;
mod project;
mod pull;
mod revision;
mod search;
mod session;
mod sessions;
mod settings;
mod trend;

pub(crate) use session::MOST_RUNS;

use crate::access::Caller;
use crate::address::{Format, Place};
use crate::link::{encoded, encoded_path, link_by, link_column};
use crate::project::Project;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::site::Site;
use axum::http::StatusCode;
use speedwell_report::html::{Charts, Choice, Form, Link};
use speedwell_report::{Block, Cell, Column, Document, Kind, Output, Row, Table};
use speedwell_results::store::{Overview, Store};

/// A page without its layout.
#[derive(Debug)]
pub struct Page {
    pub document: Document,
    /// Breadcrumbs after the project; the last is the page itself.
    pub crumbs: Vec<Link>,
    /// Related pages.
    pub links: Vec<Link>,
    pub filters: Option<Form>,
    /// Selection of rows for a comparison.
    pub choice: Option<Choice>,
    /// Numbers of the sessions behind it.
    pub sessions: Vec<i64>,
    /// Forms that change something.
    pub changes: Vec<Form>,
    /// Address of its event stream.
    pub events: Option<String>,
    /// Which charts it shows, if it is a part of another page.
    pub charts: Charts,
    /// Whether it stays valid until the store changes.
    pub is_lasting: bool,
    pub status: StatusCode,
}

impl Page {
    /// Creates a page with this content and nothing else.
    pub fn of(document: Document) -> Page {
        Page {
            document,
            crumbs: Vec::new(),
            links: Vec::new(),
            filters: None,
            choice: None,
            sessions: Vec::new(),
            changes: Vec::new(),
            events: None,
            charts: Charts::Here,
            is_lasting: false,
            status: StatusCode::OK,
        }
    }
}

/// Result of a request for a page.
#[derive(Debug)]
pub enum Outcome {
    Page(Box<Page>),
    /// A redirect to another address.
    Elsewhere(String),
}

impl From<Page> for Outcome {
    fn from(page: Page) -> Outcome {
        Outcome::Page(Box::new(page))
    }
}

/// Context of a request for a page.
#[derive(Clone, Copy)]
pub struct Visit<'v> {
    pub site: &'v Site,
    pub project: &'v Project,
    pub caller: &'v Caller,
    /// The store of the project.
    pub store: &'v Store,
    pub query: &'v Query,
    pub format: Format,
}

impl Visit<'_> {
    /// Returns options for reports, some of which depend on the format.
    pub fn output(&self) -> Output {
        use speedwell_report::Format as Kind;
        Output {
            format: Some(match self.format {
                Format::Page => Kind::Html,
                Format::Document(kind) => kind,
                Format::JsonLines => Kind::Json,
            }),
            ..Output::default()
        }
    }

    /// Returns the address of a page of the project; `path` follows the project name.
    pub fn href(&self, path: &str) -> String {
        format!("/{}/{path}", self.project.name)
    }

    /// Returns the address of a session by id.
    pub fn session(&self, id: &str) -> String {
        self.href(&format!("sessions/{}", encoded(id)))
    }

    /// Returns the address of a session by number.
    pub fn numbered(&self, number: i64) -> String {
        self.href(&format!("@{number}"))
    }

    pub fn compare(&self, base: &str, with: &str) -> String {
        let (base, with) = (encoded(base), encoded(with));
        self.href(&format!("compare?base={base}&with={with}"))
    }

    pub fn revision(&self, id: &str) -> String {
        self.href(&format!("revisions/{}", encoded_path(id)))
    }

    pub fn branch(&self, name: &str) -> String {
        self.href(&format!("branches/{}", encoded_path(name)))
    }

    pub fn benchmark(&self, name: &str) -> String {
        self.href(&format!("benchmarks/{}", encoded_path(name)))
    }

    /// Returns the address of the trend of a case.
    pub fn trend(&self, case: &str) -> String {
        self.href(&format!("trend?case={}", encoded(case)))
    }

    /// Builds a linked list of these sessions.
    pub fn list(&self, sessions: &[Overview]) -> Document {
        let mut document = speedwell_report::sessions(&speedwell_report::Page {
            sessions,
            number: 1,
            all: sessions.len(),
            is_chosen: false,
        });
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        link_by(&mut document, "sessions", ["number", "id"], |id| {
            Some(self.session(&text(id)?))
        });
        let known = |value: &serde_json::Value| text(value).filter(|text| !text.is_empty());
        link_column(&mut document, "sessions", "revision", |id| {
            Some(self.revision(&known(id)?))
        });
        link_column(&mut document, "sessions", "branch", |name| {
            Some(self.branch(&known(name)?))
        });
        shorten(&mut document, "command");
        document
    }

    /// Returns the selection of two rows of such a list for a comparison.
    pub fn choice(&self) -> Option<Choice> {
        Some(Choice {
            table: "sessions",
            action: self.href("compare"),
            name: "of",
            button: "Compare the two chosen sessions".into(),
        })
    }
}

/// Builds the page at a place.
///
/// # Errors
/// If there is no such page, or the store cannot be read.
pub fn page(visit: Visit<'_>, place: &Place) -> Result<Outcome, Refusal> {
    match place {
        Place::Overview => overview::page(visit).map(Outcome::from),
        Place::Project => project::page(visit).map(Outcome::from),
        Place::Sessions => sessions::page(visit).map(Outcome::from),
        Place::Session(id) => session::page(visit, id),
        Place::Reference(word) => session::elsewhere(visit, word),
        Place::Benchmarks => benchmarks::all(visit).map(Outcome::from),
        Place::Benchmark(name) => benchmarks::one(visit, name).map(Outcome::from),
        Place::Trend => trend::page(visit).map(Outcome::from),
        Place::Compare => compare::page(visit),
        Place::Revision(id) => revision::page(visit, id),
        Place::Branch(name) => branch::page(visit, name).map(Outcome::from),
        Place::Pull(pull) => pull::page(visit, pull).map(Outcome::from),
        Place::Machines => machines::all(visit).map(Outcome::from),
        Place::Machine(number) => machines::one(visit, number).map(Outcome::from),
        Place::Calibration => machines::calibration(visit).map(Outcome::from),
        Place::Alerts => alerts::page(visit).map(Outcome::from),
        Place::Live => live::all(visit).map(Outcome::from),
        Place::SessionLive(id) => live::one(visit, id),
        Place::Events(_) => Err(Refusal::missing("a stream of events has one form only")),
        Place::Search => search::page(visit).map(Outcome::from),
        Place::Settings => settings::page(visit).map(Outcome::from),
    }
}

/// Maximum length of a long text in a list, in characters.
const LETTERS: usize = 60;

/// Shortens the texts of a column; the raw values stay complete.
fn shorten(document: &mut Document, key: &str) {
    document.for_each_table(&mut |table| {
        let Some(at) = table.columns.iter().position(|column| column.key == key) else {
            return;
        };
        for row in &mut table.rows {
            if let Row::Cells(cells) = row
                && let Some((end, _)) = cells[at].text.char_indices().nth(LETTERS)
            {
                cells[at].text.truncate(end);
                cells[at].text.push_str(" ...");
            }
        }
    });
}

/// Adds links to similar pages.
pub fn add_nearest(document: &mut Document, nearest: &[(String, String)]) {
    if nearest.is_empty() {
        return;
    }
    document.push_heading(2, "Did you mean");
    let rows = nearest
        .iter()
        .map(|(href, name)| Row::Cells(vec![Cell::words(name).linked(href)]));
    document.push(Block::Table(Table {
        columns: vec![Column::new("name", "name", Kind::Label)],
        rows: rows.collect(),
        ..Table::new("nearest")
    }));
}
