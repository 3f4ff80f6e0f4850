//! Keeps one comment and one status of a pull request up to date. Supports GitHub, GitLab, and
//! Gitea and its forks.
//!
//! [`PullRequestRef`] identifies the pull request; [`ForgeClient`] talks to the forge.
//! [`ForgeClient::post_comment`] finds our comment by a marker in the first line, edits it, and
//! leaves no duplicates. [`ForgeClient::set_status`] sets the status of the commit, and
//! [`ForgeClient::post_update`] does both. None of these methods replaces a newer result. If the
//! forge refuses a request, the error names the missing permission. This module is independent of
//! benchmarks.
//!
//! ```no_run
//! use speedwell_server::clients::forge::{ForgeClient, PullRequestRef, ResultStamp, CommentText};
//! use speedwell_server::clients::SecretToken;
//!
//! let place: PullRequestRef = "github:owner/name#12".parse()?;
//! let client = ForgeClient::new(place, SecretToken::new(std::env::var("GITHUB_TOKEN").unwrap_or_default()));
//! let stamp = ResultStamp { revision: "4f1c2d0".into(), at_unix_ms: 1_767_268_800_000 };
//! let text = CommentText { marker: "tool:check".into(), stamp, body: "**2 better.**".into() };
//! println!("{:?}", client.post_comment(&text, &|_, _| None)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod comment;
mod pull_request;
mod status;
mod update;

pub use client::{Error, ForgeClient};
pub use comment::{CommentOutcome, CommentText, ResultStamp, RevisionOrder};
pub use pull_request::{EnvLookup, ForgeKind, ParsePullRequestError, PullRequestRef};
pub use status::{CommitState, CommitStatus, StatusOutcome};
pub use update::{PullUpdate, UpdateOutcome};
