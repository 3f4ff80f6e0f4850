//! Answers requests: identifies the caller, finds the route, checks the permission, runs the
//! handler, and shows errors.
//!
//! Work that blocks runs on the pools of the site. GET requests do not change results. Start at
//! [`router`].
//!
//! The router of axum does not fit. A name may contain dots and slashes, so that a path such as
//! `/PROJECT/benchmarks/parse.json` has two readings, and the store decides which one is right.
//! Also, callers must not learn which pages exist in a project that they may not read.

use crate::dashboard::address::{
    PageAddress, PageFormat, PageQuery, SESSION_TYPE, decode_parts, nearest_links,
};
use crate::dashboard::api::sessions;
use crate::dashboard::login::{identify_caller, redirect_to_login};
use crate::dashboard::page::{
    PageContent, PageLayout, cut_part, error_page, page_response, redirect_to_page,
    split_part_query,
};
use crate::dashboard::routes::{ROUTES, ResponseHandler, Route, RouteHandler};
use crate::dashboard::site::{HEAVY_TIMEOUTS, HostedProject, RequestContext};
use crate::dashboard::{CallerIdentity, RequiredPermission, SiteState};
use crate::http::assets::with_etag;
use crate::http::blocking::BlockingPool;
use crate::http::{ClientInfo, HttpError, accepts};
use axum::Router;
use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use speedwell_report::ReportFormat;
use speedwell_store::Store;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum size of a form, and of a JSON body of the API.
const MAX_FORM_BYTES: usize = 64 << 10;
/// Bytes of a session that are in memory while it arrives. The rest is in a file.
const MAX_PART_BYTES: usize = 1 << 20;

/// Returns the router of a site: its pages and their files, and the API.
pub fn router(site: Arc<SiteState>) -> Router {
    let files = site.assets.router();
    Router::new().fallback(handle).with_state(site).merge(files)
}

async fn handle(
    State(site): State<Arc<SiteState>>,
    Extension(client): Extension<ClientInfo>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let request_headers = head.headers.clone();
    let is_api = head.uri.path().strip_prefix("/api/").is_some_and(|rest| !rest.is_empty());
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    let is_form = head.method == Method::POST;
    let context = RequestContext::new(site.clone(), client, head);
    // Errors of the API become JSON. An error that is not shown as a page, such as a wrong token,
    // becomes text or JSON, whichever the client accepts.
    let mut response = if is_api {
        answer_api(context, body).await.unwrap_or_else(|error| error.to_json_response())
    } else if is_read {
        get_page(context).await.unwrap_or_else(HttpError::into_response)
    } else if is_form {
        post_form(context, body).await.unwrap_or_else(HttpError::into_response)
    } else {
        anonymous_error_page(
            &context,
            &method_error("method not allowed: pages accept GET and HEAD, forms accept POST"),
        )
    };
    if is_read {
        response = with_etag(&request_headers, response).await;
    }
    if !is_api {
        let class = usize::from(response.status().as_u16() / 100).min(5);
        site.response_counts[class].fetch_add(1, Ordering::Relaxed);
    }
    response
}

fn method_error(message: &str) -> HttpError {
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, message)
}

/// Renders an error for an anonymous caller.
fn anonymous_error_page(context: &RequestContext, error: &HttpError) -> Response {
    error_page(context, &CallerIdentity::default(), error, PageFormat::Page)
}

async fn answer_api(mut context: RequestContext, body: Body) -> Result<Response, HttpError> {
    let (route, names) = find_endpoint(&context.method, context.uri.path())?;
    let mut names = names.into_iter();
    context.project = names.next();
    context.name = names.next().unwrap_or_default();
    let pool = context.site.api.clone();
    // Reject unauthorized callers before reading the body.
    let mut context = authorize_caller(context, &pool, route.permission).await?;
    if route.body_type == Some(SESSION_TYPE) {
        context = receive_session(context, body, &pool).await?;
    } else {
        context.body = to_bytes(body, MAX_FORM_BYTES).await.map_err(|_| unreadable_body())?;
    }
    let work = move |context: RequestContext| match route.handler {
        RouteHandler::Response(handler) => handler(&context),
        RouteHandler::Page(_) => {
            let (project, query) = (context.find_project()?, context.parse_query()?);
            let format = PageFormat::Document(ReportFormat::Json);
            render_page(&context, &project, route, format, &query)
        }
    };
    run_work(context, &pool, route.is_heavy, work).await?
}

fn unreadable_body() -> HttpError {
    HttpError::bad_request("cannot read the body")
}

/// Receives the lines of a session. All but the last of them go to a file if there are many, so
/// that memory does not depend on their number.
async fn receive_session(
    mut context: RequestContext,
    mut body: Body,
    pool: &BlockingPool,
) -> Result<RequestContext, HttpError> {
    let mut part = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| unreadable_body())?;
        if let Some(bytes) = frame.data_ref() {
            part.extend_from_slice(bytes);
        }
        if part.len() >= MAX_PART_BYTES {
            let full_part = std::mem::take(&mut part);
            context = pool.run(move || sessions::spool_part(context, &full_part)).await??;
        }
    }
    context.body = part.into();
    Ok(context)
}

async fn get_page(mut context: RequestContext) -> Result<Response, HttpError> {
    let address = PageAddress::parse(context.uri.path());
    context.project = address.as_ref().ok().and_then(PageAddress::project).map(str::to_owned);
    let project = context.project.as_ref().unwrap_or(&context.site.first.name);
    let pages = address.and_then(|address| find_pages(&address, project));
    let is_heavy = pages.as_ref().is_ok_and(|pages| pages.iter().any(|page| page.route.is_heavy));
    let pool = context.site.pages.clone();
    let context = authorize_caller(context, &pool, RequiredPermission::Nothing).await?;
    run_work(context, &pool, is_heavy, move |context| show_page(context, pages)).await
}

async fn post_form(mut context: RequestContext, body: Body) -> Result<Response, HttpError> {
    let Ok(body) = to_bytes(body, MAX_FORM_BYTES).await else {
        let error = HttpError::bad_request("cannot read the form: expected at most 64 KiB");
        return Ok(anonymous_error_page(&context, &error));
    };
    context.body = body;
    let pool = context.site.pages.clone();
    let work = move || {
        let result = apply_form(&mut context);
        result.unwrap_or_else(|error| anonymous_error_page(&context, &error))
    };
    pool.run(work).await
}

/// Identifies the caller and checks its permission, on a thread of the pool.
async fn authorize_caller(
    mut context: RequestContext,
    pool: &BlockingPool,
    permission: RequiredPermission,
) -> Result<RequestContext, HttpError> {
    let identify = move || {
        context.caller = identify_caller(&context)?;
        context.caller.ensure_permitted(permission, context.project.as_deref())?;
        Ok::<_, HttpError>(context)
    };
    pool.run(identify).await?
}

/// Runs work on a thread of the pool. Expensive work counts towards the limit of the client, and
/// has a pool of its own.
async fn run_work<T: Send + 'static>(
    context: RequestContext,
    pool: &BlockingPool,
    is_heavy: bool,
    work: impl FnOnce(RequestContext) -> T + Send + 'static,
) -> Result<T, HttpError> {
    if !is_heavy {
        return pool.run(move || work(context)).await;
    }
    let site = context.site.clone();
    let client_key = context.caller.limiter_key(&context.client);
    let permit = site.client_limiter.acquire_permit(&client_key).await?;
    let limited_work = move || {
        let result = work(context);
        drop(permit);
        result
    };
    site.heavy.run_within(HEAVY_TIMEOUTS, limited_work).await
}

/// Answers a GET request. `pages` are the pages that match its address. Shows an error as a page
/// in the format of the address.
fn show_page(mut context: RequestContext, pages: Result<Vec<FoundPage>, HttpError>) -> Response {
    let mut format = PageFormat::Page;
    let mut error = match route_page(&mut context, pages, &mut format) {
        Ok(response) => return response,
        Err(error) => error,
    };
    // Browsers accept HTML.
    if error.status == StatusCode::UNAUTHORIZED && accepts(&context.headers, "text/html") {
        return redirect_to_login(&context.uri);
    }
    if error.status == StatusCode::NOT_FOUND
        && error.nearest.is_empty()
        && let Some(name) = &context.project
        && context.site.find_project(name).is_err()
    {
        error = error.with_nearest(context.site.similar_projects(name, &context.caller));
    }
    error_page(&context, &context.caller, &error, format)
}

/// Runs the handler of a GET request. Sets `last_format` to the format of the page that it tried
/// last.
fn route_page(
    context: &mut RequestContext,
    pages: Result<Vec<FoundPage>, HttpError>,
    last_format: &mut PageFormat,
) -> Result<Response, HttpError> {
    if let Some(handler) = find_fixed("GET", context.uri.path()) {
        return handler(context);
    }
    let query = context.parse_query()?;
    if context.project.is_some() {
        // Checked first, so that callers without the permission learn nothing about the project and
        // its pages.
        context.caller.ensure_permitted(RequiredPermission::Read, context.project.as_deref())?;
    }
    let project = context.find_project()?;
    let mut not_found = None;
    for page in pages? {
        *last_format = page.format;
        context.name = page.name;
        context.caller.ensure_permitted(page.route.permission, context.project.as_deref())?;
        if let (RouteHandler::Response(handler), PageFormat::Page) =
            (page.route.handler, page.format)
        {
            return handler(context);
        }
        match render_page(context, &project, page.route, page.format, &query) {
            Err(error) if error.status == StatusCode::NOT_FOUND => not_found = Some(error),
            result => return result,
        }
    }
    Err(not_found.unwrap_or_else(|| HttpError::not_found("page not found")))
}

/// Renders a page, or takes it from the cache of the project.
fn render_page(
    context: &RequestContext,
    project: &HostedProject,
    route: &Route,
    format: PageFormat,
    query: &PageQuery,
) -> Result<Response, HttpError> {
    let RouteHandler::Page(build_page) = route.handler else {
        return Err(HttpError::not_found("this address has no other formats"));
    };
    let path = context.uri.path();
    // The cache key includes the caller, because a page depends on the caller's name and
    // permissions, and the number of open changes, because the navigation shows it.
    let caller = context.caller.cache_key();
    let cache_key = || format!("{caller} {} {}", project.known_open_changes(), context.uri);
    let (cached, version) = project.cached_page(&cache_key())?;
    if let Some(bytes) = cached {
        return Ok(page_response(StatusCode::OK, format, path, bytes));
    }
    let (part, query) = split_part_query(query, format)?;
    let layout = PageLayout {
        site: &context.site,
        project,
        caller: &context.caller,
        section: Some(route.section),
        path,
        query: &query,
    };
    let page = layout.build_page(build_page, &context.name, format)?;
    if let Some(address) = &page.redirect {
        return Ok(redirect_to_page(address, format));
    }
    let page = match part {
        Some(number) => cut_part(page, number, &query)?,
        None => page,
    };
    // Building the page may have counted the open changes.
    let key = cache_key();
    let bytes = match format {
        PageFormat::JsonLines => project.with_reader(|store| session_lines(store, &page))?.into(),
        _ => layout.render_page(&page, format)?,
    };
    if let (true, Some(version)) = (page.is_cacheable, version) {
        project.cache_page(&key, &bytes, version, page.max_age)?;
    }
    Ok(page_response(page.status, format, path, bytes))
}

/// Returns the sessions behind a page as JSON Lines.
fn session_lines(store: &Store, page: &PageContent) -> Result<Vec<u8>, HttpError> {
    if page.sessions.is_empty() {
        return Err(HttpError::not_found("this page has no sessions to export as JSON Lines")
            .with_hint("its numbers are available as .json"));
    }
    let mut out = Vec::new();
    for number in &page.sessions {
        store.write_lines(*number, &mut out)?;
    }
    Ok(out)
}

/// Runs the handler of a form.
fn apply_form(context: &mut RequestContext) -> Result<Response, HttpError> {
    // A form that cannot be read is rejected first, whichever page it was sent to.
    context.parse_form()?;
    if let Some(handler) = find_fixed("POST", context.uri.path()) {
        return handler(context);
    }
    context.caller = identify_caller(context)?;
    let address = PageAddress::parse(context.uri.path())?;
    let project = address.project().unwrap_or_default();
    let pages = find_pages(&address, project)?;
    context.project = Some(project.to_owned());
    match pages.first().and_then(FoundPage::form_handler) {
        Some(handler) => handler(context),
        None => Err(method_error("this page does not accept forms")),
    }
}

/// Finds the endpoint of a request to the API, and the names in its path.
///
/// # Errors
/// Returns 404, or 405 with the allowed methods.
fn find_endpoint(method: &Method, path: &str) -> Result<(&'static Route, Vec<String>), HttpError> {
    if !path.starts_with("/api/v1/") {
        return Err(HttpError::not_found("unknown API version").with_hint("use /api/v1/"));
    }
    let parts = decode_parts(&path[1..])?;
    let mut methods = Vec::new();
    for route in ROUTES.iter().filter(|route| route.is_api()) {
        if let Some(names) = match_path(route.path, &parts) {
            if route.method == method.as_str() {
                return Ok((route, names));
            }
            methods.push(route.method);
        }
    }
    if methods.is_empty() {
        let hint = "GET /api/v1/openapi.json lists all endpoints";
        return Err(HttpError::not_found("API endpoint not found").with_hint(hint));
    }
    let message = format!("method {method} not allowed: expected {}", methods.join(", "));
    Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, message))
}

/// Finds the handler of a path without names, such as `/login`.
fn find_fixed(method: &str, path: &str) -> Option<ResponseHandler> {
    ROUTES.iter().find_map(|route| match route.handler {
        RouteHandler::Response(handler) if route.method == method && route.path == path => {
            route.is_fixed().then_some(handler)
        }
        _ => None,
    })
}

/// A page that an address may mean.
#[derive(Debug)]
struct FoundPage {
    route: &'static Route,
    /// The name in the path after the project; empty if there is none.
    name: String,
    format: PageFormat,
}

impl FoundPage {
    /// Returns the handler of the page's form, if the page itself has one.
    fn form_handler(&self) -> Option<ResponseHandler> {
        let is_form = |route: &&Route| route.method == "POST" && route.path == self.route.path;
        match ROUTES.iter().find(is_form)?.handler {
            RouteHandler::Response(handler) if self.format == PageFormat::Page => Some(handler),
            _ => None,
        }
    }
}

/// Returns the pages that an address may mean, most likely first. `project` is the only project
/// that the address may name.
///
/// # Errors
/// Fails if there is no such page.
fn find_pages(address: &PageAddress, project: &str) -> Result<Vec<FoundPage>, HttpError> {
    let (mut pages, mut first_error) = (Vec::new(), None);
    for (parts, format) in address.readings() {
        match find_page(&parts, project) {
            Ok((route, name)) => pages.push(FoundPage { route, name, format }),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        Some(error) if pages.is_empty() => Err(error),
        _ => Ok(pages),
    }
}

fn find_page(parts: &[String], project: &str) -> Result<(&'static Route, String), HttpError> {
    let found = page_routes().find_map(|route| Some((route, match_path(route.path, parts)?)));
    if let Some((route, names)) = found {
        let mut names = names.into_iter();
        if names.next().is_none_or(|name| name == project) {
            return Ok((route, names.next().unwrap_or_default()));
        }
    }
    let (first, segments) =
        parts.split_first().map_or(("", parts), |(first, rest)| (first.as_str(), rest));
    if first != project {
        return Err(HttpError::not_found(format!("project '{first}' not found"))
            .with_nearest(vec![(format!("/{project}/"), project.to_owned())]));
    }
    match segments.first() {
        Some(unknown) if segments.iter().all(|part| !part.is_empty()) => {
            Err(unknown_page(unknown, project))
        }
        _ => Err(HttpError::not_found("page not found")),
    }
}

/// Returns the error for a page that a project does not have, with pages of similar names.
fn unknown_page(unknown: &str, project: &str) -> HttpError {
    let known: BTreeSet<&str> = page_routes().filter_map(Route::page_name).collect();
    let has_page =
        |name: &str| page_routes().any(|route| route.path == format!("/{{project}}/{name}"));
    let mut similar_pages = nearest_links(unknown, known, |page| format!("/{project}/{page}"));
    similar_pages.retain(|(_, page)| has_page(page));
    HttpError::not_found(format!("page '{unknown}' not found")).with_nearest(similar_pages)
}

fn page_routes() -> impl Iterator<Item = &'static Route> {
    let is_page = |route: &&Route| {
        // Other fixed paths are looked up before.
        let is_found_here = !route.is_fixed() || matches!(route.handler, RouteHandler::Page(_));
        route.method == "GET" && !route.is_api() && is_found_here
    };
    ROUTES.iter().filter(is_page)
}

/// Matches the decoded parts of a requested path with the path of a route. Returns the text in place
/// of each `{name}`, in order, or `None` if they do not match.
fn match_path(pattern: &str, parts: &[String]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = parts;
    for expected in pattern.trim_start_matches('/').split('/') {
        let (part, after) = rest.split_first()?;
        let name = expected.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        match name {
            None if expected == part => rest = after,
            None => return None,
            Some(_) if part.is_empty() => return None,
            Some(name) if name.starts_with('@') && !part.starts_with('@') => return None,
            Some(name) if name.ends_with("...") => {
                if after.iter().any(String::is_empty) {
                    return None;
                }
                names.push(rest.join("/"));
                rest = &[];
            }
            Some(_) => {
                names.push(part.clone());
                rest = after;
            }
        }
    }
    rest.is_empty().then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the path of each route that an address may mean, with the name and the format.
    fn read(path: &str) -> Vec<(&'static str, String, PageFormat)> {
        let pages = PageAddress::parse(path)
            .and_then(|address| find_pages(&address, "demo"))
            .unwrap_or_default();
        pages.into_iter().map(|page| (page.route.path, page.name, page.format)).collect()
    }

    const JSON: PageFormat = PageFormat::Document(ReportFormat::Json);

    #[test]
    fn paths_resolve_to_a_route_a_name_and_a_format() {
        for (path, route, name, format) in [
            ("/", "/", "", PageFormat::Page),
            ("/index.json", "/", "", JSON),
            ("/settings", "/settings", "", PageFormat::Page),
            ("/demo/", "/{project}", "", PageFormat::Page),
            ("/demo.json", "/{project}", "", JSON),
            ("/demo/index.json", "/{project}", "", JSON),
            ("/demo/trend.json", "/{project}/trend", "", JSON),
            (
                "/demo/branches/fix/a%2Fb",
                "/{project}/branches/{name...}",
                "fix/a/b",
                PageFormat::Page,
            ),
            ("/demo/@branch:a/b", "/{project}/{@reference...}", "@branch:a/b", PageFormat::Page),
            ("/demo/sessions/x/live", "/{project}/sessions/{id}/live", "x", PageFormat::Page),
            ("/demo/sessions/x.jsonl", "/{project}/sessions/{id}", "x", PageFormat::JsonLines),
        ] {
            let found = read(path);
            assert_eq!(found.last(), Some(&(route, name.to_owned(), format)), "{path}");
        }
    }

    #[test]
    fn a_name_that_ends_like_a_format_is_a_name_first() {
        let route = "/{project}/benchmarks/{name...}";
        assert_eq!(
            read("/demo/benchmarks/g/parse.json"),
            [
                (route, "g/parse.json".to_owned(), PageFormat::Page),
                (route, "g/parse".to_owned(), JSON)
            ]
        );
        let with_ending = &read("/demo/benchmarks/g/parse.json.json")[1];
        assert_eq!(*with_ending, (route, "g/parse.json".to_owned(), JSON));
    }

    #[test]
    fn an_unknown_page_suggests_the_nearest_one() {
        let refused = |path: &str| {
            let read = PageAddress::parse(path).and_then(|address| find_pages(&address, "demo"));
            read.unwrap_err()
        };
        assert_eq!(refused("/dmo/").nearest[0].0, "/demo/");
        assert_eq!(refused("/demo/sesions").nearest[0].0, "/demo/sessions");
        for path in ["/demo//sessions", "/static/..%2f..%2fetc/passwd", "/demo/%00", "/demo/%ff"] {
            assert_eq!(refused(path).status, 404, "{path}");
        }
    }

    #[test]
    fn forms_are_accepted_by_a_page_but_not_by_its_other_formats() {
        let has_form = |path: &str| {
            let address = PageAddress::parse(path).unwrap();
            find_pages(&address, "demo").unwrap()[0].form_handler().is_some()
        };
        assert!(has_form("/demo/changes") && has_form("/demo/alerts"));
        for path in ["/demo/alerts.json", "/demo/trend", "/demo/"] {
            assert!(!has_form(path), "{path}");
        }
    }

    #[test]
    fn a_path_is_matched_as_a_whole() {
        let path = "/{project}/alerts";
        assert!(ROUTES.iter().any(|route| route.path == path));
        assert!(find_fixed("POST", path).is_none(), "the braces stand for a name");
        assert!(find_fixed("POST", "/login").is_some());
        assert!(find_fixed("GET", "/login/").is_none());
    }
}
