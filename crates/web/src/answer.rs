//! Handles requests for pages: identifies the caller, finds the page of the address, renders it in
//! the requested format, and caches it while it remains valid.
//!
//! GET requests change nothing; forms are handled in `change.rs`. Start at [`router`].

use crate::access::{self, Caller, Need};
use crate::address::{Address, Format, Place};
use crate::frame::{Around, around as frame};
use crate::page::charts::Wanted;
use crate::page::{self, Outcome, Page, Visit};
use crate::project::Project;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::site::{PATIENCE, Site};
use crate::{change, live, operation};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use speedwell_report::html::{Frame, page as html_page};
use speedwell_serve::Client;
use speedwell_serve::etag::unless_known;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum size of a form.
const FORM_BYTES: usize = 64 << 10;

/// Returns the router for all pages of a site.
pub fn router(site: Arc<Site>) -> Router {
    Router::new().fallback(handle).with_state(site)
}

async fn handle(
    State(site): State<Arc<Site>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response<Body> {
    let response = match *request.method() {
        Method::GET | Method::HEAD => {
            let asked = request.headers().clone();
            unless_known(&asked, looked(&site, client, request).await).await
        }
        Method::POST => changed(&site, client, request).await,
        _ => plain_refusal(&site, request.uri(), &not_allowed()),
    };
    let class = usize::from(response.status().as_u16() / 100).min(5);
    site.answers[class].fetch_add(1, Ordering::Relaxed);
    response
}

fn not_allowed() -> Refusal {
    Refusal {
        status: StatusCode::METHOD_NOT_ALLOWED,
        ..Refusal::bad("a page can be read, and some can be sent a form")
    }
}

/// Response to a GET request, or the event stream to follow.
enum Looked {
    Answer(Response<Body>),
    Stream(Arc<Project>, String),
}

/// Handles a GET request.
async fn looked(site: &Arc<Site>, client: Client, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let headers = parts.headers.clone();
    let is_heavy = ["/compare", "/trend", "/alerts"]
        .iter()
        .any(|page| parts.uri.path().contains(page));
    let found = if is_heavy {
        looked_long(site, client, parts).await
    } else {
        let work = {
            let site = site.clone();
            move || look(&site, &client, &parts.uri, &parts.headers)
        };
        site.light.run(work).await
    };
    match found {
        Ok(Looked::Answer(answer)) => answer,
        Ok(Looked::Stream(project, id)) => live::stream(site, &project, &id, &headers).await,
        Err(refusal) => refusal.answer(&headers),
    }
}

/// Handles an expensive GET request, subject to the per-client limit.
async fn looked_long(
    site: &Arc<Site>,
    client: Client,
    parts: Parts,
) -> Result<Looked, speedwell_serve::Refusal> {
    let who = {
        let (site, headers) = (site.clone(), parts.headers.clone());
        let client = client.clone();
        let light = site.light.clone();
        let ask = move || {
            let caller = access::caller(&site, &headers, &client);
            caller.map(|caller| caller.shares_as(&client))
        };
        light.run(ask).await?
    };
    let share = match who {
        Ok(who) => site.shares.take(&who).await?,
        Err(refusal) => return Ok(Looked::Answer(refusal.answer(&parts.headers))),
    };
    let work = {
        let site = site.clone();
        move || {
            let looked = look(&site, &client, &parts.uri, &parts.headers);
            drop(share);
            looked
        }
    };
    site.heavy.run_within(PATIENCE, work).await
}

/// Handles a submitted form.
async fn changed(site: &Arc<Site>, client: Client, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, FORM_BYTES).await else {
        let refusal = Refusal::bad("the form is longer than any form here");
        return plain_refusal(site, &parts.uri, &refusal);
    };
    let pool = site.light.clone();
    let (site, headers) = (site.clone(), parts.headers.clone());
    let work = move || {
        let changed = change::change(&site, &client, &parts.uri, &parts.headers, &body);
        changed.unwrap_or_else(|refusal| plain_refusal(&site, &parts.uri, &refusal))
    };
    let done = pool.run(work).await;
    done.unwrap_or_else(|refusal| refusal.answer(&headers))
}

/// Renders the page of an address.
fn look(site: &Site, client: &Client, uri: &Uri, headers: &HeaderMap) -> Looked {
    let caller = match access::caller(site, headers, client) {
        Ok(caller) => caller,
        Err(refusal) => return Looked::Answer(refusal.answer(headers)),
    };
    if let Some(answer) = operation::answer(site, &caller, uri) {
        return Looked::Answer(answer);
    }
    if uri.path() == "/login" {
        return Looked::Answer(change::login_page(site, client, uri));
    }
    let mut last = Format::Page;
    let found = find(site, &caller, uri, &mut last);
    Looked::Answer(match found {
        Ok(Looked::Answer(answer)) => answer,
        Ok(stream) => return stream,
        Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED && wants_page(headers) => {
            change::to_login(uri)
        }
        Err(refusal) => {
            let mut refusal = refusal;
            if let (StatusCode::NOT_FOUND, Ok(address)) =
                (refusal.status, Address::parse(uri.path()))
                && refusal.nearest.is_empty()
                && let Some(name) = address.project()
                && site.project(name).is_err()
            {
                refusal = refusal.nearest(site.projects_like(name, &caller));
            }
            refused(site, &caller, uri, &refusal, last)
        }
    })
}

/// Whether the client is a browser.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT);
    accepted.is_some_and(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
}

fn find(site: &Site, caller: &Caller, uri: &Uri, last: &mut Format) -> Result<Looked, Refusal> {
    let query = Query::parse(uri.query().unwrap_or_default())?;
    let address = Address::parse(uri.path())?;
    let project = match address.project() {
        Some(name) => {
            caller.ensure_may(Need::Read, Some(name))?;
            site.project(name)?
        }
        None => site.first.clone(),
    };
    let mut refusal = None;
    for (place, format) in address.readings(&project.name)? {
        *last = format;
        if let (Place::Events(id), Format::Page) = (&place, format) {
            return Ok(Looked::Stream(project, id.clone()));
        }
        ensure_may_see(site, caller, &place)?;
        let around = Around {
            site,
            project: &project,
            caller,
        };
        match answered(&around, uri, (&place, format), &query) {
            Err(refused) if refused.status == StatusCode::NOT_FOUND => refusal = Some(refused),
            done => return done.map(Looked::Answer),
        }
    }
    Err(refusal.unwrap_or_else(|| Refusal::missing("there is no page at this address")))
}

/// Returns the document at an address, for the API.
pub(crate) fn document(site: &Site, caller: &Caller, uri: &Uri) -> Result<Response<Body>, Refusal> {
    match find(site, caller, uri, &mut Format::default())? {
        Looked::Answer(answer) => Ok(answer),
        Looked::Stream(..) => Err(Refusal::missing("a stream of events is no document")),
    }
}

/// Rejects pages about the whole server for callers without permission.
fn ensure_may_see(site: &Site, caller: &Caller, place: &Place) -> Result<(), Refusal> {
    match place {
        Place::Settings => Ok(caller.ensure_may(Need::Admin, None)?),
        Place::Overview => {
            let projects = site.projects()?;
            let sees_one = projects
                .iter()
                .any(|(known, _)| caller.may_read(&known.name));
            if sees_one {
                return Ok(());
            }
            Ok(caller.ensure_may(Need::Read, None)?)
        }
        _ => Ok(()),
    }
}

fn answered(
    around: &Around<'_>,
    uri: &Uri,
    (place, format): (&Place, Format),
    query: &Query,
) -> Result<Response<Body>, Refusal> {
    let project = around.project;
    // The cache is keyed by caller: pages contain names and depend on permissions.
    let address = format!("{} {uri}", around.caller.kept_as());
    let (kept, version) = project.kept_page(&address)?;
    if let Some(bytes) = kept {
        return Ok(reply(StatusCode::OK, format, uri.path(), bytes));
    }
    let (part, query) = Wanted::taken_from(query, format)?;
    let (outcome, lines) = project.read(|store| {
        let visit = Visit {
            site: around.site,
            project,
            caller: around.caller,
            store,
            query: &query,
            format,
        };
        let outcome = page::page(visit, place)?;
        let lines = match (&outcome, format) {
            (Outcome::Page(page), Format::JsonLines) => Some(json_lines_of(store, page)?),
            _ => None,
        };
        Ok((outcome, lines))
    })?;
    let page = match outcome {
        Outcome::Page(page) => part.of(*page, &query)?,
        Outcome::Elsewhere(path) => return Ok(elsewhere(&path, format)),
    };
    let bytes = match lines {
        Some(lines) => Bytes::from(lines),
        None => rendered(around, Some(place), &page, format, uri.path(), &query)?,
    };
    if let (true, Some(version)) = (page.is_lasting, version) {
        project.keep_page(&address, &bytes, version)?;
    }
    Ok(reply(page.status, format, uri.path(), bytes))
}

pub(crate) fn rendered(
    around: &Around<'_>,
    place: Option<&Place>,
    page: &Page,
    format: Format,
    path: &str,
    query: &Query,
) -> Result<Bytes, Refusal> {
    let in_memory = |error: std::io::Error| Refusal::from(anyhow::Error::from(error));
    let Format::Document(kind) = format else {
        let frame = frame(around, place, page, path, query);
        let text = html_page(&page.document, Frame::Served(&frame)).map_err(in_memory)?;
        return Ok(Bytes::from(text));
    };
    let mut bytes = Vec::new();
    let renderer = kind.renderer(Vec::new());
    renderer
        .render(&page.document, &mut bytes)
        .map_err(in_memory)?;
    Ok(Bytes::from(bytes))
}

/// Returns all samples of the sessions behind a page.
fn json_lines_of(store: &speedwell_results::store::Store, page: &Page) -> Result<Vec<u8>, Refusal> {
    if page.sessions.is_empty() {
        return Err(Refusal::missing(
            "there is no session behind this page whose samples could be written",
        )
        .hint("its figures are at .json"));
    }
    let mut out = Vec::new();
    for number in &page.sessions {
        store.write_lines(*number, &mut out)?;
    }
    Ok(out)
}

/// Redirects to another address, keeping the format.
fn elsewhere(path: &str, format: Format) -> Response<Body> {
    let ending = match format {
        Format::Page => "",
        Format::JsonLines => ".jsonl",
        Format::Document(kind) => {
            let known = Format::DOCUMENTS.iter().find(|(_, own)| *own == kind);
            known.map_or("", |(ending, _)| ending)
        }
    };
    let address = match (path.split_once('?'), ending) {
        (_, "") | (None, ".jsonl") => path.to_owned() + ending,
        (None, ending) => format!("{path}.{}", ending.trim_start_matches('.')),
        (Some((path, query)), ending) => {
            format!("{path}.{}?{query}", ending.trim_start_matches('.'))
        }
    };
    let builder = Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, address);
    // Our own addresses contain printable ASCII only.
    builder.body(Body::empty()).unwrap_or_default()
}

/// Renders the response for an error.
fn refused(
    site: &Site,
    caller: &Caller,
    uri: &Uri,
    refusal: &Refusal,
    format: Format,
) -> Response<Body> {
    let mut document = refusal.document();
    page::add_nearest(&mut document, &refusal.nearest);
    let page = Page {
        status: refusal.status,
        ..Page::of(document)
    };
    let format = match format {
        Format::JsonLines => Format::Document(speedwell_report::Format::Json),
        other => other,
    };
    let address = Address::parse(uri.path()).ok();
    let name = address.as_ref().and_then(Address::project);
    let known = name.filter(|name| caller.may_read(name));
    let known = known.and_then(|name| site.project(name).ok());
    let around = Around {
        site,
        project: known.as_ref().unwrap_or(&site.first),
        caller,
    };
    let bytes = rendered(&around, None, &page, format, uri.path(), &Query::default());
    let mut answer = reply(page.status, format, "", bytes.unwrap_or_default());
    if page.status == StatusCode::UNAUTHORIZED {
        let how = HeaderValue::from_static("Bearer");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, how);
    }
    if let Some(seconds) = refusal.retry_after_s() {
        let seconds = HeaderValue::from(seconds);
        answer.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    answer
}

/// Renders an error for an anonymous caller.
fn plain_refusal(site: &Site, uri: &Uri, refusal: &Refusal) -> Response<Body> {
    refused(site, &Caller::default(), uri, refusal, Format::Page)
}

pub(crate) fn reply(
    status: StatusCode,
    format: Format,
    path: &str,
    bytes: Bytes,
) -> Response<Body> {
    use speedwell_report::Format as Kind;
    let mime = match format {
        Format::Page | Format::Document(Kind::Html) => "text/html; charset=utf-8",
        Format::Document(Kind::Json) => "application/json",
        Format::Document(Kind::Csv) => "text/csv; charset=utf-8",
        Format::Document(Kind::Markdown) => "text/markdown; charset=utf-8",
        Format::Document(_) => "text/plain; charset=utf-8",
        Format::JsonLines => "application/jsonl",
    };
    let mut builder = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, mime);
    // A standalone file contains inline style and script, which the server's content security
    // policy forbids, so it is downloaded instead of shown.
    if format == Format::Document(Kind::Html) && status == StatusCode::OK {
        let name = path.rsplit('/').next().unwrap_or_default();
        let letters = name
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c));
        let name: String = letters.collect();
        builder = builder.header(
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        );
    }
    builder.body(Body::from(bytes)).unwrap_or_default()
}
