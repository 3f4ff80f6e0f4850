//! Table of all API endpoints: method, path, permission, description and handler.
//!
//! The OpenAPI document is generated from it, and the tests request each row with each kind of
//! token.

use super::call::json_response;
use super::problem::ApiError;
use super::route::{ApiRoute, BodyKind, RouteHandler};
use super::{data, openapi, sessions};
use crate::access::RequiredPermission;
use axum::http::{Method, StatusCode};

/// All endpoints.
pub const ROUTES: &[ApiRoute] = &[
    ApiRoute {
        method: "GET",
        path: "openapi.json",
        permission: RequiredPermission::Nothing,
        summary: "This description",
        query: &[],
        body_kind: BodyKind::Nothing,
        is_heavy: false,
        responses: &[(200, "an OpenAPI document")],
        handler: |_| {
            Ok(json_response(
                StatusCode::OK,
                &openapi::openapi_document(ROUTES),
            ))
        },
    },
    ApiRoute {
        method: "PUT",
        path: "{project}/sessions/{id}",
        permission: RequiredPermission::Push,
        summary: "Send a session: its header, whose lines will follow; or all of it, with its digest",
        query: &[(
            "sha256",
            "of all lines: the body is the whole session, and the request finishes it",
        )],
        body_kind: BodyKind::Lines,
        is_heavy: false,
        responses: &[
            (
                200,
                "what is here of it: 'arriving' with the number of lines, or 'known'",
            ),
            (201, "'stored': it is here now"),
        ],
        handler: sessions::put_session,
    },
    ApiRoute {
        method: "PATCH",
        path: "{project}/sessions/{id}",
        permission: RequiredPermission::Push,
        summary: "Send further lines of a session that was begun",
        query: &[(
            "at",
            "the number of the first of them, from 0, which is the header",
        )],
        body_kind: BodyKind::Lines,
        is_heavy: false,
        responses: &[(
            200,
            "'arriving' with the number of lines that are here, or 'known'",
        )],
        handler: sessions::append_lines,
    },
    ApiRoute {
        method: "POST",
        path: "{project}/sessions/{id}/finish",
        permission: RequiredPermission::Push,
        summary: "Say that all lines were sent: {\"lines\", \"sha256\"}",
        query: &[],
        body_kind: BodyKind::Json,
        is_heavy: false,
        responses: &[
            (200, "'known': it was here"),
            (201, "'stored': it is here now"),
        ],
        handler: sessions::finish_upload,
    },
    ApiRoute {
        method: "GET",
        path: "{project}/sessions/{id}/upload",
        permission: RequiredPermission::PushOrRead,
        summary: "How far a session is that is pushed",
        query: &[],
        body_kind: BodyKind::Nothing,
        is_heavy: false,
        responses: &[(
            200,
            "'arriving' with the number of lines, or 'known' with the digest",
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
        responses: &[(200, "its lines")],
        handler: sessions::get_session,
    },
    ApiRoute {
        method: "DELETE",
        path: "{project}/sessions/{id}",
        permission: RequiredPermission::Admin,
        summary: "Delete a session; for 7 days it can be taken back",
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
        summary: "Give a session a name more: {\"tag\"}",
        query: &[],
        body_kind: BodyKind::Json,
        is_heavy: false,
        responses: &[(200, "'tagged', also if it had the tag")],
        handler: sessions::add_tag,
    },
    document_route(
        "projects",
        "All projects that may be read, with their newest sessions",
        &[],
        |call| data::page_document(call, "/index.json"),
    ),
    document_route(
        "{project}/sessions",
        "The newest sessions",
        &[
            ("branch", "only of this branch"),
            ("before", "only those before this one, for the next page"),
        ],
        |call| data::project_document(call, "sessions"),
    ),
    expensive_route(
        "{project}/compare",
        "A comparison, as by speedwell compare",
        &[
            ("base", "a session such as @prev"),
            ("with", "a session such as @latest"),
        ],
        |call| data::project_document(call, "compare"),
    ),
    expensive_route(
        "{project}/trend",
        "Results over time, as by speedwell history trend",
        &[
            ("case", "the id of a case"),
            ("metric", "a metric"),
            ("variant", "a variant"),
            ("branch", "the line"),
            ("machine", "the number of a machine"),
            ("from", "the day of the first commit, such as 2026-03-01"),
            ("to", "the day of the last commit"),
            ("space", "revision or time: what the axis shows"),
        ],
        |call| data::project_document(call, "trend"),
    ),
    expensive_route(
        "{project}/gate",
        "What speedwell compare --fail-on would end with: {\"status\", \"words\"}",
        &[
            ("base", "a session such as @prev"),
            ("with", "a session such as @latest"),
            ("fail-on", "worse (unless given), unclear or never"),
            ("threshold", "the smallest change that matters, such as 2%"),
            ("method", "the test"),
            ("correct", "the correction for many cases"),
        ],
        data::evaluate_gate,
    ),
    document_route(
        "{project}/series",
        "All series of points: case, variant and metric",
        &[],
        data::list_series,
    ),
    document_route(
        "{project}/points",
        "The newest points of a series",
        &[
            ("series", "its number"),
            ("most", "how many: 1,000 unless given, and 10,000 at most"),
        ],
        data::list_points,
    ),
    document_route("{project}/benchmarks", "All benchmarks", &[], |call| {
        data::project_document(call, "benchmarks")
    }),
    document_route("{project}/machines", "All machines", &[], |call| {
        data::project_document(call, "machines")
    }),
    expensive_route(
        "{project}/alerts",
        "Changes that nobody has judged",
        &[],
        |call| data::project_document(call, "alerts"),
    ),
    ApiRoute {
        permission: RequiredPermission::Admin,
        ..document_route(
            "tokens",
            "All tokens, without what is secret",
            &[],
            data::list_tokens,
        )
    },
    ApiRoute {
        permission: RequiredPermission::Admin,
        ..document_route(
            "audit",
            "Who did what: the newest 200 lines",
            &[],
            data::list_audit_entries,
        )
    },
    ApiRoute {
        permission: RequiredPermission::Admin,
        ..document_route("settings", "Projects, tokens and the audit", &[], |call| {
            data::page_document(call, "/settings.json")
        })
    },
];

/// Route for a document that requires read permission.
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

/// Route for an expensive document.
const fn expensive_route(
    path: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    answer: RouteHandler,
) -> ApiRoute {
    ApiRoute {
        is_heavy: true,
        ..document_route(path, summary, query, answer)
    }
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
        return Err(
            ApiError::not_found("there is no such version of the API").with_hint("/api/v1/")
        );
    };
    let parts = path.split('/').map(crate::link::decode_segment);
    let Some(parts) = parts.collect::<Option<Vec<String>>>() else {
        return Err(ApiError::not_found("this address is no text"));
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
        let hint = "GET /api/v1/openapi.json describes all addresses";
        return Err(ApiError::not_found("there is no such address").with_hint(hint));
    }
    let words = format!("{method} is not among {}", methods.join(", "));
    Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, words))
}
