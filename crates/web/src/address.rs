//! Parses the address of a page and its format.
//!
//! Every page's path accepts an ending such as `.json`, which requests the same document in that
//! format. Names may have such endings too: the page of the whole name takes precedence. Start with
//! [`Address::readings`].

use crate::link::decoded;
use crate::refusal::{Refusal, nearest};

/// Format of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// A page with its layout.
    #[default]
    Page,
    /// A document format.
    Document(speedwell_report::Format),
    /// The sessions behind the page, one JSON object per line.
    JsonLines,
}

impl Format {
    /// Formats that every page has besides HTML, by file ending.
    pub const DOCUMENTS: [(&'static str, speedwell_report::Format); 5] = [
        ("json", speedwell_report::Format::Json),
        ("md", speedwell_report::Format::Markdown),
        ("csv", speedwell_report::Format::Csv),
        ("html", speedwell_report::Format::Html),
        ("txt", speedwell_report::Format::Text),
    ];

    fn by_ending(ending: &str) -> Option<Format> {
        if ending == "jsonl" {
            return Some(Format::JsonLines);
        }
        let known = Format::DOCUMENTS.iter().find(|(name, _)| *name == ending);
        known.map(|(_, format)| Format::Document(*format))
    }
}

/// A page of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// All projects.
    Overview,
    Project,
    /// Sessions of the project.
    Sessions,
    /// One session, by id or reference.
    Session(String),
    /// A reference, which redirects to the session.
    Reference(String),
    Benchmarks,
    Benchmark(String),
    /// Results over time.
    Trend,
    /// Two sessions side by side.
    Compare,
    Revision(String),
    Branch(String),
    Pull(String),
    Machines,
    /// One machine, by its number.
    Machine(String),
    Calibration,
    /// Changes that nobody has judged.
    Alerts,
    /// Sessions that are being measured.
    Live,
    /// One session while it is being measured.
    SessionLive(String),
    /// Event stream of such a session.
    Events(String),
    Search,
    /// Tokens, the audit log and other matters of the whole server.
    Settings,
}

/// An address: the parts of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    parts: Vec<String>,
}

/// Names of the pages of a project.
const PAGES: [&str; 12] = [
    "sessions",
    "benchmarks",
    "trend",
    "compare",
    "revisions",
    "branches",
    "pulls",
    "machines",
    "calibration",
    "alerts",
    "live",
    "search",
];

impl Address {
    /// Parses a path.
    ///
    /// # Errors
    /// If it does not decode to text.
    pub fn parse(path: &str) -> Result<Address, Refusal> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let parts = path.strip_suffix('/').unwrap_or(path).split('/');
        let parts = parts.map(decoded).collect::<Option<Vec<String>>>();
        parts
            .map(|parts| Address { parts })
            .ok_or_else(|| Refusal::missing("this address is no text"))
    }

    /// Returns the name of the project; `None` for pages of the whole server.
    pub fn project(&self) -> Option<&str> {
        let first = self.parts.first()?;
        let name = match self.parts.len() {
            1 => first
                .split_once('.')
                .map_or(first.as_str(), |(name, _)| name),
            _ => first,
        };
        (!["", "index", "settings"].contains(&name)).then_some(name)
    }

    /// Returns the possible meanings, likelier first: the last part as a whole, then without an
    /// ending that names a format.
    ///
    /// # Errors
    /// If there is no such page.
    pub fn readings(&self, project: &str) -> Result<Vec<(Place, Format)>, Refusal> {
        let whole = place(&self.parts, project);
        let mut found: Vec<(Place, Format)> = Vec::new();
        if let Ok(place) = &whole {
            found.push((place.clone(), Format::Page));
        }
        if let Some((last, before)) = self.parts.split_last()
            && let Some((stem, ending)) = last.rsplit_once('.')
            && let Some(format) = Format::by_ending(ending)
        {
            let mut parts = before.to_vec();
            // Pages without a name of their own are called `index`.
            let is_index = stem == "index" && parts.len() < 2;
            if !is_index {
                parts.push(stem.to_owned());
            }
            if let Ok(place) = place(&parts, project) {
                found.push((place, format));
            }
        }
        if found.is_empty() {
            return Err(whole.err().unwrap_or_else(|| Refusal::missing("no page")));
        }
        Ok(found)
    }
}

fn place(parts: &[String], project: &str) -> Result<Place, Refusal> {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (first, rest) = match &parts[..] {
        [] | [""] => return Ok(Place::Overview),
        ["settings"] => return Ok(Place::Settings),
        [first, rest @ ..] => (*first, rest),
    };
    if first != project {
        return Err(Refusal::missing(format!("there is no project '{first}'"))
            .nearest(vec![(format!("/{project}/"), project.to_owned())]));
    }
    if rest.iter().any(|part| part.is_empty()) {
        return Err(Refusal::missing("there is no page at this address"));
    }
    let joined = |parts: &[&str]| parts.join("/");
    Ok(match rest {
        [] => Place::Project,
        ["sessions"] => Place::Sessions,
        ["sessions", id, "live"] => Place::SessionLive((*id).to_owned()),
        ["sessions", id, "events"] => Place::Events((*id).to_owned()),
        ["sessions", id @ ..] if id.len() == 1 || id[0].starts_with('@') => {
            Place::Session(joined(id))
        }
        [reference, ..] if reference.starts_with('@') => Place::Reference(joined(rest)),
        ["benchmarks"] => Place::Benchmarks,
        ["benchmarks", name @ ..] => Place::Benchmark(joined(name)),
        ["trend"] => Place::Trend,
        ["compare"] => Place::Compare,
        ["revisions", id @ ..] if !id.is_empty() => Place::Revision(joined(id)),
        ["branches", name @ ..] if !name.is_empty() => Place::Branch(joined(name)),
        ["pulls", number] => Place::Pull((*number).to_owned()),
        ["machines"] => Place::Machines,
        ["machines", number] => Place::Machine((*number).to_owned()),
        ["calibration"] => Place::Calibration,
        ["alerts"] => Place::Alerts,
        ["live"] => Place::Live,
        ["search"] => Place::Search,
        [unknown, ..] => {
            let pages = nearest(unknown, PAGES).into_iter();
            let pages = pages.filter(|page| !["revisions", "branches", "pulls"].contains(page));
            let pages = pages.map(|page| (format!("/{project}/{page}"), page.to_owned()));
            return Err(
                Refusal::missing(format!("there is no page '{unknown}' here"))
                    .nearest(pages.collect()),
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Vec<(Place, Format)> {
        Address::parse(path)
            .and_then(|address| address.readings("demo"))
            .unwrap_or_default()
    }

    #[test]
    fn every_page_has_its_address_and_its_formats() {
        let json = Format::Document(speedwell_report::Format::Json);
        assert_eq!(read("/"), [(Place::Overview, Format::Page)]);
        assert_eq!(read("/index.json"), [(Place::Overview, json)]);
        assert_eq!(read("/demo/"), [(Place::Project, Format::Page)]);
        assert_eq!(read("/demo.json"), [(Place::Project, json)]);
        assert_eq!(read("/demo/index.json"), [(Place::Project, json)]);
        assert_eq!(read("/demo/trend.json"), [(Place::Trend, json)]);
        assert_eq!(
            read("/demo/branches/fix/a%2Fb"),
            [(Place::Branch("fix/a/b".into()), Format::Page)]
        );
        assert_eq!(
            read("/demo/@branch:a/b"),
            [(Place::Reference("@branch:a/b".into()), Format::Page)]
        );
    }

    #[test]
    fn a_name_that_ends_like_a_format_is_a_name_first() {
        let whole = Place::Benchmark("g/parse.json".into());
        let stem = Place::Benchmark("g/parse".into());
        let json = Format::Document(speedwell_report::Format::Json);
        assert_eq!(
            read("/demo/benchmarks/g/parse.json"),
            [(whole.clone(), Format::Page), (stem, json)]
        );
        assert_eq!(read("/demo/benchmarks/g/parse.json.json")[1], (whole, json));
    }

    #[test]
    fn what_is_no_page_names_the_nearest() {
        let refused = |path: &str| {
            let read = Address::parse(path).and_then(|address| address.readings("demo"));
            read.unwrap_err()
        };
        assert_eq!(refused("/dmo/").nearest[0].0, "/demo/");
        assert_eq!(refused("/demo/sesions").nearest[0].0, "/demo/sessions");
        for path in [
            "/demo//sessions",
            "/static/..%2f..%2fetc/passwd",
            "/demo/%00",
            "/demo/%ff",
        ] {
            assert_eq!(refused(path).status, 404, "{path}");
        }
    }
}
