//! Contains the table of all routes: method, path, permission and handler of every page, form and
//! endpoint of the API.
//!
//! `server::http` itself answers `/health` and serves the files below `/static/`. The OpenAPI
//! document is generated from the table. The tests request each endpoint with each kind of token.

use self::RouteHandler::{Page, Response};
use crate::dashboard::access::RequiredPermission::{self, Admin, Nothing, Push, Read, Triage};
use crate::dashboard::address::SESSION_TYPE;
use crate::dashboard::api::{self, sessions};
use crate::dashboard::login::{log_in, log_out, login_page};
use crate::dashboard::page::catalog::{
    benchmark_page, benchmarks_page, calibration_page, machine_page, machines_page, search_page,
};
use crate::dashboard::page::changes::{changes_page, project_feed, triage_change};
use crate::dashboard::page::compare::compare_page;
use crate::dashboard::page::live::{live_page, session_live_page, stream_updates};
use crate::dashboard::page::project::{overview_page, project_page, settings_page};
use crate::dashboard::page::revision::{branch_page, pull_page, pulls_page, revision_page};
use crate::dashboard::page::session::{session_page, sessions_page};
use crate::dashboard::page::trend::trend_page;
use crate::dashboard::page::{
    CHANGES_SECTION, OVERVIEW_SECTION, PageHandler, SETTINGS_SECTION, json_response,
};
use crate::dashboard::site::RequestContext;
use crate::http::HttpError;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

/// All routes. If several match a path, the first one is used.
pub const ROUTES: &[Route] = &[
    // Routes for operators and for logins. The handlers check permissions themselves.
    get("/health/ready", Nothing, Response(api::check_ready)),
    get("/metrics", Read, Response(api::report_metrics)),
    get("/login", Nothing, Response(login_page)),
    post("/login", Nothing, Response(log_in)),
    post("/logout", Nothing, Response(log_out)),
    // Pages of the server. The overview omits projects that the caller may not read.
    get("/", Nothing, Page(overview_page)).in_section(OVERVIEW_SECTION),
    get("/settings", Admin, Page(settings_page)).in_section(SETTINGS_SECTION),
    // Pages of a project.
    get("/{project}", Read, Page(project_page)),
    get("/{project}/sessions", Read, Page(sessions_page)).in_section("sessions").heavy(),
    get("/{project}/sessions/{id}/live", Read, Page(session_live_page)).in_section("live"),
    get("/{project}/sessions/{id}/events", Read, Response(stream_updates)),
    get("/{project}/sessions/{id}", Read, Page(session_page)).in_section("sessions"),
    get("/{project}/sessions/{@reference...}", Read, Page(session_page)).in_section("sessions"),
    get("/{project}/{@reference...}", Read, Page(session_page)).in_section("sessions"),
    get("/{project}/benchmarks", Read, Page(benchmarks_page)).in_section("benchmarks"),
    get("/{project}/benchmarks/{name...}", Read, Page(benchmark_page)).in_section("benchmarks"),
    get("/{project}/trend", Read, Page(trend_page)).in_section("trend").heavy(),
    get("/{project}/compare", Read, Page(compare_page)).in_section("compare").heavy(),
    get("/{project}/revisions/{id...}", Read, Page(revision_page)).in_section("sessions").heavy(),
    get("/{project}/branches/{name...}", Read, Page(branch_page)).in_section("sessions").heavy(),
    get("/{project}/pulls", Read, Page(pulls_page)).in_section("pulls"),
    get("/{project}/pulls/{number}", Read, Page(pull_page)).in_section("pulls").heavy(),
    get("/{project}/machines", Read, Page(machines_page)).in_section("machines"),
    get("/{project}/machines/{number}", Read, Page(machine_page)).in_section("machines").heavy(),
    get("/{project}/calibration", Read, Page(calibration_page)).in_section("calibration"),
    get("/{project}/changes", Read, Page(changes_page)).in_section(CHANGES_SECTION).heavy(),
    // The former address of the changes.
    get("/{project}/alerts", Read, Page(changes_page)).in_section(CHANGES_SECTION).heavy(),
    get("/{project}/feed.atom", Read, Response(project_feed)).heavy(),
    get("/{project}/live", Read, Page(live_page)).in_section("live").heavy(),
    get("/{project}/search", Read, Page(search_page)),
    // A form checks the permission itself, because the audit log records refusals.
    post("/{project}/changes", Triage, Response(triage_change)),
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
            ("axis", "horizontal axis: revision or time"),
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
    get("/api/v1/{project}/alerts", Read, Page(changes_page)).heavy().describe("Open changes", &[]),
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
    /// Whether the handler is expensive, such as a comparison or the results in a list of sessions.
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
pub type ResponseHandler = fn(&RequestContext) -> Result<axum::response::Response, HttpError>;

/// Handler of a route.
#[derive(Debug, Clone, Copy)]
pub enum RouteHandler {
    /// Returns a complete response.
    Response(ResponseHandler),
    /// Builds a page, which is then rendered in the format of the address. The API always renders
    /// JSON.
    Page(PageHandler),
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

    /// Whether the path contains no names.
    pub fn is_fixed(&self) -> bool {
        !self.path.contains('{')
    }

    /// Whether the route belongs to the API.
    pub fn is_api(&self) -> bool {
        self.path.starts_with("/api/")
    }

    /// Returns the fixed part of the path after the project, such as `sessions`.
    pub fn page_name(&self) -> Option<&'static str> {
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
