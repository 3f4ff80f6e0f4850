//! Which page an address means, and in which format.
//!
//! Behind any page's path, `.json` and its like ask for the same document in that format. Names may end so as well: the page
//! of that whole name comes first. Start with [`Address::readings`].

use crate::link::decoded;
use crate::refusal::{Refusal, nearest};

/// A format of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// A page with its frame.
    #[default]
    Page,
    /// One of the formats of documents.
    Document(speedwell_report::Format),
    /// The sessions behind the page, one JSON object a line.
    JsonLines,
}

impl Format {
    /// The formats that every page has besides being a page, by their endings.
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

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// All projects.
    Overview,
    /// One project.
    Project,
    /// Its sessions.
    Sessions,
    /// One of them, by its identity or by a reference.
    Session(String),
    /// A reference, which leads to the session.
    Reference(String),
    /// All benchmarks.
    Benchmarks,
    /// One of them.
    Benchmark(String),
    /// Results over time.
    Trend,
    /// Two sessions beside each other.
    Compare,
    /// What is known of a revision.
    Revision(String),
    /// What is known of a branch.
    Branch(String),
    /// All machines.
    Machines,
    /// One of them, by its number.
    Machine(String),
    /// All calibrations.
    Calibration,
    /// Changes that nobody has judged.
    Alerts,
    /// What is being measured.
    Live,
    /// One session while it is being measured.
    SessionLive(String),
    /// Its stream of events.
    Events(String),
    /// What a text is found in.
    Search,
}

/// An address: the parts of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    parts: Vec<String>,
}

/// Names of the pages of a project.
const PAGES: [&str; 11] = [
    "sessions",
    "benchmarks",
    "trend",
    "compare",
    "revisions",
    "branches",
    "machines",
    "calibration",
    "alerts",
    "live",
    "search",
];

impl Address {
    /// Reads a path.
    ///
    /// # Errors
    /// Bytes that are no text.
    pub fn parse(path: &str) -> Result<Address, Refusal> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let parts = path.strip_suffix('/').unwrap_or(path).split('/');
        let parts = parts.map(decoded).collect::<Option<Vec<String>>>();
        parts
            .map(|parts| Address { parts })
            .ok_or_else(|| Refusal::missing("this address is no text"))
    }

    /// What the address may mean, the likelier first: its last part as a whole, then without an ending that is a format.
    ///
    /// # Errors
    /// There is no such page.
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
            // What has no name of its own goes by `index`.
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
        ["machines"] => Place::Machines,
        ["machines", number] => Place::Machine((*number).to_owned()),
        ["calibration"] => Place::Calibration,
        ["alerts"] => Place::Alerts,
        ["live"] => Place::Live,
        ["search"] => Place::Search,
        [unknown, ..] => {
            let pages = nearest(unknown, PAGES).into_iter();
            let pages = pages.filter(|page| !["revisions", "branches"].contains(page));
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
