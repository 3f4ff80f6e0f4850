//! Builds `/PROJECT/machines` and `/PROJECT/machines/NUMBER`, which show machines and changes of
//! their environment, and `/PROJECT/calibration`.

use crate::dashboard::link::{link_by, link_column};
use crate::dashboard::page::content::{PageContent, PageContext, PageResult};
use crate::http::HttpError;
use speedwell_model::stored::StoredMachine;
use speedwell_report::html::PageLink;
use speedwell_report::{self as report, EnvironmentChange};
use speedwell_store::SessionFilter;

/// Maximum number of sessions listed for a machine.
const MAX_SESSIONS: usize = 50;

/// Maximum number of a machine's sessions to search for environment changes.
const MAX_SEARCHED_SESSIONS: usize = 500;

/// Lists all machines.
pub fn machines_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&[])?;
    // A machine is known once a history point has been computed for one of its sessions. If
    // computing missing points fails, the page lists the machines known so far.
    let _ = context.project.summarize();
    let machines = context.store.list_machines()?;
    let calibrations = context.store.list_calibrations()?;
    let calibration_of = |machine: &StoredMachine| {
        let found =
            calibrations.iter().find(|calibration| calibration.host == machine.machine.name);
        found.map(|calibration| calibration.found)
    };
    let mut document = report::list_machines(&machines, &calibration_of);
    link_by(&mut document, "machines", ["machine", "number"], |number| {
        Some(context.page_href(&format!("machines/{number}")))
    });
    Ok(PageContent {
        crumbs: vec![PageLink::new(context.page_href("machines"), "machines")],
        ..PageContent::from_document(document)
    }
    .into())
}

/// Shows one machine.
pub fn machine_page(context: PageContext<'_>) -> PageResult {
    let number = context.name;
    context.query.check_names(&[])?;
    let machines = context.store.list_machines()?;
    let found = machines.iter().find(|machine| machine.number.to_string() == number);
    let Some(machine) = found else {
        let pages = machines.iter().take(5).map(|machine| {
            let address = context.page_href(&format!("machines/{}", machine.number));
            (address, machine.machine.title().to_owned())
        });
        return Err(HttpError::not_found(format!("machine {number} not found"))
            .with_nearest(pages.collect()));
    };
    let filter = SessionFilter { machine: Some(machine.number), ..SessionFilter::default() };
    let mut document = report::describe_machine(machine);
    if let Some(newest) = machine.newest {
        let session = context.store.load_session_without_runs(newest)?;
        document.append_document(report::report_environment(&session.environment, None));
    }
    let numbers = context.store.selected_numbers(&filter, MAX_SEARCHED_SESSIONS)?;
    document.append_document(report::list_environment_changes(&environment_changes(
        context, &numbers,
    )?));
    document.push_heading(2, "Sessions");
    document.append_document(
        context.list_sessions(&context.store.select_sessions(&filter, MAX_SESSIONS)?),
    );
    link_column(&mut document, "environment_facts", "session", |number| {
        Some(context.numbered_href(number.as_i64()?))
    });
    let sessions_href = context.page_href(&format!("sessions?machine={}", machine.number));
    let own_href = context.page_href(&format!("machines/{}", machine.number));
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(context.page_href("machines"), "machines"),
            PageLink::new(own_href, machine.machine.title()),
        ],
        links: vec![
            PageLink::new(sessions_href, "all sessions"),
            PageLink::new(context.page_href("calibration"), "calibrations"),
        ],
        choice: context.row_choice(),
        ..PageContent::from_document(document)
    }
    .into())
}

/// Returns the environment changes between consecutive sessions, newest first.
fn environment_changes(
    context: PageContext<'_>,
    numbers: &[i64],
) -> Result<Vec<EnvironmentChange>, HttpError> {
    let mut changes = Vec::new();
    let mut previous_facts: Option<Vec<(String, String)>> = None;
    for number in numbers.iter().rev() {
        let facts = context.store.environment_facts(*number)?;
        if let Some(previous_facts) = &previous_facts {
            let value = |facts: &[(String, String)], name: &str| {
                let found = facts.iter().find(|(fact_name, _)| fact_name == name);
                found.map_or_else(String::new, |(_, value)| value.clone())
            };
            for (name, after) in &facts {
                let earlier = value(previous_facts, name);
                if earlier != *after {
                    changes.push(EnvironmentChange {
                        session: *number,
                        name: name.clone(),
                        before: earlier,
                        after: after.clone(),
                    });
                }
            }
        }
        previous_facts = Some(facts);
    }
    changes.reverse();
    Ok(changes)
}

/// Builds `/PROJECT/calibration`, which lists the false alarms per machine.
pub fn calibration_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&[])?;
    let mut document = report::list_calibrations(&context.store.list_calibrations()?);
    link_column(&mut document, "calibrations", "session", |number| {
        Some(context.numbered_href(number.as_i64()?))
    });
    Ok(PageContent {
        crumbs: vec![PageLink::new(context.page_href("calibration"), "calibration")],
        is_cacheable: true,
        ..PageContent::from_document(document)
    }
    .into())
}
