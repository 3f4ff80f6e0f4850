//! Defines the type that describes an API endpoint.

use super::error::ApiError;
use super::request::ApiRequest;
use crate::dashboard::access::RequiredPermission;
use axum::body::Body;
use axum::http::Response;

#[derive(Debug)]
pub struct ApiRoute {
    pub method: &'static str,
    /// Path after `/api/v1/`. Parts in braces are names.
    pub path: &'static str,
    /// Permission that the endpoint requires.
    pub permission: RequiredPermission,
    /// Short description.
    pub summary: &'static str,
    /// Query keys with their descriptions.
    pub query: &'static [(&'static str, &'static str)],
    /// Kind of request body.
    pub body_kind: BodyKind,
    /// Whether the endpoint is expensive, such as a comparison.
    pub is_heavy: bool,
    /// Success statuses with their descriptions.
    pub responses: &'static [(u16, &'static str)],
    pub(super) handler: RouteHandler,
}

impl ApiRoute {
    /// Returns the names in the path, or `None` if the path does not match this route.
    pub fn match_path(&self, parts: &[String]) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut forms = self.path.split('/');
        for part in parts {
            match forms.next()? {
                name if name.starts_with('{') && !part.is_empty() => names.push(part.clone()),
                fixed if fixed == part => {}
                _ => return None,
            }
        }
        forms.next().is_none().then_some(names)
    }
}

/// Kind of request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// None.
    Nothing,
    /// Lines of a session.
    Lines,
    /// A JSON object.
    Json,
}

/// Handler of an endpoint.
pub type RouteHandler = fn(&ApiRequest<'_>) -> Result<Response<Body>, ApiError>;
