//! Parses the address of a page and its format.
//!
//! Every path may end in an extension such as `.json`, which requests the same document in that
//! format. A name may also end like that. The page of the whole name then takes precedence. Start
//! with [`PageAddress::possible_pages`].

use crate::dashboard::link::decode_segment;
use crate::dashboard::page_error::{PageError, nearest_names};

/// Format of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PageFormat {
    /// A page with its layout.
    #[default]
    Page,
    /// A document format.
    Document(speedwell_report::ReportFormat),
    /// The sessions behind the page, one JSON object per line.
    JsonLines,
}

impl PageFormat {
    /// Formats in which every page is available as a file, by file extension.
    pub const DOCUMENTS: [(&'static str, speedwell_report::ReportFormat); 5] = [
        ("json", speedwell_report::ReportFormat::Json),
        ("md", speedwell_report::ReportFormat::Markdown),
        ("csv", speedwell_report::ReportFormat::Csv),
        ("html", speedwell_report::ReportFormat::Html),
        ("txt", speedwell_report::ReportFormat::Text),
    ];

    fn by_ending(ending: &str) -> Option<PageFormat> {
        if ending == "jsonl" {
            return Some(PageFormat::JsonLines);
        }
        let known = PageFormat::DOCUMENTS.iter().find(|(name, _)| *name == ending);
        known.map(|(_, format)| PageFormat::Document(*format))
    }
}

/// A page of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageKind {
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
    /// Changes without triage.
    Alerts,
    /// Sessions that are being measured.
    Live,
    /// One session while it is being measured.
    SessionLive(String),
    /// Event stream of a session that is being measured.
    Events(String),
    Search,
    /// Tokens, the audit log and other matters of the whole server.
    Settings,
}

/// An address, as the parts of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAddress {
    parts: Vec<String>,
}

/// Names of the pages of a project.
const PROJECT_PAGES: [&str; 12] = [
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

impl PageAddress {
    /// Parses a path.
    ///
    /// # Errors
    /// Fails if the path does not decode to text.
    pub fn parse(path: &str) -> Result<PageAddress, PageError> {
        let relative = path.strip_prefix('/').unwrap_or(path);
        let segments = relative.strip_suffix('/').unwrap_or(relative).split('/');
        match segments.map(decode_segment).collect::<Option<Vec<String>>>() {
            Some(parts) => Ok(PageAddress { parts }),
            None => Err(PageError::not_found(
                "cannot decode the address: expected percent-encoded UTF-8",
            )),
        }
    }

    /// Returns the name of the project, or `None` for pages of the whole server.
    pub fn project(&self) -> Option<&str> {
        let first = self.parts.first()?;
        let name = match self.parts.len() {
            1 => first.split_once('.').map_or(first.as_str(), |(name, _)| name),
            _ => first,
        };
        (!["", "index", "settings"].contains(&name)).then_some(name)
    }

    /// Returns the pages that the address may mean, most likely first. The first page takes the
    /// whole last part as a name. The second page takes the extension of the last part as a format.
    ///
    /// # Errors
    /// Fails if there is no such page.
    pub fn possible_pages(&self, project: &str) -> Result<Vec<(PageKind, PageFormat)>, PageError> {
        let exact_page = page_kind(&self.parts, project);
        let mut pages: Vec<(PageKind, PageFormat)> = Vec::new();
        if let Ok(page) = &exact_page {
            pages.push((page.clone(), PageFormat::Page));
        }
        if let Some((last, before)) = self.parts.split_last()
            && let Some((stem, extension)) = last.rsplit_once('.')
            && let Some(format) = PageFormat::by_ending(extension)
        {
            let mut parts = before.to_vec();
            // Pages without a name of their own are called `index`.
            let is_index = stem == "index" && parts.len() < 2;
            if !is_index {
                parts.push(stem.to_owned());
            }
            if let Ok(page) = page_kind(&parts, project) {
                pages.push((page, format));
            }
        }
        if pages.is_empty() {
            return Err(exact_page.err().unwrap_or_else(|| PageError::not_found("page not found")));
        }
        Ok(pages)
    }
}

fn page_kind(parts: &[String], project: &str) -> Result<PageKind, PageError> {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (first, segments) = match &parts[..] {
        [] | [""] => return Ok(PageKind::Overview),
        ["settings"] => return Ok(PageKind::Settings),
        [first, segments @ ..] => (*first, segments),
    };
    if first != project {
        return Err(PageError::not_found(format!("project '{first}' not found"))
            .with_nearest(vec![(format!("/{project}/"), project.to_owned())]));
    }
    if segments.iter().any(|part| part.is_empty()) {
        return Err(PageError::not_found("page not found"));
    }
    let joined = |parts: &[&str]| parts.join("/");
    Ok(match segments {
        [] => PageKind::Project,
        ["sessions"] => PageKind::Sessions,
        ["sessions", id, "live"] => PageKind::SessionLive((*id).to_owned()),
        ["sessions", id, "events"] => PageKind::Events((*id).to_owned()),
        ["sessions", id @ ..] if id.len() == 1 || id[0].starts_with('@') => {
            PageKind::Session(joined(id))
        }
        [reference, ..] if reference.starts_with('@') => PageKind::Reference(joined(segments)),
        ["benchmarks"] => PageKind::Benchmarks,
        ["benchmarks", name @ ..] => PageKind::Benchmark(joined(name)),
        ["trend"] => PageKind::Trend,
        ["compare"] => PageKind::Compare,
        ["revisions", id @ ..] if !id.is_empty() => PageKind::Revision(joined(id)),
        ["branches", name @ ..] if !name.is_empty() => PageKind::Branch(joined(name)),
        ["pulls", number] => PageKind::Pull((*number).to_owned()),
        ["machines"] => PageKind::Machines,
        ["machines", number] => PageKind::Machine((*number).to_owned()),
        ["calibration"] => PageKind::Calibration,
        ["alerts"] => PageKind::Alerts,
        ["live"] => PageKind::Live,
        ["search"] => PageKind::Search,
        [unknown, ..] => {
            let similar_pages = nearest_names(unknown, PROJECT_PAGES)
                .into_iter()
                .filter(|page| !["revisions", "branches", "pulls"].contains(page))
                .map(|page| (format!("/{project}/{page}"), page.to_owned()));
            return Err(PageError::not_found(format!("page '{unknown}' not found"))
                .with_nearest(similar_pages.collect()));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Vec<(PageKind, PageFormat)> {
        PageAddress::parse(path)
            .and_then(|address| address.possible_pages("demo"))
            .unwrap_or_default()
    }

    #[test]
    fn every_page_has_its_address_and_its_formats() {
        let json = PageFormat::Document(speedwell_report::ReportFormat::Json);
        assert_eq!(read("/"), [(PageKind::Overview, PageFormat::Page)]);
        assert_eq!(read("/index.json"), [(PageKind::Overview, json)]);
        assert_eq!(read("/demo/"), [(PageKind::Project, PageFormat::Page)]);
        assert_eq!(read("/demo.json"), [(PageKind::Project, json)]);
        assert_eq!(read("/demo/index.json"), [(PageKind::Project, json)]);
        assert_eq!(read("/demo/trend.json"), [(PageKind::Trend, json)]);
        assert_eq!(
            read("/demo/branches/fix/a%2Fb"),
            [(PageKind::Branch("fix/a/b".into()), PageFormat::Page)]
        );
        assert_eq!(
            read("/demo/@branch:a/b"),
            [(PageKind::Reference("@branch:a/b".into()), PageFormat::Page)]
        );
    }

    #[test]
    fn a_name_that_ends_like_a_format_is_a_name_first() {
        let whole = PageKind::Benchmark("g/parse.json".into());
        let stem = PageKind::Benchmark("g/parse".into());
        let json = PageFormat::Document(speedwell_report::ReportFormat::Json);
        assert_eq!(
            read("/demo/benchmarks/g/parse.json"),
            [(whole.clone(), PageFormat::Page), (stem, json)]
        );
        assert_eq!(read("/demo/benchmarks/g/parse.json.json")[1], (whole, json));
    }

    #[test]
    fn an_unknown_page_names_the_nearest() {
        let refused = |path: &str| {
            let read = PageAddress::parse(path).and_then(|address| address.possible_pages("demo"));
            read.unwrap_err()
        };
        assert_eq!(refused("/dmo/").nearest[0].0, "/demo/");
        assert_eq!(refused("/demo/sesions").nearest[0].0, "/demo/sessions");
        for path in ["/demo//sessions", "/static/..%2f..%2fetc/passwd", "/demo/%00", "/demo/%ff"] {
            assert_eq!(refused(path).status, 404, "{path}");
        }
    }
}
