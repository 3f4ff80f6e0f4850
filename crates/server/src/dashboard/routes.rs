//! Contains the table of all routes: method, path, permission and handler of every page, form and
//! endpoint of the API.
//!
//! `server::http` itself answers `/health` and serves the files below `/static/`. The OpenAPI
//! document is generated from the table. The tests request each endpoint with each kind of token.
//!
//! The router of axum does not fit. A name may contain dots and slashes, so that a path such as
//! `/PROJECT/benchmarks/parse.json` has two readings, and the store decides which one is right.
//! Also, callers must not learn which pages exist in a project that they may not read.

use self::RouteHandler::{Page, Response, Stream};
use crate::dashboard::api::{self, sessions};
use crate::dashboard::login;
use crate::dashboard::page::catalog::{
    benchmark_page, benchmarks_page, calibration_page, machine_page, machines_page, search_page,
};
use crate::dashboard::page::compare::compare_page;
use crate::dashboard::page::history::{alerts_page, trend_page, triage_change};
use crate::dashboard::page::live::{live_page, session_live_page, stream_updates};
use crate::dashboard::page::project::{overview_page, project_page, settings_page};
use crate::dashboard::page::revision::{branch_page, pull_page, revision_page};
use crate::dashboard::page::session::{reference_page, session_page, sessions_page};
use crate::dashboard::page::{
    OVERVIEW_SECTION, PageContext, PageResult, SETTINGS_SECTION, json_response,
};
use crate::dashboard::project::HostedProject;
use crate::dashboard::request::{PageAddress, PageFormat, RequestContext, decode_segment};
use crate::dashboard::site::RequiredPermission::{self, Admin, Nothing, Push, Read, Triage};
use crate::dashboard::site::nearest_names;
use crate::http::HttpError;
use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Media type of the lines of a session.
pub const SESSION_TYPE: &str = "application/jsonl";

/// All routes. If several match a path, the first one is used.
const ROUTES: &[Route] = &[
    // Routes for operators and for logins. The handlers check permissions themselves.
    get("/health/ready", Nothing, Response(api::check_ready)),
    get("/metrics", Read, Response(api::report_metrics)),
    get("/login", Nothing, Response(login::login_page)),
    post("/login", Nothing, Response(login::log_in)),
    post("/logout", Nothing, Response(login::log_out)),
    // Pages of the server. The overview omits projects that the caller may not read.
    get("/", Nothing, Page(overview_page)).in_section(OVERVIEW_SECTION),
    get("/settings", Admin, Page(settings_page)).in_section(SETTINGS_SECTION),
    // Pages of a project.
    get("/{project}", Read, Page(project_page)),
    get("/{project}/sessions", Read, Page(sessions_page)).in_section("sessions"),
    get("/{project}/sessions/{id}/live", Read, Page(session_live_page)).in_section("live"),
    get("/{project}/sessions/{id}/events", Read, Stream(stream_updates)),
    get("/{project}/sessions/{id}", Read, Page(session_page)).in_section("sessions"),
    get("/{project}/sessions/{@reference...}", Read, Page(session_page)).in_section("sessions"),
    get("/{project}/{@reference...}", Read, Page(reference_page)).in_section("sessions"),
    get("/{project}/benchmarks", Read, Page(benchmarks_page)).in_section("benchmarks"),
    get("/{project}/benchmarks/{name...}", Read, Page(benchmark_page)).in_section("benchmarks"),
    get("/{project}/trend", Read, Page(trend_page)).in_section("trend").heavy(),
    get("/{project}/compare", Read, Page(compare_page)).in_section("compare").heavy(),
    get("/{project}/revisions/{id...}", Read, Page(revision_page)).in_section("sessions"),
    get("/{project}/branches/{name...}", Read, Page(branch_page)).in_section("sessions"),
    get("/{project}/pulls/{number}", Read, Page(pull_page)).in_section("sessions"),
    get("/{project}/machines", Read, Page(machines_page)).in_section("machines"),
    get("/{project}/machines/{number}", Read, Page(machine_page)).in_section("machines"),
    get("/{project}/calibration", Read, Page(calibration_page)).in_section("calibration"),
    get("/{project}/alerts", Read, Page(alerts_page)).in_section("alerts").heavy(),
    get("/{project}/live", Read, Page(live_page)).in_section("live"),
    get("/{project}/search", Read, Page(search_page)),
    // A form checks the permission itself, because the audit log records refusals.
    post("/{project}/alerts", Triage, Response(triage_change)),
    // Endpoints of the API: uploads and sessions.
    get(
        "/api/v1/openapi.json",
        Nothing,
        Response(|_| Ok(json_response(StatusCode::OK, &openapi_document(ROUTES)))),
    )
    .describe("The OpenAPI document of this API", &[])
    .with_bodies(None, &[(200, "the OpenAPI document")]),
    Route::new("PUT", "/api/v1/{project}/sessions/{id}", Push, Response(sessions::put_session))
        .describe(
            "Upload a session: all its lines, stored once even if the request is repeated",
            &[("sha256", "digest of all lines")],
        )
        .with_bodies(
            Some(SESSION_TYPE),
            &[
                (200, "'known': the session was stored before"),
                (201, "'stored': the session is stored now"),
            ],
        ),
    get("/api/v1/{project}/sessions/{id}", Read, Response(sessions::get_session))
        .describe("A session as JSON Lines", &[])
        .with_bodies(None, &[(200, "the lines of the session")]),
    Route::new(
        "DELETE",
        "/api/v1/{project}/sessions/{id}",
        Admin,
        Response(sessions::delete_session),
    )
    .describe("Delete a session; it can be restored for 7 days", &[])
    .with_bodies(None, &[(200, "'deleted'")]),
    post("/api/v1/{project}/sessions/{id}/tags", Push, Response(sessions::add_tag))
        .describe("Add a tag to a session: {\"tag\"}", &[])
        .with_bodies(
            Some("application/json"),
            &[(200, "'tagged', even if the session already had the tag")],
        ),
    // Endpoints of the API: documents, most of which are also pages.
    get("/api/v1/projects", Nothing, Page(overview_page))
        .describe("All readable projects, with their newest sessions", &[]),
    get("/api/v1/{project}/sessions", Read, Page(sessions_page)).describe(
        "The newest sessions",
        &[
            ("branch", "only sessions of this branch"),
            ("before", "only sessions before this number, for paging"),
        ],
    ),
    get("/api/v1/{project}/compare", Read, Page(compare_page)).heavy().describe(
        "A comparison, like speedwell compare",
        &[
            ("base", "the baseline session, e.g. @prev"),
            ("with", "the candidate session, e.g. @latest"),
        ],
    ),
    get("/api/v1/{project}/trend", Read, Page(trend_page)).heavy().describe(
        "Results over time, like speedwell history trend",
        &[
            ("case", "case id"),
            ("metric", "metric name"),
            ("variant", "variant name"),
            ("branch", "branch name"),
            ("machine", "machine number"),
            ("from", "date of the first commit, e.g. 2026-03-01"),
            ("to", "date of the last commit"),
            ("space", "horizontal axis: revision or time"),
        ],
    ),
    get("/api/v1/{project}/gate", Read, Response(api::evaluate_gate)).heavy().describe(
        "Exit status of speedwell compare --fail-on: {\"status\", \"words\"}",
        &[
            ("base", "the baseline session, e.g. @prev"),
            ("with", "the candidate session, e.g. @latest"),
            ("fail-on", "worse (default), unclear or never"),
            ("threshold", "smallest change that matters, e.g. 2%"),
            ("method", "statistical test"),
            ("correct", "multiple-testing correction"),
        ],
    ),
    get("/api/v1/{project}/series", Read, Response(api::list_series))
        .describe("All series: case, variant and metric", &[]),
    get("/api/v1/{project}/points", Read, Response(api::list_points)).describe(
        "The newest points of a series",
        &[
            ("series", "series number"),
            ("most", "number of points (default 1,000, maximum 10,000)"),
        ],
    ),
    get("/api/v1/{project}/benchmarks", Read, Page(benchmarks_page))
        .describe("All benchmarks", &[]),
    get("/api/v1/{project}/machines", Read, Page(machines_page)).describe("All machines", &[]),
    get("/api/v1/{project}/alerts", Read, Page(alerts_page)).heavy().describe("Open changes", &[]),
    get("/api/v1/tokens", Admin, Response(api::list_tokens))
        .describe("All tokens, without their secrets", &[]),
    get("/api/v1/audit", Admin, Response(api::list_audit_entries))
        .describe("The newest 200 entries of the audit log", &[]),
    get("/api/v1/settings", Admin, Page(settings_page))
        .describe("Projects, tokens and the audit log", &[]),
];

const fn get(path: &'static str, permission: RequiredPermission, handler: RouteHandler) -> Route {
    Route::new("GET", path, permission, handler)
}

const fn post(path: &'static str, permission: RequiredPermission, handler: RouteHandler) -> Route {
    Route::new("POST", path, permission, handler)
}

/// Whether a path belongs to the API.
pub fn is_api_path(path: &str) -> bool {
    path.strip_prefix("/api/").is_some_and(|rest| !rest.is_empty())
}

/// Finds the endpoint of a request to the API, and the names in its path.
///
/// # Errors
/// Returns 404, or 405 with the allowed methods.
pub fn find_endpoint(
    method: &Method,
    path: &str,
) -> Result<(&'static Route, Vec<String>), HttpError> {
    if !path.starts_with("/api/v1/") {
        return Err(HttpError::not_found("unknown API version").with_hint("use /api/v1/"));
    }
    let parts = path[1..].split('/').map(decode_segment);
    let Some(parts) = parts.collect::<Option<Vec<String>>>() else {
        return Err(HttpError::not_found(
            "cannot decode the address: expected percent-encoded UTF-8",
        ));
    };
    let mut methods = Vec::new();
    for route in ROUTES.iter().filter(|route| route.is_api()) {
        if let Some(names) = route.match_path(&parts) {
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
pub fn find_fixed(method: &str, path: &str) -> Option<ResponseHandler> {
    ROUTES.iter().find_map(|route| match route.handler {
        Response(handler) if route.method == method && route.path == path => {
            (!path.contains('{')).then_some(handler)
        }
        _ => None,
    })
}

/// A page that an address may mean.
#[derive(Debug)]
pub struct FoundPage {
    pub route: &'static Route,
    /// The name in the path after the project; empty if there is none.
    pub name: String,
    pub format: PageFormat,
}

impl FoundPage {
    /// Returns the handler of the page's form, if the page itself has one.
    pub fn form_handler(&self) -> Option<ResponseHandler> {
        let is_form = |route: &&Route| route.method == "POST" && route.path == self.route.path;
        match ROUTES.iter().find(is_form)?.handler {
            Response(handler) if self.format == PageFormat::Page => Some(handler),
            _ => None,
        }
    }
}

/// Returns the pages that an address may mean, most likely first. `project` is the only project
/// that the address may name.
///
/// # Errors
/// Fails if there is no such page.
pub fn find_pages(address: &PageAddress, project: &str) -> Result<Vec<FoundPage>, HttpError> {
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
    let found = page_routes().find_map(|route| Some((route, route.match_path(parts)?)));
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
        |name: &&str| page_routes().any(|route| route.path == format!("/{{project}}/{name}"));
    let similar_pages = nearest_names(unknown, known)
        .into_iter()
        .filter(has_page)
        .map(|page| (format!("/{project}/{page}"), page.to_owned()));
    HttpError::not_found(format!("page '{unknown}' not found"))
        .with_nearest(similar_pages.collect())
}

fn page_routes() -> impl Iterator<Item = &'static Route> {
    let is_page = |route: &&Route| !route.is_api() && !matches!(route.handler, Response(_));
    ROUTES.iter().filter(is_page)
}

/// A path of the site with its method, the permission that it needs, and its handler.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub method: &'static str,
    /// Path. `{name}` stands for one part, and `{name...}` for one or more. `{@name...}` is like
    /// `{name...}`, but the first part must begin with `@`.
    pub path: &'static str,
    /// Permission in the project that the path names, or on the whole server.
    pub permission: RequiredPermission,
    pub handler: RouteHandler,
    /// Whether the handler is expensive, such as a comparison.
    pub is_heavy: bool,
    /// Entry of the navigation bar that leads to the page; empty if there is none.
    pub section: &'static str,
    /// Summary of an API endpoint. This field and the following ones are only used for the API.
    pub summary: &'static str,
    /// Query keys with their descriptions.
    pub query: &'static [(&'static str, &'static str)],
    /// Media type of the request body, if there is one.
    pub body_type: Option<&'static str>,
    /// Success statuses with their descriptions.
    pub responses: &'static [(u16, &'static str)],
}

/// Returns a response.
pub type ResponseHandler = fn(&RequestContext) -> Result<axum::http::Response<Body>, HttpError>;

/// Builds a page.
pub type PageHandler = fn(PageContext<'_>) -> PageResult;

/// Handler of a route.
#[derive(Debug, Clone, Copy)]
pub enum RouteHandler {
    /// Returns a complete response.
    Response(ResponseHandler),
    /// Builds a page, which is then rendered in the format of the address. The API always renders
    /// JSON.
    Page(PageHandler),
    /// Returns a stream of events of a project.
    Stream(fn(&RequestContext, &Arc<HostedProject>) -> axum::http::Response<Body>),
}

impl Route {
    /// Creates a route; the methods below describe it further.
    pub const fn new(
        method: &'static str,
        path: &'static str,
        permission: RequiredPermission,
        handler: RouteHandler,
    ) -> Route {
        Route {
            method,
            path,
            permission,
            handler,
            is_heavy: false,
            section: "",
            summary: "",
            query: &[],
            body_type: None,
            responses: &[(200, "the document")],
        }
    }

    /// Marks the route as expensive.
    pub const fn heavy(self) -> Route {
        Route { is_heavy: true, ..self }
    }

    /// Sets the entry of the navigation bar that leads to the page.
    const fn in_section(self, section: &'static str) -> Route {
        Route { section, ..self }
    }

    /// Describes an endpoint and its query.
    pub const fn describe(
        self,
        summary: &'static str,
        query: &'static [(&'static str, &'static str)],
    ) -> Route {
        Route { summary, query, ..self }
    }

    /// Describes the request body and the successful responses of an endpoint.
    const fn with_bodies(
        self,
        body_type: Option<&'static str>,
        responses: &'static [(u16, &'static str)],
    ) -> Route {
        Route { body_type, responses, ..self }
    }

    /// Whether the route belongs to the API.
    pub fn is_api(&self) -> bool {
        self.path.starts_with("/api/")
    }

    /// Matches the decoded parts of a requested path. Returns the text in place of each `{name}`,
    /// in order, or `None` if the path does not match this route.
    fn match_path(&self, parts: &[String]) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut rest = parts;
        for pattern in self.path.trim_start_matches('/').split('/') {
            let (part, after) = rest.split_first()?;
            let name = pattern.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
            match name {
                None if pattern == part => rest = after,
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

    /// Returns the fixed part of the path after the project, such as `sessions`.
    fn page_name(&self) -> Option<&'static str> {
        let name = self.path.strip_prefix("/{project}/")?.split('/').next()?;
        (!name.starts_with('{')).then_some(name)
    }
}

/// Builds the document (<https://spec.openapis.org/oas/v3.1.0>).
fn openapi_document(routes: &[Route]) -> Value {
    let mut paths = Map::new();
    for route in routes.iter().filter(|route| route.is_api()) {
        let operations = paths.entry(route.path).or_insert_with(|| json!({}));
        operations[route.method.to_lowercase()] = route_operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Speedwell",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Upload benchmark sessions; query comparisons and trends",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "Create a token with: speedwell serve token add",
            }},
            "schemas": {"Problem": problem_schema()},
        },
    })
}

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "required": ["error", "hint"],
        "properties": {
            "error": {"type": "string", "description": "the error message"},
            "hint": {"type": ["string", "null"], "description": "how to fix it"},
            "lines": {"type": "integer", "description": "0 if the session arrived damaged"},
            "stored_digest": {"type": "string", "description": "the digest of the session on the server"},
            "sent_digest": {"type": "string", "description": "the digest that was sent"},
        },
    })
}

fn route_operation(route: &Route) -> Value {
    let mut responses = Map::new();
    for (status, description) in route.responses {
        let media_type = match route.path {
            "/api/v1/{project}/sessions/{id}" if route.method == "GET" => SESSION_TYPE,
            _ => "application/json",
        };
        let content = json!({media_type: {}});
        let response = json!({"description": description, "content": content});
        responses.insert(status.to_string(), response);
    }
    let problem = json!({"$ref": "#/components/schemas/Problem"});
    responses.insert(
        "default".to_owned(),
        json!({
            "description": "the error, and how to fix it",
            "content": {"application/problem+json": {"schema": problem}},
        }),
    );
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "parameters": route_parameters(route),
        "responses": responses,
    });
    if route.permission != RequiredPermission::Nothing {
        operation["security"] = json!([{"token": []}]);
    }
    if let Some(media_type) = route.body_type {
        operation["requestBody"] = json!({"required": true, "content": {media_type: {}}});
    }
    operation
}

fn route_parameters(route: &Route) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let string_schema = json!({"type": "string"});
        Some(json!({"name": name, "in": "path", "required": true, "schema": string_schema}))
    });
    let keys = route.query.iter().map(|(name, description)| {
        let string_schema = json!({"type": "string"});
        json!({"name": name, "in": "query", "description": description, "schema": string_schema})
    });
    names.chain(keys).collect()
}

/// Builds an operation id such as `put_project_sessions_id`.
fn operation_id(route: &Route) -> String {
    let is_letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let path = route.path.trim_start_matches("/api/v1/");
    let characters: String = path.chars().map(is_letter).collect();
    let path = characters.replace("__", "_");
    format!("{}_{}", route.method.to_lowercase(), path.trim_matches('_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_report::ReportFormat;

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
        assert!(has_form("/demo/alerts"));
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
