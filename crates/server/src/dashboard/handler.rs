//! Handles requests for pages: identifies the caller, finds the page of the address, renders it in
//! the requested format, and caches it while it remains valid.
//!
//! GET requests change no results. `forms.rs` handles forms. Start at [`router`].

use crate::dashboard::access::{self, CallerIdentity, RequiredPermission};
use crate::dashboard::address::{PageAddress, PageFormat, PageKind};
use crate::dashboard::layout::{LayoutContext, build_layout};
use crate::dashboard::page::charts::ChartPart;
use crate::dashboard::page::{self, PageContent, PageContext, PageOutcome};
use crate::dashboard::page_error::PageError;
use crate::dashboard::project::HostedProject;
use crate::dashboard::query::PageQuery;
use crate::dashboard::site::{HEAVY_TIMEOUTS, SiteState};
use crate::dashboard::{forms, live, operation};
use crate::http::ClientInfo;
use crate::http::etag::with_etag;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use speedwell_report::html::{PageFrame, render_page as html_page};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum size of a form.
const MAX_FORM_BYTES: usize = 64 << 10;

/// Returns the router for all pages of a site.
pub fn router(site: Arc<SiteState>) -> Router {
    Router::new().fallback(handle).with_state(site)
}

async fn handle(
    State(site): State<Arc<SiteState>>,
    Extension(client): Extension<ClientInfo>,
    request: Request,
) -> Response<Body> {
    let response = match *request.method() {
        Method::GET | Method::HEAD => {
            let request_headers = request.headers().clone();
            with_etag(&request_headers, get_page(&site, client, request).await).await
        }
        Method::POST => post_form(&site, client, request).await,
        _ => anonymous_error_response(&site, request.uri(), &not_allowed()),
    };
    let class = usize::from(response.status().as_u16() / 100).min(5);
    site.response_counts[class].fetch_add(1, Ordering::Relaxed);
    response
}

fn not_allowed() -> PageError {
    PageError {
        status: StatusCode::METHOD_NOT_ALLOWED,
        ..PageError::bad_request("method not allowed: pages accept GET and HEAD, forms accept POST")
    }
}

/// Response to a GET request: a complete response, or an event stream that the client will follow.
enum PageResponse {
    Answer(Response<Body>),
    Stream(Arc<HostedProject>, String),
}

async fn get_page(site: &Arc<SiteState>, client: ClientInfo, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let headers = parts.headers.clone();
    let is_heavy =
        ["/compare", "/trend", "/alerts"].iter().any(|page| parts.uri.path().contains(page));
    let result = if is_heavy {
        get_page_queued(site, client, parts).await
    } else {
        let work = {
            let site = site.clone();
            move || render_page(&site, &client, &parts.uri, &parts.headers)
        };
        site.light.run(work).await
    };
    match result {
        Ok(PageResponse::Answer(response)) => response,
        Ok(PageResponse::Stream(project, id)) => {
            live::stream_updates(site, &project, &id, &headers).await
        }
        Err(error) => error.to_response(&headers),
    }
}

/// Handles an expensive GET request, subject to the per-client limit.
async fn get_page_queued(
    site: &Arc<SiteState>,
    client: ClientInfo,
    parts: Parts,
) -> Result<PageResponse, crate::http::HttpError> {
    let client_key = {
        let (site, headers) = (site.clone(), parts.headers.clone());
        let client = client.clone();
        let light = site.light.clone();
        let identify = move || {
            let caller = access::identify_caller(&site, &headers, &client);
            caller.map(|caller| caller.limiter_key(&client))
        };
        light.run(identify).await?
    };
    let permit = match client_key {
        Ok(client_key) => site.client_limiter.acquire_permit(&client_key).await?,
        Err(error) => return Ok(PageResponse::Answer(error.to_response(&parts.headers))),
    };
    let work = {
        let site = site.clone();
        move || {
            let response = render_page(&site, &client, &parts.uri, &parts.headers);
            drop(permit);
            response
        }
    };
    site.heavy.run_within(HEAVY_TIMEOUTS, work).await
}

async fn post_form(site: &Arc<SiteState>, client: ClientInfo, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_FORM_BYTES).await else {
        let error = PageError::bad_request("cannot read the form: expected at most 64 KiB");
        return anonymous_error_response(site, &parts.uri, &error);
    };
    let pool = site.light.clone();
    let (site, headers) = (site.clone(), parts.headers.clone());
    let work = move || {
        let result = forms::apply_form(&site, &client, &parts.uri, &parts.headers, &body);
        result.unwrap_or_else(|error| anonymous_error_response(&site, &parts.uri, &error))
    };
    let response = pool.run(work).await;
    response.unwrap_or_else(|error| error.to_response(&headers))
}

fn render_page(
    site: &SiteState,
    client: &ClientInfo,
    uri: &Uri,
    headers: &HeaderMap,
) -> PageResponse {
    let caller = match access::identify_caller(site, headers, client) {
        Ok(caller) => caller,
        Err(error) => return PageResponse::Answer(error.to_response(headers)),
    };
    if let Some(response) = operation::operator_response(site, &caller, uri) {
        return PageResponse::Answer(response);
    }
    if uri.path() == "/login" {
        return PageResponse::Answer(forms::login_page(site, client, uri));
    }
    let mut last_format = PageFormat::Page;
    let result = route_page(site, &caller, uri, &mut last_format);
    PageResponse::Answer(match result {
        Ok(PageResponse::Answer(response)) => response,
        Ok(stream) => return stream,
        Err(error) if error.status == StatusCode::UNAUTHORIZED && accepts_html(headers) => {
            forms::redirect_to_login(uri)
        }
        Err(mut error) => {
            if let (StatusCode::NOT_FOUND, Ok(address)) =
                (error.status, PageAddress::parse(uri.path()))
                && error.nearest.is_empty()
                && let Some(name) = address.project()
                && site.find_project(name).is_err()
            {
                error = error.with_nearest(site.similar_projects(name, &caller));
            }
            error_response(site, &caller, uri, &error, last_format)
        }
    })
}

/// Whether the client accepts HTML, as browsers do.
fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT);
    accepted.is_some_and(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
}

fn route_page(
    site: &SiteState,
    caller: &CallerIdentity,
    uri: &Uri,
    last_format: &mut PageFormat,
) -> Result<PageResponse, PageError> {
    let query = PageQuery::parse(uri.query().unwrap_or_default())?;
    let address = PageAddress::parse(uri.path())?;
    let project = match address.project() {
        Some(name) => {
            caller.ensure_permitted(RequiredPermission::Read, Some(name))?;
            site.find_project(name)?
        }
        None => site.first.clone(),
    };
    let mut not_found = None;
    for (page_kind, format) in address.possible_pages(&project.name)? {
        *last_format = format;
        if let (PageKind::Events(id), PageFormat::Page) = (&page_kind, format) {
            return Ok(PageResponse::Stream(project, id.clone()));
        }
        ensure_visible(site, caller, &page_kind)?;
        let layout_context = LayoutContext { site, project: &project, caller };
        match cached_or_render(&layout_context, uri, (&page_kind, format), &query) {
            Err(error) if error.status == StatusCode::NOT_FOUND => not_found = Some(error),
            result => return result.map(PageResponse::Answer),
        }
    }
    Err(not_found.unwrap_or_else(|| PageError::not_found("page not found")))
}

/// Returns the document at an address, for the API.
pub(crate) fn document_response(
    site: &SiteState,
    caller: &CallerIdentity,
    uri: &Uri,
) -> Result<Response<Body>, PageError> {
    match route_page(site, caller, uri, &mut PageFormat::default())? {
        PageResponse::Answer(response) => Ok(response),
        PageResponse::Stream(..) => {
            Err(PageError::not_found("an event stream is not available as a document"))
        }
    }
}

/// Rejects pages about the whole server for callers without permission.
fn ensure_visible(
    site: &SiteState,
    caller: &CallerIdentity,
    page_kind: &PageKind,
) -> Result<(), PageError> {
    match page_kind {
        PageKind::Settings => Ok(caller.ensure_permitted(RequiredPermission::Admin, None)?),
        PageKind::Overview => {
            let projects = site.list_projects()?;
            let can_read_any = projects.iter().any(|(project, _)| caller.can_read(&project.name));
            if can_read_any {
                return Ok(());
            }
            Ok(caller.ensure_permitted(RequiredPermission::Read, None)?)
        }
        _ => Ok(()),
    }
}

fn cached_or_render(
    layout_context: &LayoutContext<'_>,
    uri: &Uri,
    (page_kind, format): (&PageKind, PageFormat),
    query: &PageQuery,
) -> Result<Response<Body>, PageError> {
    let project = layout_context.project;
    // The cache key includes the caller, because a page depends on the caller's name and
    // permissions.
    let address = format!("{} {uri}", layout_context.caller.cache_key());
    let (cached, version) = project.cached_page(&address)?;
    if let Some(bytes) = cached {
        return Ok(build_response(StatusCode::OK, format, uri.path(), bytes));
    }
    let (part, query) = ChartPart::split_query(query, format)?;
    let (outcome, json_lines) = project.with_reader(|store| {
        let context = PageContext {
            site: layout_context.site,
            project,
            caller: layout_context.caller,
            store,
            query: &query,
            format,
        };
        let outcome = page::build_page(context, page_kind)?;
        let json_lines = match (&outcome, format) {
            (PageOutcome::Page(page), PageFormat::JsonLines) => Some(session_lines(store, page)?),
            _ => None,
        };
        Ok((outcome, json_lines))
    })?;
    let page = match outcome {
        PageOutcome::Page(page) => part.cut_from(*page, &query)?,
        PageOutcome::Redirect(path) => return Ok(redirect_response(&path, format)),
    };
    let bytes = match json_lines {
        Some(json_lines) => Bytes::from(json_lines),
        None => render_bytes(layout_context, Some(page_kind), &page, format, uri.path(), &query)?,
    };
    if let (true, Some(version)) = (page.is_cacheable, version) {
        project.cache_page(&address, &bytes, version)?;
    }
    Ok(build_response(page.status, format, uri.path(), bytes))
}

pub(crate) fn render_bytes(
    layout_context: &LayoutContext<'_>,
    page_kind: Option<&PageKind>,
    page: &PageContent,
    format: PageFormat,
    path: &str,
    query: &PageQuery,
) -> Result<Bytes, PageError> {
    let in_memory = |error: std::io::Error| PageError::from(anyhow::Error::from(error));
    let PageFormat::Document(kind) = format else {
        let layout = build_layout(layout_context, page_kind, page, path, query);
        let html = html_page(&page.document, PageFrame::Served(&layout)).map_err(in_memory)?;
        return Ok(Bytes::from(html));
    };
    let mut bytes = Vec::new();
    let renderer = kind.file_renderer(Vec::new());
    renderer.render(&page.document, &mut bytes).map_err(in_memory)?;
    Ok(Bytes::from(bytes))
}

/// Returns all samples of the sessions behind a page.
fn session_lines(store: &speedwell_store::Store, page: &PageContent) -> Result<Vec<u8>, PageError> {
    if page.sessions.is_empty() {
        return Err(PageError::not_found("this page has no sessions to export as JSON Lines")
            .with_hint("its numbers are available as .json"));
    }
    let mut out = Vec::new();
    for number in &page.sessions {
        store.write_lines(*number, &mut out)?;
    }
    Ok(out)
}

/// Redirects to another address, keeping the format.
fn redirect_response(path: &str, format: PageFormat) -> Response<Body> {
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

/// Renders the response for an error.
fn error_response(
    site: &SiteState,
    caller: &CallerIdentity,
    uri: &Uri,
    error: &PageError,
    format: PageFormat,
) -> Response<Body> {
    let mut document = error.to_document();
    page::add_nearest(&mut document, &error.nearest);
    let page = PageContent { status: error.status, ..PageContent::from_document(document) };
    let format = match format {
        PageFormat::JsonLines => PageFormat::Document(speedwell_report::ReportFormat::Json),
        other => other,
    };
    let address = PageAddress::parse(uri.path()).ok();
    let project = address
        .as_ref()
        .and_then(PageAddress::project)
        .filter(|name| caller.can_read(name))
        .and_then(|name| site.find_project(name).ok());
    let layout_context =
        LayoutContext { site, project: project.as_ref().unwrap_or(&site.first), caller };
    let bytes =
        render_bytes(&layout_context, None, &page, format, uri.path(), &PageQuery::default());
    let mut response = build_response(page.status, format, "", bytes.unwrap_or_default());
    if page.status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    }
    if let Some(seconds) = error.retry_after_s() {
        let seconds = HeaderValue::from(seconds);
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// Renders an error for an anonymous caller.
fn anonymous_error_response(site: &SiteState, uri: &Uri, error: &PageError) -> Response<Body> {
    error_response(site, &CallerIdentity::default(), uri, error, PageFormat::Page)
}

pub(crate) fn build_response(
    status: StatusCode,
    format: PageFormat,
    path: &str,
    bytes: Bytes,
) -> Response<Body> {
    use speedwell_report::ReportFormat as Kind;
    let mime = match format {
        PageFormat::Page | PageFormat::Document(Kind::Html) => "text/html; charset=utf-8",
        PageFormat::Document(Kind::Json) => "application/json",
        PageFormat::Document(Kind::Csv) => "text/csv; charset=utf-8",
        PageFormat::Document(Kind::Markdown) => "text/markdown; charset=utf-8",
        PageFormat::Document(_) => "text/plain; charset=utf-8",
        PageFormat::JsonLines => "application/jsonl",
    };
    let mut builder = Response::builder().status(status).header(header::CONTENT_TYPE, mime);
    // The server's content security policy forbids the inline style and script of a standalone
    // file. The file is therefore downloaded instead of shown.
    if format == PageFormat::Document(Kind::Html) && status == StatusCode::OK {
        let name = path.rsplit('/').next().unwrap_or_default();
        let characters = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c));
        let name: String = characters.collect();
        builder =
            builder.header(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""));
    }
    builder.body(Body::from(bytes)).unwrap_or_default()
}
