//! Sends sessions to a Speedwell server, exactly once even if responses are lost.
//!
//! [`UploadTarget`] is a project on a server; [`UploadClient::upload_session`] sends the lines of a
//! session there. A small session is sent in one request, a larger session in parts. An interrupted
//! upload resumes where the server says. An error tells whether a retry may help. The caller
//! decides when to retry, and what to keep until then. This module handles only the lines of a
//! session and their digest.
//!
//! ```no_run
//! use speedwell_server::clients::push::{UploadClient, UploadError, SessionLines, UploadTarget, UploadOutcome, LineSource};
//!
//! let target: UploadTarget = "https://perf.example/core".parse()?;
//! let client = UploadClient::new(None);
//! let lines = SessionLines { id: "0197", text: LineSource::InMemory(b"...\n"), sha256: "ab..." };
//! match client.upload_session(&target, &lines) {
//!     Ok(UploadOutcome::Stored) => println!("it is there now"),
//!     Ok(UploadOutcome::Known) => println!("it was there"),
//!     Err(UploadError::Retryable { reason, .. }) => println!("later: {reason}"),
//!     Err(UploadError::Rejected { reason }) => println!("never: {reason}"),
//! }
//! # Ok::<(), speedwell_server::clients::push::ParseTargetError>(())
//! ```

mod client;
mod lines;
mod target;

pub use client::{UploadClient, UploadError, UploadOutcome, parse_authorities};
pub use lines::{LineFile, LineSource, SessionLines};
pub use target::{ParseTargetError, UploadTarget};
