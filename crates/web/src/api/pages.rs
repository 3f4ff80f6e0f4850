//! What pages say, for programs: the same documents as JSON, at addresses that only ever grow.

use super::call::Call;
use super::problem::Problem;
use crate::answer;
use axum::body::Body;
use axum::http::{Response, Uri};

/// The document of a page of the project.
pub fn of_project(call: &Call<'_>, page: &str) -> Result<Response<Body>, Problem> {
    // Names of projects need no escaping, and what is none has no page.
    call.site.project(call.project())?;
    document(call, &format!("/{}/{page}.json", call.project()))
}

/// The document of a page of the server.
pub fn document(call: &Call<'_>, path: &str) -> Result<Response<Body>, Problem> {
    let address = match call.query {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    };
    let uri: Uri = address
        .parse()
        .map_err(|_| Problem::bad("the question is not understood"))?;
    Ok(answer::document(call.site, call.caller, &uri)?)
}
