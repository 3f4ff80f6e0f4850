//! The comment: identified by its marker and author, edited in place, and never duplicated.
//!
//! Parallel jobs may each create one before they see the other's. After creating one, all comments
//! are therefore listed again; the one with the lowest ID stays, and our others are removed. Start
//! at [`Client::comment`].

use crate::client::{Client, Error};
use crate::place::Forge;
use serde_json::{Value, json};
use std::cmp::Ordering;
use ureq::http::Method;

/// Which revision was measured and when, so that an older result never replaces a newer one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The measured revision.
    pub revision: String,
    /// Start of the measurement, in milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
}

/// A comment to post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Identifies the comment, for example `tool:project:check`. Only its letters, digits, `:`,
    /// `.`, `_`, `/` and `-` are used.
    pub marker: String,
    /// Revision and time of the result.
    pub stamp: Stamp,
    /// Markdown.
    pub body: String,
}

/// Outcome of posting a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// A comment was created, with this ID.
    Created(u64),
    /// The comment with this ID was edited.
    Edited(u64),
    /// The comment with this ID was up to date.
    Unchanged(u64),
    /// The comment with this ID is about something newer and stays.
    Outdated(u64),
}

/// An existing comment.
#[derive(Debug, Clone)]
struct Comment {
    id: u64,
    body: String,
    author: String,
    is_robot: bool,
}

/// Compares two revisions, if their order is known: `Less` if the first is older.
pub type Order<'a> = &'a dyn Fn(&str, &str) -> Option<Ordering>;

impl Client {
    /// Posts `text` as the only comment with its marker, and removes our other comments with that
    /// marker. If `order` does not know which revision is newer, the start of the measurement
    /// decides.
    ///
    /// # Errors
    /// Fails if the forge refuses or is unreachable.
    pub fn comment(&self, text: &Text, order: Order<'_>) -> Result<Posted, Error> {
        Ok(self.place_comment(text, order)?.0)
    }

    /// Like [`Client::comment`]; also returns the stamp of a newer result whose comment stays.
    pub(crate) fn place_comment(
        &self,
        text: &Text,
        order: Order<'_>,
    ) -> Result<(Posted, Option<Stamp>), Error> {
        let me = self.own_name();
        let body = text.whole(self.longest());
        let own = self.own_comments(&text.first_line(), me.as_deref())?;
        if !own.is_empty() {
            return self.settle(&own, text, &body, order);
        }
        let created = self.write(Method::POST, &self.comments_path(), &body)?;
        let id = created["id"].as_u64();
        let id = id.ok_or_else(|| self.unreadable(WRITE, "names no comment"))?;
        // Another job may have created one at the same time.
        let own = self.own_comments(&text.first_line(), me.as_deref())?;
        match own.first() {
            Some(first) if first.id < id => self.settle(&own, text, &body, order),
            _ => {
                self.remove(own.iter().filter(|one| one.id > id))?;
                Ok((Posted::Created(id), None))
            }
        }
    }

    /// Brings the first of our comments up to date, unless one is about something newer, and
    /// removes the others.
    fn settle(
        &self,
        own: &[Comment],
        text: &Text,
        body: &str,
        order: Order<'_>,
    ) -> Result<(Posted, Option<Stamp>), Error> {
        let (first, others) = (&own[0], &own[1..]);
        let newest = own
            .iter()
            .filter_map(|one| Some((one, Stamp::parse(&one.body)?)));
        let newer = newest
            .filter(|(_, stamp)| text.stamp.is_older_than(stamp, order))
            .max_by_key(|(_, stamp)| stamp.at_unix_ms);
        let wanted = newer.as_ref().map_or(body, |(one, _)| &*one.body);
        let is_there = first.body.trim_end().replace("\r\n", "\n") == wanted.trim_end();
        if !is_there {
            let method = match self.place.forge {
                Forge::GitLab => Method::PUT,
                Forge::GitHub | Forge::Gitea => Method::PATCH,
            };
            self.write(method, &self.comment_path(first.id), wanted)?;
        }
        self.remove(others.iter())?;
        Ok(match (newer, is_there) {
            (Some((_, stamp)), _) => (Posted::Outdated(first.id), Some(stamp)),
            (None, true) => (Posted::Unchanged(first.id), None),
            (None, false) => (Posted::Edited(first.id), None),
        })
    }

    fn remove<'a>(&self, comments: impl Iterator<Item = &'a Comment>) -> Result<(), Error> {
        for comment in comments {
            let path = self.comment_path(comment.id);
            match self.ask("remove a comment", Method::DELETE, &path, None) {
                // The other job was faster.
                Err(Error::Refused { status: 404, .. }) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    fn write(&self, method: Method, path: &str, body: &str) -> Result<Value, Error> {
        let (answer, _) = self.ask(WRITE, method, path, Some(&json!({ "body": body })))?;
        Ok(answer)
    }

    /// Our comments with this first line, oldest first.
    fn own_comments(&self, first_line: &str, me: Option<&str>) -> Result<Vec<Comment>, Error> {
        let listed = self.list("read the comments", &self.comments_path())?;
        let mut own: Vec<Comment> = listed.iter().filter_map(read).collect();
        own.retain(|one| {
            let is_marked = one.body.lines().next().map(str::trim_end) == Some(first_line);
            let is_own = me.map_or_else(|| one.is_robot, |me| one.author == me);
            is_marked && is_own
        });
        own.sort_by_key(|one| one.id);
        own.dedup_by_key(|one| one.id);
        Ok(own)
    }

    /// Name of the token's user. Tokens of GitHub jobs may not query it.
    fn own_name(&self) -> Option<String> {
        let (answer, _) = self
            .ask("ask who we are", Method::GET, "/user", None)
            .ok()?;
        let name = answer["login"]
            .as_str()
            .or_else(|| answer["username"].as_str());
        name.map(str::to_owned)
    }

    fn comments_path(&self) -> String {
        let (repository, number) = (&self.place.repository, self.place.number);
        match self.place.forge {
            Forge::GitHub | Forge::Gitea => format!("/repos/{repository}/issues/{number}/comments"),
            Forge::GitLab => {
                format!(
                    "/projects/{}/merge_requests/{number}/notes",
                    encoded(repository)
                )
            }
        }
    }

    fn comment_path(&self, id: u64) -> String {
        match self.place.forge {
            Forge::GitHub | Forge::Gitea => {
                format!("/repos/{}/issues/comments/{id}", self.place.repository)
            }
            Forge::GitLab => format!("{}/{id}", self.comments_path()),
        }
    }

    /// Maximum number of characters in a comment.
    fn longest(&self) -> usize {
        match self.place.forge {
            Forge::GitHub | Forge::Gitea => 65_536,
            Forge::GitLab => 1_000_000,
        }
    }
}

const WRITE: &str = "write a comment";

/// Users that write for jobs, on forges that do not mark bots.
const ROBOTS: [&str; 2] = ["gitea-actions", "forgejo-actions"];

/// Parses a comment of any forge; `None` for a comment by the forge itself.
fn read(entry: &Value) -> Option<Comment> {
    if entry["system"].as_bool() == Some(true) {
        return None;
    }
    let user = if entry["user"].is_object() {
        &entry["user"]
    } else {
        &entry["author"]
    };
    let author = user["login"].as_str().or_else(|| user["username"].as_str());
    let author = author.unwrap_or_default().to_owned();
    Some(Comment {
        id: entry["id"].as_u64()?,
        body: entry["body"].as_str()?.to_owned(),
        is_robot: user["type"].as_str() == Some("Bot") || ROBOTS.contains(&&*author),
        author,
    })
}

/// Encodes a path as a single segment of another.
pub(crate) fn encoded(path: &str) -> String {
    path.replace('/', "%2F")
}

impl Stamp {
    fn line(&self) -> String {
        format!(
            "<!-- measured {} at {} -->",
            harmless(&self.revision),
            self.at_unix_ms
        )
    }

    /// Parses the stamp in the second line of a comment.
    fn parse(body: &str) -> Option<Stamp> {
        let line = body.lines().nth(1)?.trim();
        let words = line.strip_prefix("<!-- measured ")?.strip_suffix(" -->")?;
        let (revision, at) = words.split_once(" at ")?;
        Some(Stamp {
            revision: revision.to_owned(),
            at_unix_ms: at.parse().ok()?,
        })
    }

    /// Whether the stamp is about this revision.
    pub(crate) fn is_of(&self, revision: &str) -> bool {
        harmless(revision) == self.revision
    }

    fn is_older_than(&self, other: &Stamp, order: Order<'_>) -> bool {
        let known = order(&harmless(&self.revision), &other.revision);
        let of_code = known.filter(|order| order.is_ne());
        of_code
            .unwrap_or_else(|| self.at_unix_ms.cmp(&other.at_unix_ms))
            .is_lt()
    }
}

/// Keeps only characters that are safe in an HTML comment.
fn harmless(text: &str) -> String {
    let is_harmless = |letter: &char| letter.is_alphanumeric() || ":._/-".contains(*letter);
    text.chars()
        .filter(is_harmless)
        .collect::<String>()
        .replace("--", "-")
}

impl Text {
    fn first_line(&self) -> String {
        format!("<!-- {} -->", harmless(&self.marker))
    }

    /// The complete comment, truncated at the end of a line if it is too long.
    fn whole(&self, longest: usize) -> String {
        let head = format!("{}\n{}\n", self.first_line(), self.stamp.line());
        let room = longest - head.chars().count() - CUT.len() - CLOSING_ROOM;
        if self.body.chars().count() <= room {
            return format!("{head}{}", self.body);
        }
        let mut kept = String::new();
        let mut taken = 0;
        for line in self.body.split_inclusive('\n') {
            taken += line.chars().count();
            if taken > room {
                break;
            }
            kept.push_str(line);
        }
        // Close what is still open, which would otherwise extend over the rest of the page.
        let open = kept
            .matches("<details")
            .count()
            .saturating_sub(kept.matches("</details>").count());
        let fences = kept.lines().filter(|line| line.starts_with("```")).count();
        let fence = if fences % 2 == 1 { "```\n" } else { "" };
        let closing = "</details>\n".repeat(open.min(10));
        format!("{head}{kept}{fence}\n{closing}{CUT}")
    }
}

const CUT: &str = "\n_The rest is too long for a comment._\n";

/// Characters reserved for closing open elements.
const CLOSING_ROOM: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &str) -> Text {
        Text {
            marker: "speedwell:a/b:x --> <script>".into(),
            stamp: Stamp {
                revision: "abc -->".into(),
                at_unix_ms: 5,
            },
            body: body.into(),
        }
    }

    #[test]
    fn marker_and_stamp_are_hidden_lines_whatever_they_say() {
        let whole = text("hello").whole(65_536);
        assert_eq!(
            whole,
            "<!-- speedwell:a/b:x-script -->\n<!-- measured abc- at 5 -->\nhello"
        );
        let stamp = Stamp::parse(&whole).unwrap();
        assert_eq!((&*stamp.revision, stamp.at_unix_ms), ("abc-", 5));
    }

    #[test]
    fn a_long_text_is_cut_between_lines_and_closed() {
        let body = format!(
            "<details><summary>s</summary>\n\n```text\n{}",
            "line of words\n".repeat(10_000)
        );
        let whole = text(&body).whole(65_536);
        assert!(whole.chars().count() <= 65_536);
        assert!(whole.chars().count() > 65_000, "most of the room is used");
        assert!(whole.ends_with(
            "line of words\n```\n\n</details>\n\n_The rest is too long for a comment._\n"
        ));
    }

    #[test]
    fn the_order_of_revisions_outranks_the_clock() {
        let stamp = |revision: &str, at_unix_ms| Stamp {
            revision: revision.into(),
            at_unix_ms,
        };
        let order = |one: &str, other: &str| Some(one.cmp(other));
        assert!(stamp("a", 9).is_older_than(&stamp("b", 1), &order));
        assert!(!stamp("b", 1).is_older_than(&stamp("a", 9), &order));
        assert!(stamp("a", 1).is_older_than(&stamp("a", 2), &order));
        assert!(stamp("b", 1).is_older_than(&stamp("a", 2), &|_, _| None));
    }
}
