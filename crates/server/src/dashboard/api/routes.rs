//! Contains the table of all API endpoints: method, path, permission, description and handler.
//!
//! The OpenAPI document is generated from the table. The tests request each row with each kind of
//! token.

use super::error::ApiError;
use super::request::json_response;
use super::route::{ApiRoute, BodyKind, RouteHandler};
use super::{data, openapi, sessions};
use crate::dashboard::access::RequiredPermission;
use axum::http::{Method, StatusCode};

/// All endpoints.
pub const ROUTES: &[ApiRoute] = &[
    ApiRoute {
        method: "GET",
        path: "openapi.json",
        permission: RequiredPermission::Nothing,
        summary: "The OpenAPI document of this API",
        query: &[],
        body_kind: BodyKind::Nothing,
        is_heavy: false,
        responses: &[(200, "the OpenAPI document")],
        handler: |_| Ok(json_response(StatusCode::OK, &openapi::openapi_document(ROUTES))),
    },
    ApiRoute {
        method: "PUT",
        path: "{project}/sessions/{id}",
        permission: RequiredPermission::Push,
        summary: "Upload a session: either its header, with the lines to follow, or all lines with their digest",
        query: &[(
            "sha256",
            "digest of all lines: the body is the whole session, and the request finishes the upload",
        )],
        body_kind: BodyKind::Lines,
        is_heavy: false,
        responses: &[
            (200, "upload state: 'arriving' with the number of lines received, or 'known'"),
            (201, "'stored': the session is stored now"),
        ],
        handler: sessions::put_session,
    },
    ApiRoute {
        method: "PATCH",
        path: "{project}/sessions/{id}",
        permission: RequiredPermission::Push,
        summary: "Append lines to an upload",
        query: &[("at", "number of the first line in the body; line 0 is the header")],
        body_kind: BodyKind::Lines,
        is_heavy: false,
        responses: &[(200, "'arriving' with the number of lines received, or 'known'")],
        handler: sessions::append_lines,
    },
    ApiRoute {
        method: "POST",
        path: "{project}/sessions/{id}/finish",
        permission: RequiredPermission::Push,
        summary: "Finish an upload: {\"lines\", \"sha256\"}",
        query: &[],
        body_kind: BodyKind::Json,
        is_heavy: false,
        responses: &[
            (200, "'known': the session was stored before"),
            (201, "'stored': the session is stored now"),
        ],
        handler: sessions::finish_upload,
    },
    ApiRoute {
        method: "GET",
        path: "{project}/sessions/{id}/upload",
        permission: RequiredPermission::PushOrRead,
        summary: "Progress of an upload",
        query: &[],
        body_kind: BodyKind::Nothing,
        is_heavy: false,
        responses: &[(
            200,
            "'arriving' with the number of lines received, or 'known' with the digest",
        )],
        handler: sessions::upload_status,
    },
    ApiRoute {
        method: "GET",
        path: "{project}/sessions/{id}",
        permission: RequiredPermission::Read,
        summary: "A session as JSON Lines",
        query: &[],
        body_kind: BodyKind::Nothing,
        is_heavy: false,
        responses: &[(200, "the lines of the session")],
        handler: sessions::get_session,
    },
    ApiRoute {
        method: "DELETE",
        path: "{project}/sessions/{id}",
        permission: RequiredPermission::Admin,
        summary: "Delete a session; it can be restored for 7 days",
        query: &[],
        body_kind: BodyKind::Nothing,
        is_heavy: false,
        responses: &[(200, "'deleted'")],
        handler: sessions::delete_session,
    },
    ApiRoute {
        method: "POST",
        path: "{project}/sessions/{id}/tags",
        permission: RequiredPermission::Push,
        summary: "Add a tag to a session: {\"tag\"}",
        query: &[],
        body_kind: BodyKind::Json,
        is_heavy: false,
        responses: &[(200, "'tagged', even if the session already had the tag")],
        handler: sessions::add_tag,
    },
    document_route("projects", "All readable projects, with their newest sessions", &[], |call| {
        data::page_document(call, "/index.json")
    }),
    document_route(
        "{project}/sessions",
        "The newest sessions",
        &[
            ("branch", "only sessions of this branch"),
            ("before", "only sessions before this number, for paging"),
        ],
        |call| data::project_document(call, "sessions"),
    ),
    expensive_route(
        "{project}/compare",
        "A comparison, like speedwell compare",
        &[
            ("base", "the baseline session, e.g. @prev"),
            ("with", "the candidate session, e.g. @latest"),
        ],
        |call| data::project_document(call, "compare"),
    ),
    expensive_route(
        "{project}/trend",
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
        |call| data::project_document(call, "trend"),
    ),
    expensive_route(
        "{project}/gate",
        "Exit status of speedwell compare --fail-on: {\"status\", \"words\"}",
        &[
            ("base", "the baseline session, e.g. @prev"),
            ("with", "the candidate session, e.g. @latest"),
            ("fail-on", "worse (default), unclear or never"),
            ("threshold", "smallest change that matters, e.g. 2%"),
            ("method", "statistical test"),
            ("correct", "multiple-testing correction"),
        ],
        data::evaluate_gate,
    ),
    document_route(
        "{project}/series",
        "All series: case, variant and metric",
        &[],
        data::list_series,
    ),
    document_route(
        "{project}/points",
        "The newest points of a series",
        &[
            ("series", "series number"),
            ("most", "number of points (default 1,000, maximum 10,000)"),
        ],
        data::list_points,
    ),
    document_route("{project}/benchmarks", "All benchmarks", &[], |call| {
        data::project_document(call, "benchmarks")
    }),
    document_route("{project}/machines", "All machines", &[], |call| {
        data::project_document(call, "machines")
    }),
    expensive_route("{project}/alerts", "Open changes", &[], |call| {
        data::project_document(call, "alerts")
    }),
    ApiRoute {
        permission: RequiredPermission::Admin,
        ..document_route("tokens", "All tokens, without their secrets", &[], data::list_tokens)
    },
    ApiRoute {
        permission: RequiredPermission::Admin,
        ..document_route(
            "audit",
            "The newest 200 entries of the audit log",
            &[],
            data::list_audit_entries,
        )
    },
    ApiRoute {
        permission: RequiredPermission::Admin,
        ..document_route("settings", "Projects, tokens and the audit log", &[], |call| {
            data::page_document(call, "/settings.json")
        })
    },
];

/// Creates the route for a document that requires read permission.
const fn document_route(
    path: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    answer: RouteHandler,
) -> ApiRoute {
    ApiRoute {
        method: "GET",
        path,
        permission: match path.as_bytes() {
            // The list itself omits projects that the caller may not read.
            b"projects" => RequiredPermission::Nothing,
            _ => RequiredPermission::Read,
        },
        summary,
        query,
        body_kind: BodyKind::Nothing,
        is_heavy: false,
        responses: &[(200, "the document")],
        handler: answer,
    }
}

/// Creates the route for an expensive document.
const fn expensive_route(
    path: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    answer: RouteHandler,
) -> ApiRoute {
    ApiRoute { is_heavy: true, ..document_route(path, summary, query, answer) }
}

/// Finds the route of a request, and the names in its path.
///
/// # Errors
/// Returns 404, or 405 with the allowed methods.
pub(super) fn find_route(
    method: &Method,
    path: &str,
) -> Result<(&'static ApiRoute, Vec<String>), ApiError> {
    let Some(path) = path.strip_prefix("/api/v1/") else {
        return Err(ApiError::not_found("unknown API version").with_hint("use /api/v1/"));
    };
    let parts = path.split('/').map(crate::dashboard::link::decode_segment);
    let Some(parts) = parts.collect::<Option<Vec<String>>>() else {
        return Err(ApiError::not_found(
            "cannot decode the address: expected percent-encoded UTF-8",
        ));
    };
    let mut methods = Vec::new();
    for route in ROUTES {
        if let Some(names) = route.match_path(&parts) {
            if route.method == method.as_str() {
                return Ok((route, names));
            }
            methods.push(route.method);
        }
    }
    if methods.is_empty() {
        let hint = "GET /api/v1/openapi.json lists all endpoints";
        return Err(ApiError::not_found("API endpoint not found").with_hint(hint));
    }
    let message = format!("method {method} not allowed: expected {}", methods.join(", "));
    Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message))
}
