//! Builds responses: pages with the layout around them (navigation, breadcrumbs, links to other
//! formats, and login), documents, redirects, JSON, and errors shown as pages. Start at
//! [`PageLayout::render_page`] and [`page_response`].

use crate::dashboard::access::{CallerIdentity, RequiredPermission};
use crate::dashboard::link::PageFormat;
use crate::dashboard::page::{self, PageContent};
use crate::dashboard::project::HostedProject;
use crate::dashboard::request::{PageQuery, RequestContext};
use crate::dashboard::site::SiteState;
use crate::http::HttpError;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use speedwell_report::html::{
    ChartsLocation, LoginState, PageFrame, PageLink, ServedFrame, render_page,
};
use speedwell_report::{Document, ReportBlock, ReportFormat};

/// Section of the overview of all projects.
pub const OVERVIEW_SECTION: &str = "overview";
/// Section of the settings of the server.
pub const SETTINGS_SECTION: &str = "settings";

/// Pages in the navigation bar, with their labels.
const NAVIGATION_PAGES: [(&str, &str); 8] = [
    ("sessions", "Sessions"),
    ("benchmarks", "Benchmarks"),
    ("trend", "Trend"),
    ("compare", "Compare"),
    ("alerts", "Changes"),
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
    /// Renders a page with the layout, or its document alone in another format.
    ///
    /// # Errors
    /// Fails if the data of the document cannot be serialized.
    pub fn render_page(&self, page: &PageContent, format: PageFormat) -> Result<Bytes, HttpError> {
        let in_memory = |error: std::io::Error| HttpError::from(anyhow::Error::from(error));
        let PageFormat::Document(kind) = format else {
            let frame = self.build_frame(page);
            let html = render_page(&page.document, PageFrame::Served(&frame)).map_err(in_memory)?;
            return Ok(Bytes::from(html));
        };
        let mut bytes = Vec::new();
        let renderer = kind.file_renderer(Vec::new());
        renderer.render(&page.document, &mut bytes).map_err(in_memory)?;
        Ok(Bytes::from(bytes))
    }

    fn build_frame(&self, page: &PageContent) -> ServedFrame {
        let project = &self.project.name;
        let is_overview = self.section == Some(OVERVIEW_SECTION);
        let shows_project = self.caller.can_read(project)
            && self.section != Some(SETTINGS_SECTION)
            && (!is_overview || self.site.has_one_project());
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
            data_link: self.format_address("json"),
            formats: self.list_formats(page),
            search: if shows_project { format!("/{project}/search") } else { String::new() },
            account: self.account_link(),
            changes: page.changes.clone(),
            filters: page.filters.clone(),
            links: page.links.clone(),
            choice: page.choice.clone(),
            events: page.events.clone(),
            is_reloaded: self.query.get("every").is_some(),
            charts: match &page.charts {
                ChartsLocation::Here => ChartsLocation::Apart(page::part_link_prefix(self.query)),
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
            navigation.extend(
                NAVIGATION_PAGES
                    .iter()
                    .map(|(page, label)| entry(page, format!("/{project}/{page}"), label)),
            );
        }
        if self.caller.is_permitted(RequiredPermission::Admin, None) {
            navigation.push(entry(SETTINGS_SECTION, "/settings".to_owned(), "Settings"));
        }
        navigation
    }

    /// Lists the other formats of the page. An error has none.
    fn list_formats(&self, page: &PageContent) -> Vec<PageLink> {
        let mut formats: Vec<PageLink> = PageFormat::DOCUMENTS
            .iter()
            .filter(|(extension, _)| *extension != "json" && page.status.is_success())
            .map(|(extension, _)| {
                PageLink::new(self.format_address(extension), format_label(extension))
            })
            .collect();
        if !page.sessions.is_empty() {
            formats
                .push(PageLink::new(self.format_address("jsonl"), "JSON Lines with every sample"));
        }
        formats
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

fn format_label(extension: &str) -> &'static str {
    match extension {
        "md" => "Markdown",
        "csv" => "CSV",
        "html" => "standalone HTML",
        _ => "text",
    }
}

/// Builds the response with a rendered page. `path` is the path of the page's URL; its last part
/// names the file if the page is downloaded.
pub fn page_response(
    status: StatusCode,
    format: PageFormat,
    path: &str,
    bytes: Bytes,
) -> Response<Body> {
    let mime = match format {
        PageFormat::Page | PageFormat::Document(ReportFormat::Html) => "text/html; charset=utf-8",
        PageFormat::Document(ReportFormat::Json) => "application/json",
        PageFormat::Document(ReportFormat::Csv) => "text/csv; charset=utf-8",
        PageFormat::Document(ReportFormat::Markdown) => "text/markdown; charset=utf-8",
        PageFormat::Document(_) => "text/plain; charset=utf-8",
        PageFormat::JsonLines => "application/jsonl",
    };
    let mut builder = Response::builder().status(status).header(header::CONTENT_TYPE, mime);
    // The server's content security policy forbids the inline style and script of a standalone
    // file. The file is therefore downloaded instead of shown.
    if format == PageFormat::Document(ReportFormat::Html) && status == StatusCode::OK {
        let name = path.rsplit('/').next().unwrap_or_default();
        let characters = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c));
        let name: String = characters.collect();
        builder =
            builder.header(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""));
    }
    builder.body(Body::from(bytes)).unwrap_or_default()
}

/// Redirects to another page, keeping the format.
pub fn redirect_to_page(path: &str, format: PageFormat) -> Response<Body> {
    let extension = match format {
        PageFormat::Page => "",
        PageFormat::JsonLines => "jsonl",
        PageFormat::Document(kind) => {
            let document = PageFormat::DOCUMENTS.iter().find(|(_, format)| *format == kind);
            document.map_or("", |(extension, _)| extension)
        }
    };
    let address = match path.split_once('?') {
        _ if extension.is_empty() => path.to_owned(),
        None => format!("{path}.{extension}"),
        Some((path, query)) => format!("{path}.{extension}?{query}"),
    };
    let builder =
        Response::builder().status(StatusCode::SEE_OTHER).header(header::LOCATION, address);
    // Our own addresses contain only printable ASCII, so this cannot fail.
    builder.body(Body::empty()).unwrap_or_default()
}

/// Redirects after an action. Browsers do not cache the redirect.
pub fn redirect_to(path: &str) -> Response<Body> {
    let builder = Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, path)
        .header(header::CACHE_CONTROL, "no-store");
    builder.body(Body::empty()).unwrap_or_default()
}

/// Builds a response of this media type.
pub fn typed_response(
    status: StatusCode,
    mime: &'static str,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(mime));
    response
}

/// Builds a JSON response.
pub fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    typed_response(status, "application/json", body.to_string() + "\n")
}

/// Renders an error as a page or a document, with the layout for this caller.
pub fn error_page(
    context: &RequestContext,
    caller: &CallerIdentity,
    error: &HttpError,
    format: PageFormat,
) -> Response<Body> {
    let page =
        PageContent { status: error.status, ..PageContent::from_document(error_document(error)) };
    let format = match format {
        PageFormat::JsonLines => PageFormat::Document(ReportFormat::Json),
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
        document.push(page::link_table("nearest", &error.nearest));
    }
    document
}
