//! Builds `/PROJECT/changes`, which corresponds to `speedwell history changes`: the open, the
//! suspected and the judged changes, with a form in each row. Every triage is recorded in the audit
//! log. `/PROJECT/alerts` is the former address of the page. `/PROJECT/feed.atom` has the open
//! changes of the default branch, and the failed sessions of jobs that run regularly.

use crate::clients::forge::RepositoryPages;
use crate::dashboard::address::{PageFormat, encode_segment, is_site_path};
use crate::dashboard::page::revision::repository_pages;
use crate::dashboard::page::{
    PageContent, PageContext, PageResult, link_by, link_column, named_options, redirect_to,
    typed_response,
};
use crate::dashboard::site::{RequestContext, unix_ms};
use crate::dashboard::{RequiredPermission, TrendQuery};
use crate::http::HttpError;
use axum::http::StatusCode;
use axum::response::Response;
use speedwell_analysis::history::ProjectHistory;
use speedwell_model::stored::SessionOverview;
use speedwell_model::{ChangeTriage, RecordedChange, check_note, short_revision};
use speedwell_report::html::PageLink;
use speedwell_report::{
    AtomFeed, CellForm, ChangeList, Document, ReportCell, ReportColumn, ReportRow, ReportTable,
    format_moment, open_change_entries, render_feed, report_change_list, session_entry,
};
use speedwell_store::{SessionFilter, Store};
use std::collections::HashMap;

pub fn changes_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&["branch", "state"])?;
    let list = requested_list(context)?;
    let trend_query = TrendQuery {
        branch: context.query.get("branch").map(str::to_owned),
        ..TrendQuery::default()
    };
    let history = context.project.load_history(&trend_query)?;
    let [branches, _] = context.store.branches_and_tags()?;
    let mut fields = vec![context.query_field("branch", "", named_options("default", branches))];
    if list != ChangeList::Open {
        let names = ChangeList::ALL.into_iter().skip(1).map(ChangeList::name);
        fields.push(context.query_field("state", "", named_options("open", names)));
    }
    let tabs = ChangeList::ALL.map(|tab| {
        let state = (tab != ChangeList::Open).then(|| tab.name());
        let href = format!("changes{}", context.query.with_value("state", state));
        let label = format!("{} {}", tab.name(), tab.count_changes(&history));
        PageLink { is_here: tab == list, ..context.page_link(&href, label) }
    });
    Ok(PageContent {
        crumbs: vec![context.page_link("changes", "changes")],
        links: tabs.into(),
        filters: Some(context.filter_form("changes", fields)),
        is_cacheable: true,
        ..PageContent::from_document(changes_table(context, &history, list))
    })
}

/// Returns the list that the query selects.
fn requested_list(context: PageContext<'_>) -> Result<ChangeList, HttpError> {
    let Some(name) = context.query.get("state") else {
        return Ok(ChangeList::Open);
    };
    ChangeList::from_name(name).ok_or_else(|| {
        HttpError::bad_request(format!("unknown state '{name}'"))
            .with_hint("use state=open, state=suspected or state=judged")
    })
}

/// Triages a change as requested in the form, and redirects to the page with the form.
///
/// # Errors
/// Fails if the caller lacks the permission, the form is invalid, or there is no such change.
pub fn triage_change(context: &RequestContext) -> Result<Response, HttpError> {
    let form = context.parse_form()?;
    form.check_names(&["change", "triage", "note", "to"])?;
    let triage_name = form.get("triage").unwrap_or_default();
    let subject = format!("change {}: {}", form.get("change").unwrap_or_default(), triage_name);
    let permission = RequiredPermission::Triage;
    if let Err(error) = context.caller.ensure_permitted(permission, context.project.as_deref()) {
        context.record_action("triage", &subject, "refused");
        return Err(error);
    }
    let number =
        form.get_number("change")?.ok_or_else(|| HttpError::bad_request("no change selected"))?;
    let triage = ChangeTriage::from_name(triage_name).ok_or_else(|| {
        HttpError::bad_request(format!("unknown triage '{triage_name}'"))
            .with_hint("use open, accepted, wrong or fixed")
    })?;
    check_note(form.get("note").unwrap_or_default())
        .map_err(|error| HttpError::from_error(StatusCode::BAD_REQUEST, &error))?;
    let project = context.find_project()?;
    let mut store = Store::open(&project.path)?;
    let stored = store
        .find_change(number)
        .map_err(|error| HttpError::from_error(StatusCode::NOT_FOUND, &error))?;
    store.store_triage(&RecordedChange {
        triage,
        note: form.get("note").map(str::to_owned).or(stored.change.note),
        triaged_by: Some(context.caller.name.clone()),
        triaged_unix_ms: Some(unix_ms()),
        ..stored.change
    })?;
    context.record_action("triage", &subject, "done");
    Ok(redirect_to(&return_path(form.get("to"), &project.name)))
}

/// Returns the page to return to: the given one if it belongs to the project, or the changes.
fn return_path(requested: Option<&str>, project: &str) -> String {
    let prefix = format!("/{project}/");
    let page = requested.filter(|path| is_site_path(path) && path.starts_with(&prefix));
    page.map_or_else(|| format!("{prefix}changes"), str::to_owned)
}

/// Builds the table of one list of changes. Each row links to the case's trend and to the revision
/// after the change. On a page, it also has a form for triage if the caller may use it.
pub fn changes_table(
    context: PageContext<'_>,
    history: &ProjectHistory,
    list: ChangeList,
) -> Document {
    let mut document = report_change_list(history, list, &context.report_options());
    if context.format == PageFormat::Page {
        let changes: HashMap<i64, &RecordedChange> = history
            .series
            .iter()
            .flat_map(|series| &series.trend.changes)
            .map(|change| (change.number, change))
            .collect();
        // The changes are listed even if the settings cannot be read.
        let pages = repository_pages(context).ok().flatten();
        document.for_each_table(&mut |table| {
            add_page_columns(context, table, &changes, pages.as_ref());
        });
    }
    link_column(&mut document, "changes", "case", |case| {
        let name = case.as_str()?;
        let is_known = history.series.iter().any(|series| *series.key.case == *name);
        is_known.then(|| context.trend_href(name))
    });
    link_by(&mut document, "changes", ["between", "after"], |after| {
        Some(context.revision_href(after.as_str()?))
    });
    document
}

/// Adds the columns that only a page has: the commit on the forge, who judged the change and when,
/// and the form.
fn add_page_columns(
    context: PageContext<'_>,
    table: &mut ReportTable,
    changes: &HashMap<i64, &RecordedChange>,
    pages: Option<&RepositoryPages>,
) {
    let number_column = table.columns.iter().position(|column| column.key == "number");
    let Some(number_column) = number_column.filter(|_| table.name == "changes") else {
        return;
    };
    let may_triage =
        context.caller.is_permitted(RequiredPermission::Triage, Some(&context.project.name));
    let page_columns = [
        ("commit", "commit"),
        ("judged_by", "by"),
        ("judged_at", "when (UTC)"),
        ("judge", "judge"),
    ];
    table
        .columns
        .extend(page_columns.map(|(key, header)| ReportColumn::words(key, header).for_people()));
    for row in &mut table.rows {
        match row {
            ReportRow::Cells(cells) => {
                let number =
                    cells[number_column].value.as_ref().and_then(|value| value.to_json().as_i64());
                let change = number.and_then(|number| changes.get(&number));
                cells.extend(match change {
                    Some(change) => page_cells(context, change, pages, may_triage),
                    None => Default::default(),
                });
            }
            ReportRow::Reference(cells) => {
                cells.extend(page_columns.map(|_| ReportCell::default()));
            }
            ReportRow::Group(_) | ReportRow::Remark(_) => {}
        }
    }
}

fn page_cells(
    context: PageContext<'_>,
    change: &RecordedChange,
    pages: Option<&RepositoryPages>,
    may_triage: bool,
) -> [ReportCell; 4] {
    let commit = pages
        .and_then(|pages| pages.commit_url(&change.after))
        .map(|url| ReportCell::text(short_revision(&change.after)).with_link(url));
    let is_judged = change.triage != ChangeTriage::Open;
    let judge = change.triaged_by.as_deref().filter(|_| is_judged);
    let moment = change.triaged_unix_ms.filter(|_| is_judged);
    let form = (may_triage && change.number > 0).then(|| {
        ReportCell::text("judge").with_form(triage_form(context.page_href("changes"), change))
    });
    [
        commit.unwrap_or_default(),
        ReportCell::text(judge.unwrap_or_default()),
        moment.map_or_else(ReportCell::default, |unix_ms| {
            ReportCell::text(format_moment(unix_ms)).with_moment(unix_ms)
        }),
        form.unwrap_or_default(),
    ]
}

/// Builds the form of a change. A judged change can only be reopened.
fn triage_form(action: String, change: &RecordedChange) -> CellForm {
    let buttons = if change.triage == ChangeTriage::Open {
        vec![("accepted", "accept"), ("wrong", "wrong"), ("fixed", "fixed")]
    } else {
        vec![("open", "reopen")]
    };
    CellForm {
        action,
        title: format!("Judge change {}", change.number),
        hidden: vec![("change", change.number.to_string())],
        note: ("note", format!("Note on change {}", change.number)),
        name: "triage",
        buttons,
    }
}

/// Number of newest sessions that are searched for failed ones.
const MAX_SESSIONS: usize = 200;

/// Answers with the feed.
///
/// # Errors
/// Fails if the query is not empty, or the store cannot be read.
pub fn project_feed(context: &RequestContext) -> Result<Response, HttpError> {
    let project = context.find_project()?;
    context.parse_query()?.check_names(&[])?;
    let base = format!("{}/{}", context.client.origin, project.name);
    let addresses = |number: i64, case: &str| {
        let trend = format!("{base}/trend?case={}", encode_segment(case));
        [format!("{base}/changes#change-{number}"), trend]
    };
    let mut entries = match project.load_history(&TrendQuery::default()) {
        Ok(history) => open_change_entries(&history, &addresses),
        // There is no branch yet.
        Err(error) if error.status == StatusCode::NOT_FOUND => Vec::new(),
        Err(error) => return Err(error),
    };
    let newest = project
        .with_reader(|store| Ok(store.select_sessions(&SessionFilter::default(), MAX_SESSIONS)?))?;
    let failed = newest.iter().filter(|session| is_failed_nightly(session));
    entries.extend(failed.map(|session| {
        session_entry(session, format!("{base}/sessions/{}", encode_segment(&session.id)))
    }));
    let feed = AtomFeed {
        title: format!("{}: open changes and failed sessions", project.name),
        address: format!("{base}/feed.atom"),
        page: format!("{base}/changes"),
        entries,
    };
    Ok(typed_response(StatusCode::OK, "application/atom+xml", render_feed(&feed)))
}

/// Whether a session failed that was measured on a branch, as by a nightly job, and not for a pull
/// request, whose author sees the failure there.
fn is_failed_nightly(session: &SessionOverview) -> bool {
    let is_of_branch = session
        .origin
        .as_ref()
        .is_some_and(|origin| origin.branch.is_some() && origin.pull.is_none());
    is_of_branch && !session.is_running() && (session.failures > 0 || session.is_killed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triage_returns_only_to_pages_of_its_project() {
        for path in ["/core/changes?state=judged", "/core/", "/core/trend?case=g%2Fa%20n=1"] {
            assert_eq!(return_path(Some(path), "core"), path);
        }
        for path in [
            "//evil.example/core/",
            "/\\evil.example",
            "https://evil.example/core/",
            "/core/\r\nSet-Cookie: a=b",
            "/corex/",
            "/other/",
            "/core",
            "javascript:alert(1)",
            " /core/",
        ] {
            assert_eq!(return_path(Some(path), "core"), "/core/changes", "{path:?}");
        }
        assert_eq!(return_path(None, "core"), "/core/changes");
    }

    #[test]
    fn a_judged_change_can_only_be_reopened() {
        let form = |triage| {
            let change = RecordedChange { number: 7, triage, ..RecordedChange::default() };
            triage_form("/p/changes".into(), &change)
        };
        let open = form(ChangeTriage::Open);
        let values: Vec<&str> = open.buttons.iter().map(|(value, _)| *value).collect();
        assert_eq!(values, ["accepted", "wrong", "fixed"]);
        assert_eq!(open.hidden, [("change", "7".to_owned())]);
        assert_eq!(form(ChangeTriage::Wrong).buttons, [("open", "reopen")]);
    }
}
