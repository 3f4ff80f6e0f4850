//! Parses the destination of sessions: the address of a project on a server.

use std::fmt;
use std::str::FromStr;

/// A project on a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UploadTarget {
    /// Base URL, without the project and without a trailing slash.
    server: String,
    project: String,
}

/// Why a string does not identify a project on a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseTargetError {
    /// The string is not the address of a project.
    #[error(
        "cannot parse '{0}': expected the URL of a project on a server\nhint: https://HOST/PROJECT"
    )]
    InvalidAddress(String),
    /// The token would be sent unencrypted.
    #[error(
        "connections to '{0}' are not encrypted, so the token could be intercepted\nhint: use https://; http:// is only allowed for this machine"
    )]
    Unencrypted(String),
    /// The string contains credentials.
    #[error(
        "the URL contains a user name or a password, which everyone who can list processes can see\nhint: pass a token in the variable SPEEDWELL_TOKEN"
    )]
    HasCredentials,
}

impl UploadTarget {
    /// Returns the address of one of the project's sessions in the server's API.
    pub(crate) fn session_url(&self, id: &str) -> String {
        format!("{}/api/v1/{}/sessions/{id}", self.server, self.project)
    }
}

impl FromStr for UploadTarget {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<UploadTarget, ParseTargetError> {
        let invalid_address = || ParseTargetError::InvalidAddress(text.to_owned());
        let (scheme, location) = text.split_once("://").ok_or_else(invalid_address)?;
        let location = location.strip_suffix('/').unwrap_or(location);
        let (host, path) = location.split_once('/').ok_or_else(invalid_address)?;
        if host.contains('@') {
            return Err(ParseTargetError::HasCredentials);
        }
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let project = path.rsplit('/').next().unwrap_or_default();
        let is_project = !project.is_empty() && project.bytes().all(is_name);
        let is_url_byte = |byte: u8| byte.is_ascii_graphic() && !b"?#\\\"<>".contains(&byte);
        if host.is_empty() || !is_project || !location.bytes().all(is_url_byte) {
            return Err(invalid_address());
        }
        match scheme {
            "https" => {}
            "http" if is_this_machine(host) => {}
            "http" => return Err(ParseTargetError::Unencrypted(text.to_owned())),
            _ => return Err(invalid_address()),
        }
        let server = location.strip_suffix(project).unwrap_or(location);
        Ok(UploadTarget {
            server: format!("{scheme}://{}", server.trim_end_matches('/')),
            project: project.to_owned(),
        })
    }
}

/// Whether a host, with or without a port, is a loopback address.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost"
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for UploadTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.server, self.project)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_session_url(text: &str) -> Result<String, ParseTargetError> {
        text.parse::<UploadTarget>().map(|target| target.session_url("x"))
    }

    #[test]
    fn the_last_part_of_an_address_is_the_project() {
        for (text, address) in [
            ("https://h/core", "https://h/api/v1/core/sessions/x"),
            ("https://h:8443/perf/core/", "https://h:8443/perf/api/v1/core/sessions/x"),
            ("http://127.0.0.1:7600/a-1", "http://127.0.0.1:7600/api/v1/a-1/sessions/x"),
            ("http://[::1]:7600/a", "http://[::1]:7600/api/v1/a/sessions/x"),
        ] {
            assert_eq!(parse_session_url(text).as_deref(), Ok(address));
        }
        let target: UploadTarget = "https://h/core/".parse().unwrap();
        assert_eq!(target.to_string(), "https://h/core");
    }

    #[test]
    fn unsafe_and_invalid_upload_addresses_are_refused() {
        assert!(matches!(
            parse_session_url("http://h/core"),
            Err(ParseTargetError::Unencrypted(_))
        ));
        assert!(matches!(
            parse_session_url("http://127.0.0.1.evil/core"),
            Err(ParseTargetError::Unencrypted(_))
        ));
        assert_eq!(
            parse_session_url("https://me:secret@h/core"),
            Err(ParseTargetError::HasCredentials)
        );
        for text in [
            "h/core",
            "https://h",
            "https:///core",
            "ftp://h/core",
            "https://h/Core",
            "https://h/core?x=1",
            "https://h/a b/core",
        ] {
            assert!(
                matches!(parse_session_url(text), Err(ParseTargetError::InvalidAddress(_))),
                "{text}"
            );
        }
    }
}
