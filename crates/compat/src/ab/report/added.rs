//! What Speedwell adds to ab's report: lines below its last one.
//!
//! There they disturb nobody who reads the report: what is known of it is found by the words before
//! the colon, none of which is used again, and what is read by place stands above. Start at [`lines`].

use super::{CutShort, Report};
use speedwell_load::latency::LEAST_CONCURRENCY;

/// The lines, each as a name and a text.
pub fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let figures = &report.figures;
    let mut lines = vec![("Account", account(report))];
    if let Some(effective) = figures.effective_concurrency() {
        let asked = figures.concurrency;
        let text = format!("{effective:.2} on average, {asked} requested");
        lines.push(("Effective concurrency", text));
    }
    let ranges = figures.lengths.map(|lengths| lengths.range);
    if let Some((least, greatest)) = ranges.filter(|(least, greatest)| least < greatest) {
        let text = format!("{least} to {greatest} bytes, which is no failure");
        lines.push(("Body lengths", text));
    }
    if let Some(lengths) = figures.lengths
        && report.request.shown.counts_lengths
    {
        let (others, all) = (lengths.others, figures.complete);
        let text = format!("{others} of {all} (not as long as the first)");
        lines.push(("Failed as ab counts", text));
    }
    let warnings = warnings(report).into_iter();
    lines.extend(warnings.map(|text| ("WARNING", text)));
    lines
}

/// `40 attempted = 20 ok + 20 reset.in-body`.
fn account(report: &Report) -> String {
    let figures = &report.figures;
    let ends = figures.account.iter();
    let ends: Vec<String> = ends
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    format!("{} attempted = {}", figures.attempted, ends.join(" + "))
}

/// What the figures must not be taken for, in whole sentences.
fn warnings(report: &Report) -> Vec<String> {
    let figures = &report.figures;
    let mut said = Vec::new();
    if let Some(reason) = report.cut_short.map(CutShort::reason) {
        said.push(format!("This report is of a part of the test: {reason}."));
    }
    let failed = figures.complete - figures.succeeded().min(figures.complete);
    if failed > 0 && report.cut_short.is_none() {
        said.push(format!(
            "{failed} of {} requests failed or had another status than 2xx: the rate is not that of a \
             working server.",
            figures.complete
        ));
    }
    if figures.is_concurrency_short() {
        said.push(format!(
            "Less than {:.0} % of the requested concurrency: times are those of a lighter load.",
            LEAST_CONCURRENCY * 100.0
        ));
    }
    said
}
