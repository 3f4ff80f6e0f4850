//! `/PROJECT/alerts`: the page of `speedwell history changes --open`.

use super::{Page, Visit};
use crate::access::Need;
use crate::change::judge_form;
use crate::link::{link_by, link_column};
use crate::lookups::Course;
use crate::refusal::Refusal;
use speedwell_analysis::history::History;
use speedwell_model::Judgement;
use speedwell_report::html::{Field, Form, Link};
use speedwell_report::{self as report, Document};

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&["branch"])?;
    let course = Course {
        branch: visit.query.get("branch").map(str::to_owned),
        ..Course::default()
    };
    let history = visit.project.history(&course)?;
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
    let known = judgeable(&history);
    let may_judge = visit.caller.may(Need::Judge, Some(&visit.project.name));
    let changes = (may_judge && !known.is_empty())
        .then(|| judge_form(visit.href("alerts"), known, course.branch.as_deref()));
    Ok(Page {
        changes: changes.into_iter().collect(),
        crumbs: vec![Link::new(own, "open changes")],
        filters: Some(filters),
        is_lasting: true,
        ..Page::of(open_changes(visit, &history))
    })
}

/// Lists the numbers and descriptions of the open changes, then of the judged ones, whose judgement
/// can be taken back.
fn judgeable(history: &History) -> Vec<(String, String)> {
    let all = history.series.iter().flat_map(|series| {
        let changes = series.trend.changes.iter();
        changes.map(move |change| (series, change))
    });
    let (open, others): (Vec<_>, Vec<_>) = all.partition(|(_, change)| change.is_open());
    let judged = others
        .into_iter()
        .filter(|(_, change)| change.judgement != Judgement::Open);
    let with_words = open.into_iter().chain(judged).map(|(series, change)| {
        let number = change.number.to_string();
        let mut words = format!("{number}: {}", series.key.case);
        if change.judgement != Judgement::Open {
            words += &format!(" ({})", change.judgement);
        }
        (number, words)
    });
    with_words.collect()
}

/// Builds the table of open changes, linked to the trend of the case and to the revision after the
/// change.
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
