//! The one integration binary; each module tells one story about the whole program.

mod arbitrary;
mod by_hand;
mod environment;
mod grammar;
mod json_lines;
mod killed;
mod layers;
mod node_bad_children;
mod node_fixtures;
mod process;
mod project;
mod recorder;
mod report;
mod resume;
mod run;
mod size;
mod store;
