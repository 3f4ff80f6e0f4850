//! `/PROJECT/alerts`: what `speedwell history changes --open` says.

use super::{Page, Visit};
use crate::link::{link_by, link_column};
use crate::lookups::Course;
use crate::refusal::Refusal;
use speedwell_analysis::history::History;
use speedwell_report::html::{Field, Form, Link};
use speedwell_report::{self as report, Document};

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&["branch"])?;
    let course = Course {
        branch: visit.query.get("branch").map(str::to_owned),
        ..Course::default()
    };
    let history = visit.site.history(&course)?;
    let [branches, _] = visit.store.branches_and_tags()?;
    let branches = branches.into_iter().map(|name| (name.clone(), name));
    let usual = (String::new(), "the usual one".to_owned());
    let filters = Form {
        action: visit.href("alerts"),
        title: "Choose".into(),
        button: "Show".into(),
        fields: vec![Field {
            name: "branch",
            label: "branch".into(),
            value: course.branch.clone().unwrap_or_default(),
            options: std::iter::once(usual).chain(branches).collect(),
            ..Field::default()
        }],
        set: Vec::new(),
    };
    let own = visit.href(&format!("alerts{}", visit.query.text()));
    Ok(Page {
        crumbs: vec![Link::new(own, "open changes")],
        filters: Some(filters),
        is_lasting: true,
        ..Page::of(open_changes(visit, &history))
    })
}

/// The open changes, each leading to the course of its case and to the comparison of the two revisions.
pub fn open_changes(visit: Visit<'_>, history: &History) -> Document {
    let mut document = report::changes(history, &|_, change| change.is_open(), &visit.output());
    link_column(&mut document, "changes", "case", |case| {
        let case = case.as_str()?;
        let is_known = history
            .series
            .iter()
            .any(|series| *series.key.case == *case);
        is_known.then(|| visit.trend(case))
    });
    link_by(&mut document, "changes", ["between", "after"], |after| {
        Some(visit.revision(after.as_str()?))
    });
    document
}
