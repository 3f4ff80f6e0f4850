//! Generates the OpenAPI document from the route table, so that it is complete.

use super::route::{ApiRoute, BodyKind};
use crate::access::RequiredPermission;
use serde_json::{Map, Value, json};

/// Builds the document (<https://spec.openapis.org/oas/v3.1.0>).
pub fn openapi_document(routes: &[ApiRoute]) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let path = format!("/api/v1/{}", route.path);
        let operations = paths.entry(path).or_insert_with(|| json!({}));
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
            "lines": {
                "type": "integer",
                "description": "number of lines received so far; the upload continues with the line of this number",
            },
            "here": {"type": "string", "description": "the digest of the session on the server"},
            "sent": {"type": "string", "description": "the digest that was sent"},
        },
    })
}

fn route_operation(route: &ApiRoute) -> Value {
    let mut responses = Map::new();
    for (status, what) in route.responses {
        let kind = match route.path {
            "{project}/sessions/{id}" if route.method == "GET" => "application/jsonl",
            _ => "application/json",
        };
        let content = json!({kind: {}});
        let response = json!({"description": what, "content": content});
        responses.insert(status.to_string(), response);
    }
    let refusal = json!({"$ref": "#/components/schemas/Problem"});
    responses.insert(
        "default".to_owned(),
        json!({
            "description": "the error, and how to fix it",
            "content": {"application/problem+json": {"schema": refusal}},
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
    let takes = match route.body_kind {
        BodyKind::Nothing => None,
        BodyKind::Lines => Some("application/jsonl"),
        BodyKind::Json => Some("application/json"),
    };
    if let Some(kind) = takes {
        operation["requestBody"] = json!({"required": true, "content": {kind: {}}});
    }
    operation
}

fn route_parameters(route: &ApiRoute) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let text = json!({"type": "string"});
        Some(json!({"name": name, "in": "path", "required": true, "schema": text}))
    });
    let keys = route.query.iter().map(|(name, what)| {
        let text = json!({"type": "string"});
        json!({"name": name, "in": "query", "description": what, "schema": text})
    });
    names.chain(keys).collect()
}

/// Builds an operation id such as `put_project_sessions_id`.
fn operation_id(route: &ApiRoute) -> String {
    let is_letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let letters: String = route.path.chars().map(is_letter).collect();
    let path = letters.replace("__", "_");
    format!("{}_{}", route.method.to_lowercase(), path.trim_matches('_'))
}
