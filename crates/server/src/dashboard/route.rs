//! Defines the type of a route, and matches its path.

use crate::dashboard::access::RequiredPermission;
use crate::dashboard::page::content::{PageContext, PageResult};
use crate::dashboard::project::HostedProject;
use crate::dashboard::request::RequestContext;
use crate::http::HttpError;
use axum::body::Body;
use axum::http::Response;
use std::sync::Arc;

/// A path of the site with its method, the permission that it needs, and its handler.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub method: &'static str,
    /// Path. `{name}` stands for one part, and `{name...}` for one or more. `{@name...}` is like
    /// `{name...}`, but the first part must begin with `@`.
    pub path: &'static str,
    /// Permission in the project that the path names, or on the whole server.
    pub permission: RequiredPermission,
    pub handler: RouteHandler,
    /// Whether the handler is expensive, such as a comparison.
    pub is_heavy: bool,
    /// Entry of the navigation bar that leads to the page; empty if there is none.
    pub section: &'static str,
    /// What an endpoint of the API does. This field and the following ones are only for the API.
    pub summary: &'static str,
    /// Query keys with their descriptions.
    pub query: &'static [(&'static str, &'static str)],
    /// Kind of request body.
    pub body_kind: BodyKind,
    /// Success statuses with their descriptions.
    pub responses: &'static [(u16, &'static str)],
}

/// Returns a response.
pub type ResponseHandler = fn(&RequestContext) -> Result<Response<Body>, HttpError>;

/// Builds a page.
pub type PageHandler = fn(PageContext<'_>) -> PageResult;

/// Handler of a route.
#[derive(Debug, Clone, Copy)]
pub enum RouteHandler {
    /// Returns a complete response.
    Response(ResponseHandler),
    /// Builds a page, which is then rendered in the format of the address. The API always renders
    /// JSON.
    Page(PageHandler),
    /// Returns a stream of events of a project.
    Stream(fn(&RequestContext, &Arc<HostedProject>) -> Response<Body>),
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

impl Route {
    /// Creates a route; the methods below describe it further.
    pub const fn new(
        method: &'static str,
        path: &'static str,
        permission: RequiredPermission,
        handler: RouteHandler,
    ) -> Route {
        Route {
            method,
            path,
            permission,
            handler,
            is_heavy: false,
            section: "",
            summary: "",
            query: &[],
            body_kind: BodyKind::Nothing,
            responses: &[(200, "the document")],
        }
    }

    /// Marks the route as expensive.
    pub const fn heavy(self) -> Route {
        Route { is_heavy: true, ..self }
    }

    /// Sets the entry of the navigation bar that leads to the page.
    pub const fn in_section(self, section: &'static str) -> Route {
        Route { section, ..self }
    }

    /// Describes an endpoint and its query.
    pub const fn describe(
        self,
        summary: &'static str,
        query: &'static [(&'static str, &'static str)],
    ) -> Route {
        Route { summary, query, ..self }
    }

    /// Describes the request body and the successful responses of an endpoint.
    pub const fn with_bodies(
        self,
        body_kind: BodyKind,
        responses: &'static [(u16, &'static str)],
    ) -> Route {
        Route { body_kind, responses, ..self }
    }

    /// Whether the route belongs to the API.
    pub fn is_api(&self) -> bool {
        self.path.starts_with("/api/")
    }

    /// Matches the decoded parts of a requested path. Returns the text in place of each `{name}`,
    /// in order, or `None` if the path does not match this route.
    pub fn match_path(&self, parts: &[String]) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut rest = parts;
        for pattern in self.path.trim_start_matches('/').split('/') {
            let (part, after) = rest.split_first()?;
            let name = pattern.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
            match name {
                None if pattern == part => rest = after,
                None => return None,
                Some(_) if part.is_empty() => return None,
                Some(name) if name.starts_with('@') && !part.starts_with('@') => return None,
                Some(name) if name.ends_with("...") => {
                    if after.iter().any(String::is_empty) {
                        return None;
                    }
                    names.push(rest.join("/"));
                    rest = &[];
                }
                Some(_) => {
                    names.push(part.clone());
                    rest = after;
                }
            }
        }
        rest.is_empty().then_some(names)
    }

    /// Returns the fixed part of the path after the project, such as `sessions`.
    pub fn page_name(&self) -> Option<&'static str> {
        let name = self.path.strip_prefix("/{project}/")?.split('/').next()?;
        (!name.starts_with('{')).then_some(name)
    }
}
