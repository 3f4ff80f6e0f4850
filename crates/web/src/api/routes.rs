//! Table of all API endpoints: method, path, permission, description and handler.
//!
//! The OpenAPI document is generated from it, and the tests request each row with each kind of
//! token.

use super::call::reply;
use super::problem::Problem;
use super::route::{Answer, Route, Takes};
use super::{data, openapi, sessions};
use crate::access::Need;
use axum::http::{Method, StatusCode};

/// All endpoints.
pub const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "openapi.json",
        need: Need::Nothing,
        summary: "This description",
        query: &[],
        takes: Takes::Nothing,
        is_heavy: false,
        gives: &[(200, "an OpenAPI document")],
        answer: |_| Ok(reply(StatusCode::OK, &openapi::document(ROUTES))),
    },
    Route {
        method: "PUT",
        path: "{project}/sessions/{id}",
        need: Need::Push,
        summary: "Send a session: its header, whose lines will follow; or all of it, with its digest",
        query: &[(
            "sha256",
            "of all lines: the body is the whole session, and the request finishes it",
        )],
        takes: Takes::Lines,
        is_heavy: false,
        gives: &[
            (
                200,
                "what is here of it: 'arriving' with the number of lines, or 'known'",
            ),
            (201, "'stored': it is here now"),
        ],
        answer: sessions::put,
    },
    Route {
        method: "PATCH",
        path: "{project}/sessions/{id}",
        need: Need::Push,
        summary: "Send further lines of a session that was begun",
        query: &[(
            "at",
            "the number of the first of them, from 0, which is the header",
        )],
        takes: Takes::Lines,
        is_heavy: false,
        gives: &[(
            200,
            "'arriving' with the number of lines that are here, or 'known'",
        )],
        answer: sessions::patch,
    },
    Route {
        method: "POST",
        path: "{project}/sessions/{id}/finish",
        need: Need::Push,
        summary: "Say that all lines were sent: {\"lines\", \"sha256\"}",
        query: &[],
        takes: Takes::Json,
        is_heavy: false,
        gives: &[
            (200, "'known': it was here"),
            (201, "'stored': it is here now"),
        ],
        answer: sessions::finish,
    },
    Route {
        method: "GET",
        path: "{project}/sessions/{id}/upload",
        need: Need::PushOrRead,
        summary: "How far a session is that is pushed",
        query: &[],
        takes: Takes::Nothing,
        is_heavy: false,
        gives: &[(
            200,
            "'arriving' with the number of lines, or 'known' with the digest",
        )],
        answer: sessions::upload,
    },
    Route {
        method: "GET",
        path: "{project}/sessions/{id}",
        need: Need::Read,
        summary: "A session as JSON Lines",
        query: &[],
        takes: Takes::Nothing,
        is_heavy: false,
        gives: &[(200, "its lines")],
        answer: sessions::get,
    },
    Route {
        method: "DELETE",
        path: "{project}/sessions/{id}",
        need: Need::Admin,
        summary: "Delete a session; for 7 days it can be taken back",
        query: &[],
        takes: Takes::Nothing,
        is_heavy: false,
        gives: &[(200, "'deleted'")],
        answer: sessions::delete,
    },
    Route {
        method: "POST",
        path: "{project}/sessions/{id}/tags",
        need: Need::Push,
        summary: "Give a session a name more: {\"tag\"}",
        query: &[],
        takes: Takes::Json,
        is_heavy: false,
        gives: &[(200, "'tagged', also if it had the tag")],
        answer: sessions::tag,
    },
    document(
        "projects",
        "All projects that may be read, with their newest sessions",
        &[],
        |call| data::document(call, "/index.json"),
    ),
    document(
        "{project}/sessions",
        "The newest sessions",
        &[
            ("branch", "only of this branch"),
            ("before", "only those before this one, for the next page"),
        ],
        |call| data::of_project(call, "sessions"),
    ),
    heavy(
        "{project}/compare",
        "A comparison, as by speedwell compare",
        &[
            ("base", "a session such as @prev"),
            ("with", "a session such as @latest"),
        ],
        |call| data::of_project(call, "compare"),
    ),
    heavy(
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
        |call| data::of_project(call, "trend"),
    ),
    heavy(
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
        data::gate,
    ),
    document(
        "{project}/series",
        "All series of points: case, variant and metric",
        &[],
        data::series,
    ),
    document(
        "{project}/points",
        "The newest points of a series",
        &[
            ("series", "its number"),
            ("most", "how many: 1,000 unless given, and 10,000 at most"),
        ],
        data::points,
    ),
    document("{project}/benchmarks", "All benchmarks", &[], |call| {
        data::of_project(call, "benchmarks")
    }),
    document("{project}/machines", "All machines", &[], |call| {
        data::of_project(call, "machines")
    }),
    heavy(
        "{project}/alerts",
        "Changes that nobody has judged",
        &[],
        |call| data::of_project(call, "alerts"),
    ),
    Route {
        need: Need::Admin,
        ..document(
            "tokens",
            "All tokens, without what is secret",
            &[],
            data::tokens,
        )
    },
    Route {
        need: Need::Admin,
        ..document(
            "audit",
            "Who did what: the newest 200 lines",
            &[],
            data::audit,
        )
    },
    Route {
        need: Need::Admin,
        ..document("settings", "Projects, tokens and the audit", &[], |call| {
            data::document(call, "/settings.json")
        })
    },
];

/// Route for a document that requires read permission.
const fn document(
    path: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    answer: Answer,
) -> Route {
    Route {
        method: "GET",
        path,
        need: match path.as_bytes() {
            // The list itself omits projects that the caller may not read.
            b"projects" => Need::Nothing,
            _ => Need::Read,
        },
        summary,
        query,
        takes: Takes::Nothing,
        is_heavy: false,
        gives: &[(200, "the document")],
        answer,
    }
}

/// Route for an expensive document.
const fn heavy(
    path: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    answer: Answer,
) -> Route {
    Route {
        is_heavy: true,
        ..document(path, summary, query, answer)
    }
}

/// Finds the route of a request, and the names in its path.
///
/// # Errors
/// 404, or 405 with the allowed methods.
pub(super) fn found(method: &Method, path: &str) -> Result<(&'static Route, Vec<String>), Problem> {
    let Some(path) = path.strip_prefix("/api/v1/") else {
        return Err(Problem::missing("there is no such version of the API").hint("/api/v1/"));
    };
    let parts = path.split('/').map(crate::link::decoded);
    let Some(parts) = parts.collect::<Option<Vec<String>>>() else {
        return Err(Problem::missing("this address is no text"));
    };
    let mut methods = Vec::new();
    for route in ROUTES {
        if let Some(names) = route.names(&parts) {
            if route.method == method.as_str() {
                return Ok((route, names));
            }
            methods.push(route.method);
        }
    }
    if methods.is_empty() {
        let hint = "GET /api/v1/openapi.json describes all addresses";
        return Err(Problem::missing("there is no such address").hint(hint));
    }
    let words = format!("{method} is not among {}", methods.join(", "));
    Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, words))
}
