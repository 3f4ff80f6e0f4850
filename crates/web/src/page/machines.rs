//! `/PROJECT/machines`, `/PROJECT/machines/NUMBER`: machines and changes of their environment; and
//! `/PROJECT/calibration`.

use super::{Page, Visit};
use crate::link::{link_by, link_column};
use crate::refusal::Refusal;
use speedwell_report::html::Link;
use speedwell_report::{self as report, CircumstanceChange};
use speedwell_results::store::{SessionFilter, StoredMachine};

/// Sessions of a machine that are listed.
const ROWS: usize = 50;

/// Sessions of a machine that are searched for changes of the environment.
const LOOKED_AT: usize = 500;

/// Lists all machines.
pub fn all(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    // Machines are known from the points of their sessions. If computing missing points fails, the
    // page shows the known machines.
    let _ = visit.project.summarise();
    let known = visit.store.machines()?;
    let calibrations = visit.store.calibrations()?;
    let of = |machine: &StoredMachine| {
        let found = calibrations
            .iter()
            .find(|calibration| calibration.host == machine.machine.name);
        found.map(|calibration| calibration.found)
    };
    let mut document = report::machines(&known, &of);
    link_by(&mut document, "machines", ["machine", "number"], |number| {
        Some(visit.href(&format!("machines/{number}")))
    });
    Ok(Page {
        crumbs: vec![Link::new(visit.href("machines"), "machines")],
        ..Page::of(document)
    })
}

/// Shows one machine.
pub fn one(visit: Visit<'_>, number: &str) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let known = visit.store.machines()?;
    let found = known
        .iter()
        .find(|machine| machine.number.to_string() == number);
    let Some(machine) = found else {
        let pages = known.iter().take(5).map(|machine| {
            let address = visit.href(&format!("machines/{}", machine.number));
            (address, machine.machine.title().to_owned())
        });
        return Err(
            Refusal::missing(format!("there is no machine {number}")).nearest(pages.collect())
        );
    };
    let filter = SessionFilter {
        machine: Some(machine.number),
        ..SessionFilter::default()
    };
    let mut document = report::machine(machine);
    if let Some(newest) = machine.newest {
        let session = visit.store.session_without_runs(newest)?;
        document.append(report::environment(&session.environment, None));
    }
    let numbers = visit.store.selected_numbers(&filter, LOOKED_AT)?;
    document.append(report::circumstance_changes(&changes(visit, &numbers)?));
    document.push_heading(2, "Sessions");
    document.append(visit.list(&visit.store.selected(&filter, ROWS)?));
    link_column(&mut document, "circumstances", "session", |number| {
        Some(visit.numbered(number.as_i64()?))
    });
    let all = visit.href(&format!("sessions?machine={}", machine.number));
    let own = visit.href(&format!("machines/{}", machine.number));
    Ok(Page {
        crumbs: vec![
            Link::new(visit.href("machines"), "machines"),
            Link::new(own, machine.machine.title()),
        ],
        links: vec![
            Link::new(all, "all its sessions"),
            Link::new(visit.href("calibration"), "calibrations"),
        ],
        choice: visit.choice(),
        ..Page::of(document)
    })
}

/// Returns what changed from each session to the next, newest first.
fn changes(visit: Visit<'_>, numbers: &[i64]) -> Result<Vec<CircumstanceChange>, Refusal> {
    let mut changes = Vec::new();
    let mut before: Option<Vec<(String, String)>> = None;
    for number in numbers.iter().rev() {
        let now = visit.store.circumstances(*number)?;
        if let Some(before) = &before {
            let value = |of: &[(String, String)], name: &str| {
                let found = of.iter().find(|(known, _)| known == name);
                found.map_or_else(String::new, |(_, value)| value.clone())
            };
            for (name, after) in &now {
                let earlier = value(before, name);
                if earlier != *after {
                    changes.push(CircumstanceChange {
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
pub fn calibration(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let mut document = report::calibrations(&visit.store.calibrations()?);
    link_column(&mut document, "calibrations", "session", |number| {
        Some(visit.numbered(number.as_i64()?))
    });
    Ok(Page {
        crumbs: vec![Link::new(visit.href("calibration"), "calibration")],
        is_lasting: true,
        ..Page::of(document)
    })
}
