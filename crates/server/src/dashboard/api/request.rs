//! Defines the context of one API request: its caller, the names in its path, its query and its
//! body.

use super::error::ApiError;
use super::writers::WriterPool;
use crate::dashboard::access::CallerIdentity;
use crate::dashboard::query::PageQuery;
use crate::dashboard::site::{SiteState, unix_ms};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;
use speedwell_model::Session;
use speedwell_store::{Store, UploadSender};

/// An API request whose caller has permission.
#[derive(Debug)]
pub struct ApiRequest<'a> {
    pub site: &'a SiteState,
    pub writers: &'a WriterPool,
    /// The names in the path, in order. The first name is the project.
    pub names: &'a [String],
    /// The text after the `?`.
    pub query: &'a str,
    pub body: &'a Bytes,
    pub caller: &'a CallerIdentity,
}

impl ApiRequest<'_> {
    pub fn project(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Returns the session id.
    ///
    /// # Errors
    /// Fails if the path contains no valid id.
    pub fn session_id(&self) -> Result<&str, ApiError> {
        let id = self.names.get(1).map_or("", String::as_str);
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if id.is_empty() || id.len() > 64 || !id.bytes().all(is_letter) {
            return Err(ApiError::bad_request(
                "invalid session id: expected up to 64 letters, digits and hyphens",
            ));
        }
        Ok(id)
    }

    /// Records an action on a session in the audit log.
    pub fn record_action(&self, action: &str, id: &str, result: &str) {
        let project = Some(self.project());
        self.site.record_action(self.caller, project, action, id, result);
    }

    /// Returns the token that sends the request, and the current time.
    pub fn upload_sender(&self) -> UploadSender<'_> {
        UploadSender { token: self.caller.token.as_deref(), at_unix_ms: unix_ms() }
    }

    /// Rejects a session if the token may not push sessions of its branch or machine.
    ///
    /// # Errors
    /// Returns 403 and records the rejection in the audit log.
    pub fn ensure_push_permitted(&self, session: &Session) -> Result<(), ApiError> {
        let caller = self.caller;
        let origin = session.origin.as_ref();
        let branch = origin.and_then(|origin| origin.branch.clone());
        let environment = &session.environment;
        let machine = environment.machine.clone().or(environment.host.clone());
        let restrictions =
            [("branch", &caller.branches, branch), ("machine", &caller.machines, machine)];
        for (kind, allowed, name) in restrictions {
            let name = name.unwrap_or_default();
            if allowed.as_ref().is_some_and(|allowed| !allowed.contains(&name)) {
                let message = format!("the token may not push sessions of the {kind} '{name}'");
                self.record_action("push", &session.id, &message);
                return Err(ApiError::new(StatusCode::FORBIDDEN, message)
                    .with_hint("create a token with this permission: speedwell serve token add"));
            }
        }
        Ok(())
    }

    /// Parses the query.
    ///
    /// # Errors
    /// Fails if the query is invalid.
    pub fn parse_query(&self) -> Result<PageQuery, ApiError> {
        Ok(PageQuery::parse(self.query)?)
    }

    /// Runs `work` with the write connection to the project's store.
    ///
    /// # Errors
    /// Fails if the project does not exist, if its store cannot be opened, or if `work` fails.
    pub fn with_writer<T>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        self.writers.with_writer(self.site, self.project(), work)
    }
}

/// Builds a JSON response.
pub fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string() + "\n"));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
