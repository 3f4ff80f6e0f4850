//! Builds the web pages. A page is a document with links and forms. A [`PageContext`] contains the
//! inputs from which a page is built, and a [`PageContent`] is the result. [`PageLayout`] renders it
//! with the layout around it (navigation, breadcrumbs, links to other formats, and login), and
//! [`page_response`] sends it. Other responses are redirects, JSON, and errors shown as pages.
//!
//! A page calls the same functions as the corresponding command and computes nothing itself. The
//! table in `routes.rs` lists all pages.
//!
//! A page with many cases shows its charts in parts, each on a separate page (`?charts=NUMBER`). The
//! code for each page knows nothing of parts: [`split_part_query`] removes the key `charts`
//! from the query before the page is built, and [`cut_part`] cuts the part from the
//! finished document.

use crate::dashboard::address::{
    FILE_FORMATS, FileFormat, PageFormat, PageQuery, encode_path, encode_segment,
};
use crate::dashboard::site::{HostedProject, RequestContext};
use crate::dashboard::{CallerIdentity, RequiredPermission, SiteState};
use crate::http::HttpError;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use speedwell_model::stored::SessionOverview;
use speedwell_report::html::{
    ChartsLocation, FormField, LoginState, PageForm, PageFrame, PageLink, PageProgress, RowChoice,
    ServedFrame, part_of_charts, parts_of_charts, render_page,
};
use speedwell_report::{
    ColumnKind, Document, OutputOptions, ReportBlock, ReportCell, ReportColumn, ReportFormat,
    ReportRow, ReportTable, list_sessions_on_page,
};
use speedwell_store::Store;
use std::time::Duration;

pub mod catalog;
pub mod changes;
pub mod compare;
pub mod live;
pub mod project;
pub mod revision;
pub mod session;
pub mod trend;

/// How long a page with ages such as "12 min" stays valid.
const MAX_AGE: Duration = Duration::from_secs(60);

/// A page without its layout.
#[derive(Debug, Default)]
pub struct PageContent {
    pub document: Document,
    /// Breadcrumbs after the project; the last is the page itself.
    pub crumbs: Vec<PageLink>,
    /// Related pages.
    pub links: Vec<PageLink>,
    pub filters: Option<PageForm>,
    /// Selection of rows for a comparison.
    pub choice: Option<RowChoice>,
    /// The link that sorts the rows of a comparison, as address and text.
    pub sort_link: Option<(String, String)>,
    /// Numbers of the sessions that the page shows.
    pub sessions: Vec<i64>,
    /// Forms that change something.
    pub changes: Vec<PageForm>,
    /// Address of the page's event stream.
    pub events: Option<String>,
    /// Progress of the measurement that the page follows.
    pub progress: Option<PageProgress>,
    /// Whether the charts are on the page itself or on separate pages.
    pub charts: ChartsLocation,
    /// Whether the page stays valid until the store changes.
    pub is_cacheable: bool,
    /// How long a cacheable page stays valid, because it shows ages; `None` for no limit.
    pub max_age: Option<Duration>,
    pub status: StatusCode,
    /// Another address, to which the client is redirected instead.
    pub redirect: Option<String>,
}

impl PageContent {
    /// Creates a redirect to another address.
    pub fn redirect_to(address: String) -> PageContent {
        PageContent { redirect: Some(address), ..PageContent::default() }
    }

    /// Creates a page with this content and nothing else.
    pub fn from_document(document: Document) -> PageContent {
        PageContent { document, ..PageContent::default() }
    }
}

/// Page or error.
pub type PageResult = Result<PageContent, HttpError>;

/// Builds a page.
pub type PageHandler = fn(PageContext<'_>) -> PageResult;

/// The inputs from which a page is built. A live page is sent to all viewers, so it is built for an
/// anonymous caller and an empty query.
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
                PageFormat::Page | PageFormat::Picture => ReportFormat::Html,
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

    /// Returns a link to a page of the project; `path` follows the project name.
    pub fn page_link(&self, path: &str, label: impl Into<String>) -> PageLink {
        PageLink::new(self.page_href(path), label)
    }

    /// Returns the breadcrumbs of a page that a list of the project leads to.
    pub fn crumbs(&self, list: &str, href: String, label: impl Into<String>) -> Vec<PageLink> {
        vec![self.page_link(list, list), PageLink::new(href, label)]
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

    /// Builds a list of these sessions, with links. With the time of the request, the list shows
    /// ages instead of dates; the page must then not be cached.
    pub fn list_sessions(
        &self,
        sessions: &[SessionOverview],
        now_unix_ms: Option<i64>,
    ) -> Document {
        let mut document = if self.format == PageFormat::Page {
            let settings = || (self.project.lookups.settings)(&[]);
            let results = self.project.results.find_results(self.store, sessions, &settings);
            // The sessions are listed even if none can be analyzed.
            list_sessions_on_page(sessions, &results.unwrap_or_default(), now_unix_ms)
        } else {
            speedwell_report::list_sessions(&speedwell_report::SessionsPage {
                sessions,
                number: 1,
                all: sessions.len(),
                is_chosen: false,
            })
        };
        link_by(&mut document, "sessions", ["number", "id"], |id| {
            Some(self.session_href(id.as_str()?))
        });
        self.link_code(&mut document, "sessions");
        link_by(&mut document, "sessions", ["subject", "revision"], |id| {
            Some(self.revision_href(nonempty_text(id)?))
        });
        shorten_column(&mut document, "command");
        shorten_column(&mut document, "subject");
        document
    }

    /// Links the revisions and the branches in a table.
    pub fn link_code(&self, document: &mut Document, table: &str) {
        link_column(document, table, "revision", |id| Some(self.revision_href(nonempty_text(id)?)));
        link_column(document, table, "branch", |name| Some(self.branch_href(nonempty_text(name)?)));
    }

    /// Links the session numbers in a column.
    pub fn link_numbers(&self, document: &mut Document, table: &str, column: &str) {
        link_column(document, table, column, |number| Some(self.numbered_href(number.as_i64()?)));
    }

    /// Returns the control that selects two listed sessions for a comparison.
    pub fn row_choice(&self) -> RowChoice {
        RowChoice {
            table: "sessions",
            action: self.page_href("compare"),
            name: "of",
            button: "Compare the two selected sessions".into(),
        }
    }

    /// Builds a field for a key of the query. Without `options`, any value is allowed.
    pub fn query_field(
        &self,
        name: &'static str,
        placeholder: &str,
        options: Vec<(String, String)>,
    ) -> FormField {
        FormField {
            name,
            label: name.to_owned(),
            value: self.query.get(name).unwrap_or_default().to_owned(),
            placeholder: placeholder.to_owned(),
            options,
            ..FormField::default()
        }
    }

    /// Builds the form that filters a page of the project; `path` follows the project name.
    pub fn filter_form(&self, path: &str, fields: Vec<FormField>) -> PageForm {
        PageForm {
            action: self.page_href(path),
            title: "Filter".into(),
            button: "Show".into(),
            fields,
            ..PageForm::default()
        }
    }

    /// Returns the options of a field that selects a machine by its number.
    pub fn machine_options(&self) -> Result<Vec<(String, String)>, HttpError> {
        let mut options = named_options("any", [] as [&str; 0]);
        let machines = self.store.machine_titles()?.into_iter();
        options.extend(machines.map(|(number, title)| (number.to_string(), title)));
        Ok(options)
    }

    /// For each of `keys` that the query contains, returns a link to the page without this key.
    pub fn set_filters(&self, page: &str, keys: &[&str]) -> Vec<PageLink> {
        let links = keys.iter().filter_map(|name| {
            let value = self.query.get(name)?;
            let href = self.page_href(&format!("{page}{}", self.query.with_value(name, None)));
            Some(PageLink::new(href, format!("{name}: {value}")))
        });
        links.collect()
    }
}

/// Returns the options of a field: first an empty value with the label `none`, then `names`.
pub fn named_options<S: Into<String>>(
    none: &str,
    names: impl IntoIterator<Item = S>,
) -> Vec<(String, String)> {
    let named = names.into_iter().map(Into::<String>::into).map(|name| (name.clone(), name));
    std::iter::once((String::new(), none.to_owned())).chain(named).collect()
}

/// Builds a table of pages from their addresses and names.
pub fn link_table(name: &'static str, pages: &[(String, String)]) -> ReportBlock {
    let rows = pages
        .iter()
        .map(|(href, name)| ReportRow::Cells(vec![ReportCell::words(name).with_link(href)]));
    ReportBlock::Table(ReportTable {
        columns: vec![ReportColumn::new("name", "name", ColumnKind::Label)],
        rows: rows.collect(),
        ..ReportTable::new(name)
    })
}

/// Adds links to a column of all tables named `table`. `href_for` maps a cell's raw value to the
/// address of its link.
pub fn link_column(
    document: &mut Document,
    table: &str,
    key: &str,
    href_for: impl Fn(&Value) -> Option<String>,
) {
    link_by(document, table, [key, key], href_for);
}

/// Adds links to the column `shown`. `href_for` maps the same row's raw value in column `by` to the
/// address of the link.
pub fn link_by(
    document: &mut Document,
    table: &str,
    [shown, by]: [&str; 2],
    href_for: impl Fn(&Value) -> Option<String>,
) {
    document.for_each_table(&mut |candidate| {
        let position = |key: &str| candidate.columns.iter().position(|column| column.key == key);
        let (Some(shown), Some(by)) = (position(shown), position(by)) else {
            return;
        };
        if candidate.name != table {
            return;
        }
        for row in &mut candidate.rows {
            if let ReportRow::Cells(cells) = row {
                let value = cells[by].value.as_ref();
                let href = value.and_then(|value| href_for(&value.to_json()));
                cells[shown].rare_mut().link = href;
            }
        }
    });
}

fn nonempty_text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
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

/// Query key of the part number.
const QUERY_KEY: &str = "charts";

/// Splits a query into the number of the requested part, or `None` for the whole page, and the query
/// without the key `charts`.
///
/// # Errors
/// Fails if the part is not a number, or the format has no parts.
pub fn split_part_query(
    query: &PageQuery,
    format: PageFormat,
) -> Result<(Option<usize>, PageQuery), HttpError> {
    let Some(number) = query.get_number(QUERY_KEY)? else {
        return Ok((None, query.clone()));
    };
    if format != PageFormat::Page {
        return Err(HttpError::bad_request(format!(
            "'{QUERY_KEY}' selects a part of a page, but this format is not split"
        ))
        .with_hint(format!("omit {QUERY_KEY}={number} to get all charts")));
    }
    Ok((Some(usize::try_from(number).unwrap_or(0)), query.without_name(QUERY_KEY)))
}

/// Cuts a part from a page that was built for `query`.
///
/// # Errors
/// Fails if the page has no such part.
pub fn cut_part(
    page: PageContent,
    number: usize,
    query: &PageQuery,
) -> Result<PageContent, HttpError> {
    let part_count = parts_of_charts(&page.document);
    if part_count == 0 {
        return Err(HttpError::bad_request(format!("unknown parameter '{QUERY_KEY}'"))
            .with_hint("all charts are on the page itself"));
    }
    let Some(part) = part_of_charts(&page.document, number) else {
        return Err(HttpError::not_found(format!("part {number} of the charts not found"))
            .with_hint(format!("{QUERY_KEY} ranges from 1 to {part_count}")));
    };
    let neighbour = |number: usize| {
        let title = part_of_charts(&page.document, number)?.title;
        Some((part_link_prefix(query) + &number.to_string(), title))
    };
    let before = neighbour(number.wrapping_sub(1))
        .map(|(href, title)| PageLink::new(href, format!("← {title}")));
    let after =
        neighbour(number + 1).map(|(href, title)| PageLink::new(href, format!("{title} →")));
    let mut crumbs = page.crumbs;
    crumbs.push(PageLink::new(part_link_prefix(query) + &number.to_string(), part.title));
    Ok(PageContent {
        crumbs,
        links: before.into_iter().chain(after).collect(),
        sessions: page.sessions,
        is_cacheable: page.is_cacheable,
        max_age: page.max_age,
        charts: ChartsLocation::From(part.first),
        ..PageContent::from_document(part.document)
    })
}

/// Returns the query string of a part's address, without the part number.
pub fn part_link_prefix(query: &PageQuery) -> String {
    query.with_value(QUERY_KEY, Some(""))
}

/// Section of the overview of all projects.
pub const OVERVIEW_SECTION: &str = "overview";
/// Section of the settings of the server.
pub const SETTINGS_SECTION: &str = "settings";

/// Section of the changes. Its label has the number of open changes, if it is known.
pub const CHANGES_SECTION: &str = "changes";

/// Pages in the navigation bar, with their labels.
const NAVIGATION_PAGES: [(&str, &str); 9] = [
    ("sessions", "Sessions"),
    ("benchmarks", "Benchmarks"),
    ("trend", "Trend"),
    ("compare", "Compare"),
    (CHANGES_SECTION, "Changes"),
    ("pulls", "Pull requests"),
    ("machines", "Machines"),
    ("calibration", "Calibration"),
    ("live", "Live"),
];

/// The inputs from which the layout around a page is built.
pub struct PageLayout<'a> {
    pub site: &'a SiteState,
    pub project: &'a HostedProject,
    pub caller: &'a CallerIdentity,
    /// Entry of the navigation bar that leads to the page; empty if there is none. `None` for the
    /// login and for errors.
    pub section: Option<&'static str>,
    /// Path of the page's URL without the extension.
    pub path: &'a str,
    pub query: &'a PageQuery,
}

impl PageLayout<'_> {
    /// Builds a page for this layout. `name` is the name in its path after the project.
    ///
    /// # Errors
    /// Fails if the store cannot be read, or `build_page` fails.
    pub fn build_page(
        &self,
        build_page: PageHandler,
        name: &str,
        format: PageFormat,
    ) -> PageResult {
        let PageLayout { site, project, caller, query, .. } = *self;
        project.with_reader(|store| {
            build_page(PageContext { site, project, caller, store, name, query, format })
        })
    }

    /// Renders a page with the layout, or its document alone in another format.
    ///
    /// # Errors
    /// Fails if the data of the document cannot be serialized.
    pub fn render_page(&self, page: &PageContent, format: PageFormat) -> Result<Bytes, HttpError> {
        let in_memory = |error: std::io::Error| HttpError::from(anyhow::Error::from(error));
        if format == PageFormat::Picture {
            let chart = page.document.charts().next().ok_or_else(|| {
                HttpError::not_found("this page has no chart")
                    .with_hint("a trend of a case has one")
            })?;
            return Ok(Bytes::from(chart.picture.svg(chart.picture.natural_size())));
        }
        let PageFormat::Document(kind) = format else {
            let frame = self.build_frame(page);
            let html = render_page(&page.document, PageFrame::Served(&frame)).map_err(in_memory)?;
            return Ok(Bytes::from(html));
        };
        let mut bytes = Vec::new();
        let renderer = kind.file_renderer(Vec::new());
        renderer.render(&page.document.whole(), &mut bytes).map_err(in_memory)?;
        Ok(Bytes::from(bytes))
    }

    fn build_frame(&self, page: &PageContent) -> ServedFrame {
        let project = &self.project.name;
        let is_overview = self.section == Some(OVERVIEW_SECTION);
        let shows_project = self.caller.can_read(project)
            && self.section != Some(SETTINGS_SECTION)
            && (!is_overview
                || self.site.list_projects().is_ok_and(|projects| projects.len() == 1));
        let mut breadcrumbs = vec![PageLink::new("/", "projects")];
        if shows_project && !is_overview {
            breadcrumbs.push(PageLink::new(format!("/{project}/"), project));
        }
        breadcrumbs.extend(page.crumbs.iter().cloned());
        if let Some(last_crumb) = breadcrumbs.last_mut() {
            last_crumb.is_here = true;
        }
        ServedFrame {
            navigation: self.build_navigation(shows_project),
            breadcrumbs,
            assets: self.site.asset_paths.clone(),
            address: format!("{}{}", self.path, self.query.to_query_string()),
            feed: if shows_project { format!("/{project}/feed.atom") } else { String::new() },
            data_link: self.format_address("json"),
            formats: self.list_formats(page),
            search: if shows_project { format!("/{project}/search") } else { String::new() },
            account: self.account_link(),
            changes: page.changes.clone(),
            filters: page.filters.clone(),
            links: page.links.clone(),
            choice: page.choice.clone(),
            sort_link: page.sort_link.clone(),
            events: page.events.clone(),
            progress: page.progress.clone(),
            is_reloaded: self.query.get("every").is_some(),
            charts: match &page.charts {
                ChartsLocation::Here => ChartsLocation::Apart(part_link_prefix(self.query)),
                part => part.clone(),
            },
        }
    }

    /// Builds the navigation bar; settings are included for administrators only.
    fn build_navigation(&self, shows_project: bool) -> Vec<PageLink> {
        let entry = |section: &str, href: String, label: &str| PageLink {
            is_here: self.section == Some(section),
            ..PageLink::new(href, label)
        };
        let mut navigation = vec![entry(OVERVIEW_SECTION, "/".to_owned(), "Speedwell")];
        if shows_project {
            let project = &self.project.name;
            let open = self.project.known_open_changes();
            navigation.extend(NAVIGATION_PAGES.iter().map(|(page, label)| {
                let is_counted = open > 0 && *page == CHANGES_SECTION;
                let count = if is_counted { format!(" {open}") } else { String::new() };
                entry(page, format!("/{project}/{page}"), &format!("{label}{count}"))
            }));
        }
        if self.caller.is_permitted(RequiredPermission::Admin, None) {
            navigation.push(entry(SETTINGS_SECTION, "/settings".to_owned(), "Settings"));
        }
        navigation
    }

    /// Lists the other formats of the page. An error has none.
    fn list_formats(&self, page: &PageContent) -> Vec<PageLink> {
        let is_listed = |file: &&FileFormat| match file.format {
            PageFormat::JsonLines => !page.sessions.is_empty(),
            _ => page.status.is_success() && !file.label.is_empty(),
        };
        let formats = FILE_FORMATS.iter().filter(is_listed);
        formats.map(|file| PageLink::new(self.format_address(file.extension), file.label)).collect()
    }

    /// Returns the address of the page in another format.
    fn format_address(&self, extension: &str) -> String {
        let path = match self.path.strip_suffix('/') {
            Some(folder) => format!("{folder}/index"),
            None => self.path.to_owned(),
        };
        format!("{path}.{extension}{}", self.query.to_query_string())
    }

    /// Returns the link to log in or out, or `None` if no login is offered.
    fn account_link(&self) -> Option<LoginState> {
        if self.caller.is_authenticated() {
            let name = self.caller.name.clone();
            return Some(LoginState::In { name, action: "/logout".into() });
        }
        let is_offered = self.site.access.offers_login() && self.section.is_some();
        is_offered.then(|| LoginState::Out(PageLink::new("/login", "log in")))
    }
}

/// Builds the response with a rendered page. `path` is the path of the page's URL; its last part
/// names the file if the page is downloaded.
pub fn page_response(status: StatusCode, format: PageFormat, path: &str, bytes: Bytes) -> Response {
    let mime = format.file_format().map_or("text/html; charset=utf-8", |file| file.mime);
    // The server's content security policy forbids the inline style and script of a standalone
    // file. The file is therefore downloaded instead of shown, as is a picture.
    let is_file = matches!(format, PageFormat::Document(ReportFormat::Html) | PageFormat::Picture);
    let disposition = (is_file && status == StatusCode::OK).then(|| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let characters = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c));
        let name: String = characters.collect();
        [(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))]
    });
    (disposition, typed_response(status, mime, bytes)).into_response()
}

/// Redirects to another page, keeping the format.
pub fn redirect_to_page(path: &str, format: PageFormat) -> Response {
    let address = match (format.file_format(), path.split_once('?')) {
        (None, _) => path.to_owned(),
        (Some(file), None) => format!("{path}.{}", file.extension),
        (Some(file), Some((path, query))) => format!("{path}.{}?{query}", file.extension),
    };
    (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response()
}

/// Redirects after an action. Browsers do not cache the redirect.
pub fn redirect_to(path: &str) -> Response {
    let headers = [(header::LOCATION, path), (header::CACHE_CONTROL, "no-store")];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// Builds a response of this media type.
pub fn typed_response(status: StatusCode, mime: &str, body: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, mime)], body.into()).into_response()
}

/// Builds a JSON response.
pub fn json_response(status: StatusCode, body: &Value) -> Response {
    typed_response(status, "application/json", body.to_string() + "\n")
}

/// Renders an error as a page or a document, with the layout for this caller.
pub fn error_page(
    context: &RequestContext,
    caller: &CallerIdentity,
    error: &HttpError,
    format: PageFormat,
) -> Response {
    let page =
        PageContent { status: error.status, ..PageContent::from_document(error_document(error)) };
    let format = match format {
        PageFormat::JsonLines => PageFormat::Document(ReportFormat::Json),
        PageFormat::Picture => PageFormat::Page,
        other => other,
    };
    let readable_project = context.project.as_deref().filter(|name| caller.can_read(name));
    let project = readable_project.and_then(|name| context.site.find_project(name).ok());
    let layout = PageLayout {
        site: &context.site,
        project: project.as_ref().unwrap_or(&context.site.first),
        caller,
        section: None,
        path: context.uri.path(),
        query: &PageQuery::default(),
    };
    let bytes = layout.render_page(&page, format).unwrap_or_default();
    let mut response = page_response(page.status, format, "", bytes);
    let headers = response.headers_mut();
    if page.status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    error.set_headers(headers);
    response
}

/// Describes an error, with links to similar pages.
fn error_document(error: &HttpError) -> Document {
    let mut document = Document::new("error");
    document.push(ReportBlock::Headline(error.message.clone()));
    document.extend(error.hints.iter().cloned().map(ReportBlock::Paragraph));
    document.attach_data("error", json!(error.message));
    document.attach_data("hint", json!(error.hints.join("; ")));
    if !error.nearest.is_empty() {
        document.push_heading(2, "Did you mean");
        document.push(link_table("nearest", &error.nearest));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_part_is_a_number_and_accepted_for_pages_only() {
        let query = PageQuery::parse("base=%401&charts=3").unwrap();
        let (wanted, rest) = split_part_query(&query, PageFormat::Page).unwrap();
        assert_eq!(wanted, Some(3));
        assert_eq!(rest.to_query_string(), "?base=@1");
        assert_eq!(part_link_prefix(&rest), "?base=@1&charts=");
        assert_eq!(part_link_prefix(&PageQuery::default()), "?charts=");
        let json = PageFormat::Document(speedwell_report::ReportFormat::Json);
        assert_eq!(split_part_query(&query, json).unwrap_err().status, 400);
        let query = PageQuery::parse("charts=all").unwrap();
        let refused = split_part_query(&query, PageFormat::Page).unwrap_err();
        assert_eq!(refused.status, 400);
    }
}
