//! What is known of an address of the API.

use super::call::Call;
use super::problem::Problem;
use crate::access::Need;
use axum::body::Body;
use axum::http::Response;

/// An address.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// Behind `/api/v1/`; parts in braces are names.
    pub path: &'static str,
    /// Who may ask.
    pub need: Need,
    /// What for.
    pub summary: &'static str,
    /// Keys behind the `?`, with what they mean.
    pub query: &'static [(&'static str, &'static str)],
    /// What is sent.
    pub takes: Takes,
    /// Whether it takes long, as comparisons do.
    pub is_heavy: bool,
    /// The statuses of answers that are no refusals, with their meanings.
    pub gives: &'static [(u16, &'static str)],
    /// What answers.
    pub(super) answer: Answer,
}

impl Route {
    /// The names in a path, if it is of this form.
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

/// What the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Nothing,
    /// Lines of a session.
    Lines,
    /// An object.
    Json,
}

/// How an address is answered.
pub type Answer = fn(&Call<'_>) -> Result<Response<Body>, Problem>;
