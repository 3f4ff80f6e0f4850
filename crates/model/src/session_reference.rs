//! Defines references to stored sessions, as users type them.

use anyhow::bail;
use std::fmt;
use std::str::FromStr;

/// Reference to one session of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionReference {
    /// `@latest`: the session that was started or imported last.
    Latest,
    /// `@prev`: the session before `@latest`.
    Previous,
    /// `@12`: the session with that number.
    Number(i64),
    /// `@TAG`: the last session that carries the tag.
    Tag(String),
    /// `@rev:REVISION`: the last session that measured this revision without uncommitted changes.
    /// REVISION is an id or the beginning of an id.
    Revision(String),
    /// `@branch:NAME`: the last session that measured this branch without uncommitted changes.
    Branch(String),
    /// `@base` or `@base:BRANCH`: the session of the newest measured revision that is in the
    /// history of both the checkout and the branch.
    Base(Option<String>),
}

/// Why a string is not a session reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The `@` is missing.
    #[error("'{0}' does not begin with '@'")]
    NoAt(String),
    /// The text after the `@` is not a valid reference.
    #[error(
        "invalid session reference '@{0}': {1}\nhint: use @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or \
             @base"
    )]
    BadName(String, &'static str),
}

impl FromStr for SessionReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<SessionReference, ReferenceError> {
        let name = text.strip_prefix('@').ok_or_else(|| ReferenceError::NoAt(text.to_owned()))?;
        match name {
            "latest" => Ok(SessionReference::Latest),
            "prev" => Ok(SessionReference::Previous),
            "base" => Ok(SessionReference::Base(None)),
            _ if let Some((kind @ ("rev" | "branch" | "base"), argument)) =
                name.split_once(':') =>
            {
                if argument.is_empty() {
                    return Err(ReferenceError::BadName(
                        name.to_owned(),
                        "nothing follows the colon",
                    ));
                }
                Ok(match kind {
                    "rev" => SessionReference::Revision(argument.to_owned()),
                    "branch" => SessionReference::Branch(argument.to_owned()),
                    _ => SessionReference::Base(Some(argument.to_owned())),
                })
            }
            _ if is_number(name) => name
                .parse()
                .map(SessionReference::Number)
                .map_err(|_| ReferenceError::BadName(name.to_owned(), "the number is too large")),
            _ => match tag_problem(name) {
                Some(reason) => Err(ReferenceError::BadName(name.to_owned(), reason)),
                None => Ok(SessionReference::Tag(name.to_owned())),
            },
        }
    }
}

impl fmt::Display for SessionReference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionReference::Latest => out.write_str("@latest"),
            SessionReference::Previous => out.write_str("@prev"),
            SessionReference::Number(number) => write!(out, "@{number}"),
            SessionReference::Tag(name) => write!(out, "@{name}"),
            SessionReference::Revision(revision) => write!(out, "@rev:{revision}"),
            SessionReference::Branch(name) => write!(out, "@branch:{name}"),
            SessionReference::Base(None) => out.write_str("@base"),
            SessionReference::Base(Some(branch)) => write!(out, "@base:{branch}"),
        }
    }
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns why `name` cannot be a tag; `None` if it can. A tag must not contain characters that the
/// command line uses as separators, such as `[`, `]` and `:`. It must not look like a number or a
/// reserved word.
fn tag_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("the name is empty");
    }
    if is_number(name) || ["latest", "prev", "base"].contains(&name) {
        return Some("the name is reserved");
    }
    let is_separator = |c: char| c.is_whitespace() || c.is_control() || "@[]:,'\"".contains(c);
    name.contains(is_separator).then_some("a tag must not contain blanks, quotes or @ [ ] : ,")
}

/// Rejects a name that no [`SessionReference`] could find.
///
/// # Errors
/// Fails with the reason why the name is rejected.
pub fn validate_tag(name: &str) -> anyhow::Result<()> {
    match tag_problem(name) {
        Some(reason) => bail!("invalid tag '{name}': {reason}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_a_session_reference_are_parsed_and_printed() {
        for (text, meant) in [
            ("@latest", SessionReference::Latest),
            ("@prev", SessionReference::Previous),
            ("@12", SessionReference::Number(12)),
            ("@nightly-7", SessionReference::Tag("nightly-7".into())),
            ("@v1.2/x", SessionReference::Tag("v1.2/x".into())),
            ("@rev:main~2", SessionReference::Revision("main~2".into())),
            ("@branch:fix/a", SessionReference::Branch("fix/a".into())),
            ("@base", SessionReference::Base(None)),
            ("@base:release", SessionReference::Base(Some("release".into()))),
        ] {
            assert_eq!(text.parse(), Ok(meant.clone()));
            assert_eq!(meant.to_string(), text);
        }
    }

    #[test]
    fn invalid_session_references_are_refused_with_a_reason() {
        assert_eq!(
            "latest".parse::<SessionReference>(),
            Err(ReferenceError::NoAt("latest".into()))
        );
        for wrong in ["@", "@a b", "@99999999999999999999", "@a[b]", "@a::b", "@rev:", "@base:"] {
            let error = wrong.parse::<SessionReference>().unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("hint: use @latest"), "{error}");
        }
    }

    #[test]
    fn tags_that_could_not_be_used_in_a_reference_are_refused() {
        for wrong in ["", "12", "latest", "prev", "base", "rev:1", "a b", "x@y"] {
            assert!(validate_tag(wrong).is_err(), "{wrong}");
        }
        assert!(validate_tag("12a").is_ok());
    }
}
