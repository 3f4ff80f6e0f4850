//! Sends sessions to a Speedwell server, exactly once even if responses are lost.
//!
//! [`UploadTarget`] is a project on a server; [`UploadClient::upload_session`] sends the lines of a session there: small
//! sessions in one request, others in parts, resuming where the server says. A failure says whether
//! a retry may help; when to retry, and what to keep until then, is decided elsewhere. This crate
//! knows nothing about a session but its lines and their digest.
//!
//! ```no_run
//! use speedwell_push::{Client, Failure, Lines, Place, Sent, Text};
//!
//! let place: Place = "https://perf.example/core".parse()?;
//! let client = Client::new(None);
//! let lines = Lines { id: "0197", text: Text::Here(b"...\n"), sha256: "ab..." };
//! match client.send(&place, &lines) {
//!     Ok(Sent::Stored) => println!("it is there now"),
//!     Ok(Sent::Known) => println!("it was there"),
//!     Err(Failure::Passing { reason, .. }) => println!("later: {reason}"),
//!     Err(Failure::Refused { reason }) => println!("never: {reason}"),
//! }
//! # Ok::<(), speedwell_push::Misplaced>(())
//! ```

mod client;
mod lines;
mod place;

pub use client::{UploadClient, UploadError, UploadOutcome, UploadToken, parse_authorities};
pub use lines::{LineFile, LineSource, SessionLines};
pub use place::{ParseTargetError, UploadTarget};
