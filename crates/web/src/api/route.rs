//! Description of an API endpoint.

use super::call::Call;
use super::problem::Problem;
use crate::access::Need;
use axum::body::Body;
use axum::http::Response;

#[derive(Debug)]
pub struct Route {
    pub method: &'static str,
    /// Path after `/api/v1/`; parts in braces are names.
    pub path: &'static str,
    /// Permission that it requires.
    pub need: Need,
    /// Short description.
    pub summary: &'static str,
    /// Query keys with their descriptions.
    pub query: &'static [(&'static str, &'static str)],
    /// Kind of request body.
    pub takes: Takes,
    /// Whether it is expensive, such as a comparison.
    pub is_heavy: bool,
    /// Success statuses with their descriptions.
    pub gives: &'static [(u16, &'static str)],
    pub(super) answer: Answer,
}

impl Route {
    /// Returns the names in a path that matches this route.
    pub fn names(&self, parts: &[String]) -> Option<Vec<String>> {
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
pub enum Takes {
    /// None.
    Nothing,
    /// Lines of a session.
    Lines,
    /// A JSON object.
    Json,
}

/// Handler of an endpoint.
pub type Answer = fn(&Call<'_>) -> Result<Response<Body>, Problem>;
