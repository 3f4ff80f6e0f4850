//! `/PROJECT/machines`, `/PROJECT/machines/NUMBER`: machines and changes of their environment; and
//! `/PROJECT/calibration`.

use super::{PageContent, PageContext};
use crate::link::{link_by, link_column};
use crate::refusal::PageError;
use speedwell_report::html::PageLink;
use speedwell_report::{self as report, EnvironmentChange};
use speedwell_results::store::{SessionFilter, StoredMachine};

/// Sessions of a machine that are listed.
const MAX_SESSIONS: usize = 50;

/// Sessions of a machine that are searched for changes of the environment.
const MAX_SEARCHED_SESSIONS: usize = 500;

/// Lists all machines.
pub fn machines_page(visit: PageContext<'_>) -> Result<PageContent, PageError> {
    visit.query.check_names(&[])?;
    // Machines are known from the points of their sessions. If computing missing points fails, the
    // page shows the known machines.
    let _ = visit.project.summarize();
    let machines = visit.store.list_machines()?;
    let calibrations = visit.store.list_calibrations()?;
    let calibration_of = |machine: &StoredMachine| {
        let found = calibrations
            .iter()
            .find(|calibration| calibration.host == machine.machine.name);
        found.map(|calibration| calibration.found)
    };
    let mut document = report::list_machines(&machines, &calibration_of);
    link_by(&mut document, "machines", ["machine", "number"], |number| {
        Some(visit.page_href(&format!("machines/{number}")))
    });
    Ok(PageContent {
        crumbs: vec![PageLink::new(visit.page_href("machines"), "machines")],
        ..PageContent::from_document(document)
    })
}

/// Shows one machine.
pub fn machine_page(visit: PageContext<'_>, number: &str) -> Result<PageContent, PageError> {
    visit.query.check_names(&[])?;
    let machines = visit.store.list_machines()?;
    let found = machines
        .iter()
        .find(|machine| machine.number.to_string() == number);
    let Some(machine) = found else {
        let pages = machines.iter().take(5).map(|machine| {
            let address = visit.page_href(&format!("machines/{}", machine.number));
            (address, machine.machine.title().to_owned())
        });
        return Err(PageError::not_found(format!("machine {number} not found"))
            .with_nearest(pages.collect()));
    };
    let filter = SessionFilter {
        machine: Some(machine.number),
        ..SessionFilter::default()
    };
    let mut document = report::describe_machine(machine);
    if let Some(newest) = machine.newest {
        let session = visit.store.load_session_without_runs(newest)?;
        document.append_document(report::report_environment(&session.environment, None));
    }
    let numbers = visit
        .store
        .selected_numbers(&filter, MAX_SEARCHED_SESSIONS)?;
    document.append_document(report::list_environment_changes(&environment_changes(
        visit, &numbers,
    )?));
    document.push_heading(2, "Sessions");
    document
        .append_document(visit.list_sessions(&visit.store.select_sessions(&filter, MAX_SESSIONS)?));
    link_column(&mut document, "circumstances", "session", |number| {
        Some(visit.numbered_href(number.as_i64()?))
    });
    let sessions_href = visit.page_href(&format!("sessions?machine={}", machine.number));
    let own_href = visit.page_href(&format!("machines/{}", machine.number));
    Ok(PageContent {
        crumbs: vec![
            PageLink::new(visit.page_href("machines"), "machines"),
            PageLink::new(own_href, machine.machine.title()),
        ],
        links: vec![
            PageLink::new(sessions_href, "all sessions"),
            PageLink::new(visit.page_href("calibration"), "calibrations"),
        ],
        choice: visit.row_choice(),
        ..PageContent::from_document(document)
    })
}

/// Returns what changed from each session to the next, newest first.
fn environment_changes(
    visit: PageContext<'_>,
    numbers: &[i64],
) -> Result<Vec<EnvironmentChange>, PageError> {
    let mut changes = Vec::new();
    let mut before: Option<Vec<(String, String)>> = None;
    for number in numbers.iter().rev() {
        let now = visit.store.environment_facts(*number)?;
        if let Some(before) = &before {
            let value = |facts: &[(String, String)], name: &str| {
                let found = facts.iter().find(|(known, _)| known == name);
                found.map_or_else(String::new, |(_, value)| value.clone())
            };
            for (name, after) in &now {
                let earlier = value(before, name);
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
        before = Some(now);
    }
    changes.reverse();
    Ok(changes)
}

/// `/PROJECT/calibration`: lists the false alarms of each machine.
pub fn calibration_page(visit: PageContext<'_>) -> Result<PageContent, PageError> {
    visit.query.check_names(&[])?;
    let mut document = report::list_calibrations(&visit.store.list_calibrations()?);
    link_column(&mut document, "calibrations", "session", |number| {
        Some(visit.numbered_href(number.as_i64()?))
    });
    Ok(PageContent {
        crumbs: vec![PageLink::new(visit.page_href("calibration"), "calibration")],
        is_lasting: true,
        ..PageContent::from_document(document)
    })
}
