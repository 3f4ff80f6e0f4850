//! Pages over a store: each is a document of `report` with a frame around it, at an address that holds all of its state.
//!
//! Decides which pages there are and where their links lead. It must know neither options nor sockets, and what needs a
//! repository or the words of the command line is asked of the program around it ([`Lookups`]). Start with [`router`], then
//! `page/mod.rs`.

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

pub use access::{Access, Caller, Need, Rules};
pub use answer::router;
pub use api::router as api;
pub use frame::assets;
pub use lookups::{Course, Gate, Lookups, Planned, Source};
pub use site::{Site, project_name};
