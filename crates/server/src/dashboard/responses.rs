//! Builds responses: pages and documents, redirects, JSON, and errors shown as pages.

use crate::dashboard::access::CallerIdentity;
use crate::dashboard::address::PageFormat;
use crate::dashboard::layout::PageLayout;
use crate::dashboard::page::content::PageContent;
use crate::dashboard::query::PageQuery;
use crate::dashboard::request::RequestContext;
use crate::http::HttpError;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use speedwell_report::{
    ColumnKind, Document, ReportBlock, ReportCell, ReportColumn, ReportFormat, ReportRow,
    ReportTable,
};

/// Builds the response with a rendered page; `path` is the path of its address.
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
        PageFormat::JsonLines => ".jsonl",
        PageFormat::Document(kind) => {
            let document = PageFormat::DOCUMENTS.iter().find(|(_, format)| *format == kind);
            document.map_or("", |(extension, _)| extension)
        }
    };
    let address = match (path.split_once('?'), extension) {
        (_, "") | (None, ".jsonl") => path.to_owned() + extension,
        (None, extension) => format!("{path}.{}", extension.trim_start_matches('.')),
        (Some((path, query)), extension) => {
            format!("{path}.{}?{query}", extension.trim_start_matches('.'))
        }
    };
    let builder =
        Response::builder().status(StatusCode::SEE_OTHER).header(header::LOCATION, address);
    // Our own addresses contain only printable ASCII, so this cannot fail.
    builder.body(Body::empty()).unwrap_or_default()
}

/// Redirects after an action. The redirect itself is not stored.
pub fn redirect_to(path: &str) -> Response<Body> {
    let builder = Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, path)
        .header(header::CACHE_CONTROL, "no-store");
    builder.body(Body::empty()).unwrap_or_default()
}

/// Builds a JSON response.
pub fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string() + "\n"));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
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
        let rows = error
            .nearest
            .iter()
            .map(|(href, name)| ReportRow::Cells(vec![ReportCell::words(name).with_link(href)]));
        document.push(ReportBlock::Table(ReportTable {
            columns: vec![ReportColumn::new("name", "name", ColumnKind::Label)],
            rows: rows.collect(),
            ..ReportTable::new("nearest")
        }));
    }
    document
}
