//! Generates the OpenAPI document from the route table, so that the document lists every endpoint.

use crate::dashboard::access::RequiredPermission;
use crate::dashboard::route::{BodyKind, Route};
use serde_json::{Map, Value, json};

/// Builds the document (<https://spec.openapis.org/oas/v3.1.0>).
pub fn openapi_document(routes: &[Route]) -> Value {
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
            "/api/v1/{project}/sessions/{id}" if route.method == "GET" => "application/jsonl",
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
    let request_media_type = match route.body_kind {
        BodyKind::Nothing => None,
        BodyKind::Lines => Some("application/jsonl"),
        BodyKind::Json => Some("application/json"),
    };
    if let Some(media_type) = request_media_type {
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
