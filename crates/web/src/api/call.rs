//! One request to the API, with everything that its answer needs.

use super::problem::Problem;
use super::writers::Writers;
use crate::access::Caller;
use crate::query::Query;
use crate::site::{Site, unix_ms};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;
use speedwell_model::Session;
use speedwell_results::store::{Sender, Store};

/// A request that may be answered.
#[derive(Debug)]
pub struct Call<'a> {
    /// What is served.
    pub site: &'a Site,
    /// Connections that write.
    pub writers: &'a Writers,
    /// The parts of the path that are names, in their order; the first is the project.
    pub names: &'a [String],
    /// Behind the `?`.
    pub query: &'a str,
    /// What was sent.
    pub body: &'a Bytes,
    /// Who asks.
    pub caller: &'a Caller,
}

impl Call<'_> {
    /// The name of the project.
    pub fn project(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// The identity of the session.
    ///
    /// # Errors
    /// It cannot be one.
    pub fn session_id(&self) -> Result<&str, Problem> {
        let id = self.names.get(1).map_or("", String::as_str);
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if id.is_empty() || id.len() > 64 || !id.bytes().all(is_letter) {
            return Err(Problem::bad(
                "the identity of a session has up to 64 letters, digits and hyphens",
            ));
        }
        Ok(id)
    }

    /// Notes what was done to a session.
    pub fn audit(&self, what: &str, id: &str, result: &str) {
        let project = Some(self.project());
        self.site.note(self.caller, project, what, id, result);
    }

    /// Who sends, and when.
    pub fn sender(&self) -> Sender<'_> {
        Sender {
            token: self.caller.token.as_deref(),
            at_unix_ms: unix_ms(),
        }
    }

    /// Refuses a session that the token may not push: of another branch or machine than it is bound to.
    ///
    /// # Errors
    /// 403, which is noted in the audit.
    pub fn ensure_may_push(&self, session: &Session) -> Result<(), Problem> {
        let caller = self.caller;
        let origin = session.origin.as_ref();
        let branch = origin.and_then(|origin| origin.branch.clone());
        let environment = &session.environment;
        let machine = environment.machine.clone().or(environment.host.clone());
        let bound = [
            ("branch", &caller.branches, branch),
            ("machine", &caller.machines, machine),
        ];
        for (what, allowed, named) in bound {
            let named = named.unwrap_or_default();
            if allowed
                .as_ref()
                .is_some_and(|allowed| !allowed.contains(&named))
            {
                let words = format!("the token may not push sessions of the {what} '{named}'");
                self.audit("push", &session.id, &words);
                return Err(Problem::new(StatusCode::FORBIDDEN, words)
                    .hint("another token may: speedwell serve token add"));
            }
        }
        Ok(())
    }

    /// What follows the `?`.
    ///
    /// # Errors
    /// It is not understood.
    pub fn read_query(&self) -> Result<Query, Problem> {
        Ok(Query::parse(self.query)?)
    }

    /// Does something with the connection that writes the project's tables.
    ///
    /// # Errors
    /// There is no such project, its tables cannot be opened, or what `work` says.
    pub fn write<T>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.writers.with(self.site, self.project(), work)
    }
}

/// An answer in JSON.
pub fn reply(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string() + "\n"));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
