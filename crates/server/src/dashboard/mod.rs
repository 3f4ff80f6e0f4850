//! Serves web pages for a store, and an API for programs. Each page is a document of `report`
//! inside a layout. The address of a page holds all of its state.
//!
//! This module decides which pages exist and where their links lead. It is independent of options
//! and sockets. For work that needs a repository or command-line options, it calls back into the
//! command-line program ([`CommandLookups`]). Start with the table in `routes.rs`, then
//! [`router`]. `site` and `project` hold the state; they depend on neither requests nor pages.

mod api;
mod dispatch;
mod login;
mod page;
mod project;
mod request;
mod routes;
mod site;

pub use dispatch::router;
pub use project::{CommandLookups, ComparisonSource, GateResult, PlanSummary, TrendQuery};
pub use site::{
    AccessRules, CallerIdentity, RequiredPermission, SiteAccess, SiteState, project_name,
};
