//! Requests in, answers out: finds the page of an address, renders it in the format that is asked for, and keeps what holds.
//!
//! Nothing here changes the store, whatever a request says. Start at [`router`].

use crate::address::{Address, Format, Place};
use crate::frame::around;
use crate::live;
use crate::page::{self, Outcome, Page, Visit};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::site::Site;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, Response, StatusCode, Uri, header};
use speedwell_report::html::{Frame, page as html_page};
use speedwell_results::formats::json_lines;
use std::sync::Arc;

/// All pages of a site.
pub fn router(site: Arc<Site>) -> Router {
    Router::new().fallback(handle).with_state(site)
}

async fn handle(State(site): State<Arc<Site>>, request: Request) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let refusal = Refusal {
            status: StatusCode::METHOD_NOT_ALLOWED,
            ..Refusal::bad("pages can be read only")
        };
        return refused(&site, request.uri(), &refusal, Format::Page);
    }
    if let Some(id) = events_of(&site, request.uri()) {
        return live::stream(&site, &id, request.headers()).await;
    }
    let is_heavy = ["/compare", "/trend", "/alerts"]
        .iter()
        .any(|page| request.uri().path().contains(page));
    let pool = if is_heavy { &site.heavy } else { &site.light };
    let work = {
        let (site, uri) = (site.clone(), request.uri().clone());
        move || answer(&site, &uri)
    };
    pool.run(work)
        .await
        .unwrap_or_else(|refusal| refusal.answer(request.headers()))
}

/// The session whose events are asked for, if they are.
fn events_of(site: &Site, uri: &Uri) -> Option<String> {
    let readings = Address::parse(uri.path())
        .ok()?
        .readings(&site.project)
        .ok()?;
    match readings.into_iter().next()? {
        (Place::Events(id), Format::Page) => Some(id),
        _ => None,
    }
}

/// The answer to a question about a page.
fn answer(site: &Site, uri: &Uri) -> Response<Body> {
    let mut last = Format::Page;
    let found = (|| {
        let query = Query::parse(uri.query().unwrap_or_default())?;
        let readings = Address::parse(uri.path())?.readings(&site.project)?;
        let mut refusal = None;
        for (place, format) in readings {
            last = format;
            match answered(site, uri, (&place, format), &query) {
                Err(refused) if refused.status == StatusCode::NOT_FOUND => refusal = Some(refused),
                done => return done,
            }
        }
        Err(refusal.unwrap_or_else(|| Refusal::missing("there is no page at this address")))
    })();
    found.unwrap_or_else(|refusal| refused(site, uri, &refusal, last))
}

fn answered(
    site: &Site,
    uri: &Uri,
    (place, format): (&Place, Format),
    query: &Query,
) -> Result<Response<Body>, Refusal> {
    let address = uri.to_string();
    let (kept, version) = site.kept_page(&address)?;
    if let Some(bytes) = kept {
        return Ok(reply(StatusCode::OK, format, uri.path(), bytes));
    }
    let (outcome, lines) = site.read(|store| {
        let visit = Visit {
            site,
            store,
            query,
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
        Outcome::Page(page) => *page,
        Outcome::Elsewhere(path) => return Ok(elsewhere(&path, format)),
    };
    let bytes = match lines {
        Some(lines) => Bytes::from(lines),
        None => rendered(site, Some(place), &page, format, uri.path(), query)?,
    };
    if let (true, Some(version)) = (page.is_lasting, version) {
        site.keep_page(&address, &bytes, version)?;
    }
    Ok(reply(page.status, format, uri.path(), bytes))
}

pub(crate) fn rendered(
    site: &Site,
    place: Option<&Place>,
    page: &Page,
    format: Format,
    path: &str,
    query: &Query,
) -> Result<Bytes, Refusal> {
    let in_memory = |error: std::io::Error| Refusal::from(anyhow::Error::from(error));
    let Format::Document(kind) = format else {
        let frame = around(site, place, page, path, query);
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

/// Every sample of the sessions behind a page.
fn json_lines_of(store: &speedwell_results::store::Store, page: &Page) -> Result<Vec<u8>, Refusal> {
    if page.sessions.is_empty() {
        return Err(Refusal::missing(
            "there is no session behind this page whose samples could be written",
        )
        .hint("its figures are at .json"));
    }
    let mut out = Vec::new();
    for number in &page.sessions {
        json_lines::write(&store.session(*number)?, &mut out)?;
    }
    Ok(out)
}

/// Another address in the same format.
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
    // Our own addresses hold printable ASCII only.
    builder.body(Body::empty()).unwrap_or_default()
}

/// The answer where there is no page.
fn refused(site: &Site, uri: &Uri, refusal: &Refusal, format: Format) -> Response<Body> {
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
    let bytes = rendered(site, None, &page, format, uri.path(), &Query::default());
    reply(page.status, format, "", bytes.unwrap_or_default())
}

fn reply(status: StatusCode, format: Format, path: &str, bytes: Bytes) -> Response<Body> {
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
    // A single file has its style and script inside, which pages of the server are forbidden: it is to be kept, not shown.
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
