//! Keeps one comment and one status on a pull request of GitHub, GitLab, or Gitea and its forks up
//! to date, in place.
//!
//! [`Place`] identifies the pull request; [`Client`] talks to the forge; [`Client::comment`] finds
//! its own comment by a marker in the first line, edits it, and leaves no duplicates;
//! [`Client::set_status`] sets the status of the commit; [`Client::post`] does both, in the order
//! of results. If the forge refuses, the error names the missing permission, and nothing else
//! happens. This crate knows nothing about benchmarks.
//!
//! ```no_run
//! use speedwell_forge::{Client, Place, Stamp, Text, Token};
//!
//! let place: Place = "github:owner/name#12".parse()?;
//! let client = Client::new(place, Token::new(std::env::var("GITHUB_TOKEN").unwrap_or_default()));
//! let stamp = Stamp { revision: "4f1c2d0".into(), at_unix_ms: 1_767_268_800_000 };
//! let text = Text { marker: "tool:check".into(), stamp, body: "**2 better.**".into() };
//! println!("{:?}", client.comment(&text, &|_, _| None)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod comment;
mod place;
mod status;
mod update;

pub use client::{Client, Error, Token};
pub use comment::{Order, Posted, Stamp, Text};
pub use place::{Forge, Misplaced, Place, Variables};
pub use status::{State, Status, StatusOutcome};
pub use update::{PullUpdate, UpdateOutcome};
