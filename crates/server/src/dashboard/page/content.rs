//! Defines what a page is made from ([`PageContext`]), and what it consists of ([`PageContent`]).

use crate::dashboard::access::CallerIdentity;
use crate::dashboard::address::PageFormat;
use crate::dashboard::link::{encode_path, encode_segment, link_by, link_column};
use crate::dashboard::project::HostedProject;
use crate::dashboard::query::PageQuery;
use crate::dashboard::site::SiteState;
use crate::http::HttpError;
use axum::http::StatusCode;
use speedwell_model::stored::SessionOverview;
use speedwell_report::html::{ChartsLocation, PageForm, PageLink, RowChoice};
use speedwell_report::{Document, OutputOptions, ReportFormat, ReportRow};
use speedwell_store::Store;

/// A page without its layout.
#[derive(Debug)]
pub struct PageContent {
    pub document: Document,
    /// Breadcrumbs after the project; the last is the page itself.
    pub crumbs: Vec<PageLink>,
    /// Related pages.
    pub links: Vec<PageLink>,
    pub filters: Option<PageForm>,
    /// Selection of rows for a comparison.
    pub choice: Option<RowChoice>,
    /// Numbers of the sessions that the page shows.
    pub sessions: Vec<i64>,
    /// Forms that change something.
    pub changes: Vec<PageForm>,
    /// Address of the page's event stream.
    pub events: Option<String>,
    /// Whether the charts are on the page itself or on separate pages.
    pub charts: ChartsLocation,
    /// Whether the page stays valid until the store changes.
    pub is_cacheable: bool,
    pub status: StatusCode,
}

impl PageContent {
    /// Creates a page with this content and nothing else.
    pub fn from_document(document: Document) -> PageContent {
        PageContent {
            document,
            crumbs: Vec::new(),
            links: Vec::new(),
            filters: None,
            choice: None,
            sessions: Vec::new(),
            changes: Vec::new(),
            events: None,
            charts: ChartsLocation::Here,
            is_cacheable: false,
            status: StatusCode::OK,
        }
    }
}

/// Result of a request for a page.
#[derive(Debug)]
pub enum PageOutcome {
    Page(Box<PageContent>),
    /// A redirect to another address.
    Redirect(String),
}

/// Page, redirect or error.
pub type PageResult = Result<PageOutcome, HttpError>;

impl From<PageContent> for PageOutcome {
    fn from(page: PageContent) -> PageOutcome {
        PageOutcome::Page(Box::new(page))
    }
}

/// What a page is made from. A live page has no request of its own: it is sent to all viewers.
#[derive(Clone, Copy)]
pub struct PageContext<'v> {
    pub site: &'v SiteState,
    pub project: &'v HostedProject,
    pub caller: &'v CallerIdentity,
    /// The store of the project.
    pub store: &'v Store,
    /// The name in the path after the project, such as the id of a session; empty if there is none.
    pub name: &'v str,
    pub query: &'v PageQuery,
    pub format: PageFormat,
}

impl PageContext<'_> {
    /// Returns options for reports; some depend on the format.
    pub fn report_options(&self) -> OutputOptions {
        OutputOptions {
            format: Some(match self.format {
                PageFormat::Page => ReportFormat::Html,
                PageFormat::Document(kind) => kind,
                PageFormat::JsonLines => ReportFormat::Json,
            }),
            ..OutputOptions::default()
        }
    }

    /// Returns the address of a page of the project; `path` follows the project name.
    pub fn page_href(&self, path: &str) -> String {
        format!("/{}/{path}", self.project.name)
    }

    /// Returns the address of a session by id.
    pub fn session_href(&self, id: &str) -> String {
        self.page_href(&format!("sessions/{}", encode_segment(id)))
    }

    /// Returns the address of a session by number.
    pub fn numbered_href(&self, number: i64) -> String {
        self.page_href(&format!("@{number}"))
    }

    pub fn compare_href(&self, base: &str, with: &str) -> String {
        let (base, with) = (encode_segment(base), encode_segment(with));
        self.page_href(&format!("compare?base={base}&with={with}"))
    }

    pub fn revision_href(&self, id: &str) -> String {
        self.page_href(&format!("revisions/{}", encode_path(id)))
    }

    pub fn branch_href(&self, name: &str) -> String {
        self.page_href(&format!("branches/{}", encode_path(name)))
    }

    pub fn benchmark_href(&self, name: &str) -> String {
        self.page_href(&format!("benchmarks/{}", encode_path(name)))
    }

    /// Returns the address of the trend of a case.
    pub fn trend_href(&self, case: &str) -> String {
        self.page_href(&format!("trend?case={}", encode_segment(case)))
    }

    /// Builds a list of these sessions, with links.
    pub fn list_sessions(&self, sessions: &[SessionOverview]) -> Document {
        let mut document = speedwell_report::list_sessions(&speedwell_report::SessionsPage {
            sessions,
            number: 1,
            all: sessions.len(),
            is_chosen: false,
        });
        let string = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        link_by(&mut document, "sessions", ["number", "id"], |id| {
            Some(self.session_href(&string(id)?))
        });
        let nonempty =
            |value: &serde_json::Value| string(value).filter(|string| !string.is_empty());
        link_column(&mut document, "sessions", "revision", |id| {
            Some(self.revision_href(&nonempty(id)?))
        });
        link_column(&mut document, "sessions", "branch", |name| {
            Some(self.branch_href(&nonempty(name)?))
        });
        shorten_column(&mut document, "command");
        document
    }

    /// Returns the control that selects two listed sessions for a comparison.
    pub fn row_choice(&self) -> Option<RowChoice> {
        Some(RowChoice {
            table: "sessions",
            action: self.page_href("compare"),
            name: "of",
            button: "Compare the two selected sessions".into(),
        })
    }
}

/// Maximum length of a cell in a list, in characters.
const MAX_LIST_CHARS: usize = 60;

/// Shortens the displayed strings of a column, but not the raw values.
fn shorten_column(document: &mut Document, key: &str) {
    document.for_each_table(&mut |table| {
        let Some(column_index) = table.columns.iter().position(|column| column.key == key) else {
            return;
        };
        for row in &mut table.rows {
            if let ReportRow::Cells(cells) = row
                && let Some((end, _)) = cells[column_index].text.char_indices().nth(MAX_LIST_CHARS)
            {
                cells[column_index].text.truncate(end);
                cells[column_index].text.push_str(" ...");
            }
        }
    });
}
