//! Defines the type that describes an API endpoint.

use super::error::ApiError;
use super::request::ApiRequest;
use crate::dashboard::access::RequiredPermission;
use axum::body::Body;
use axum::http::Response;

#[derive(Debug)]
pub struct ApiRoute {
    pub method: &'static str,
    /// Path after `/api/v1/`; parts in braces are names.
    pub path: &'static str,
    /// Permission that it requires.
    pub permission: RequiredPermission,
    /// Short description.
    pub summary: &'static str,
    /// Query keys with their descriptions.
    pub query: &'static [(&'static str, &'static str)],
    /// Kind of request body.
    pub body_kind: BodyKind,
    /// Whether it is expensive, such as a comparison.
    pub is_heavy: bool,
    /// Success statuses with their descriptions.
    pub responses: &'static [(u16, &'static str)],
    pub(super) handler: RouteHandler,
}

impl ApiRoute {
    /// Returns the names in the path if it matches this route; otherwise `None`.
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
