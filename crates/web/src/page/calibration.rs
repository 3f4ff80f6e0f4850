//! `/PROJECT/calibration`: how often each machine took a thing for different from itself.

use super::{Page, Visit};
use crate::link::link_column;
use crate::refusal::Refusal;
use speedwell_report::calibrations;
use speedwell_report::html::Link;

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&[])?;
    let mut document = calibrations(&visit.store.calibrations()?);
    link_column(&mut document, "calibrations", "session", |number| {
        Some(visit.numbered(number.as_i64()?))
    });
    Ok(Page {
        crumbs: vec![Link::new(visit.href("calibration"), "calibration")],
        is_lasting: true,
        ..Page::of(document)
    })
}
