//! Web pages for a store: each page is a document of `report` inside a layout, at an address that
//! holds all of its state.
//!
//! Decides which pages exist and where their links lead. It is independent of options and sockets;
//! whatever needs a repository or the command line is delegated to the surrounding program
//! ([`CommandLookups`]). Start with [`router`], then `page/mod.rs`.

mod access;
mod address;
mod answer;
mod api;
mod change;
mod frame;
mod link;
mod live;
mod lookups;
mod operation;
mod page;
mod project;
mod query;
mod refusal;
mod site;

pub use access::{AccessRules, CallerIdentity, RequiredPermission, SiteAccess};
pub use answer::router;
pub use api::router as api;
pub use frame::asset_files;
pub use lookups::{CommandLookups, ComparisonSource, GateResult, PlanSummary, TrendQuery};
pub use site::{SiteState, project_name};
