//! The reports of `doctor`: sources of noise on this machine and their remedies; and whether it gives the false alarms
//! that are expected when a thing is compared with itself, and how noisy each case is (`doctor --calibrate`).
//!
//! Start at [`checks`], [`calibration`] and [`tuned_calibration`].

use crate::case_labels::{CaseLabels, labelled_rows, parameters};
use crate::document::{Block, Document};
use crate::failures::failures;
use crate::figure::{change, change_interval, count, moment, setting, share};
use crate::output::{Output, Verbosity};
use crate::table::{Cell, Column, Columns, Emphasis, Kind, Name, Row, Table};
use serde_json::json;
use speedwell_analysis::{Calibrated, CalibratedCase, CalibrationFindings, Findings, SpreadChange};
use speedwell_model::Calibration;
use std::sync::Arc;

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    /// What was looked at: `cpu frequency`.
    pub name: String,
    /// The result in one word: `ok`, `warning`, `problem`, `missing`, `skipped`.
    pub state: String,
    /// What was found.
    pub found: String,
    /// What to do about it; empty where nothing is to be done.
    pub remedy: String,
}

/// The report, with the remedies below the checks that need one.
pub fn checks(checks: &[CheckLine]) -> Document {
    let columns = check_columns();
    let mut rows = Vec::new();
    for check in checks {
        rows.push(columns.row(check));
        if !check.remedy.is_empty() {
            rows.push(Row::Remark(format!("→ {}", check.remedy)));
        }
    }
    let mut document = Document::new("checks");
    document.push(Block::Table(columns.table_of_rows("checks", rows)));
    document
}

/// Spreads below this share are of no account: `same` without a threshold is said of larger changes.
const HARDLY: f64 = 0.02;

/// Whether the layout of builds matters, in a line for each case.
pub fn layouts(findings: &Findings) -> Document {
    let mut document = Document::new("layouts");
    document.push_warnings(&findings.warnings);
    for known in &findings.layout {
        let interval = known.components.interval;
        let answer = match () {
            () if interval.low > 0.0 => "layout matters, so compare builds (--builds 32)",
            () if interval.high < HARDLY => "layout hardly matters",
            () => "whether layout matters cannot be said",
        };
        let sentence = known.sentence();
        document.push(Block::Headline(format!(
            "{}: {answer}. {sentence}",
            known.case
        )));
    }
    let data = findings.layout.iter().map(|known| {
        let found = &known.components;
        json!({
            "case": known.case,
            "metric": known.metric,
            "builds": found.groups,
            "between": found.between,
            "between_low": found.interval.low,
            "between_high": found.interval.high,
            "within": found.within,
            "slowest_to_fastest": known.range,
        })
    });
    document.attach("layout", data.collect());
    document.append(failures(&findings.failures, Verbosity::Normal));
    document
}

fn check_columns() -> Columns<CheckLine> {
    let mut columns = Columns::new();
    columns.add(Column::words("state", "state"), |check: &CheckLine| {
        let (symbol, emphasis) = symbol(&check.state);
        Cell::value(check.state.clone())
            .shown(format!("{symbol} {}", check.state))
            .emphasised(emphasis)
    });
    columns.add(Column::new("name", "check", Kind::Identifier), |check| {
        Cell::words(check.name.clone())
    });
    columns.add(Column::new("found", "found", Kind::Label), |check| {
        Cell::words(check.found.clone())
    });
    columns.add_value("remedy", |check| check.remedy.clone());
    columns
}

/// A symbol and an emphasis for a result.
fn symbol(state: &str) -> (char, Emphasis) {
    match state {
        "ok" => ('✓', Emphasis::Good),
        "problem" => ('✗', Emphasis::Bad),
        "warning" => ('!', Emphasis::Caution),
        _ => ('-', Emphasis::Muted),
    }
}

/// What to type for a first calibration, and after something was changed.
const COMMAND: &str = "speedwell doctor --calibrate FILE";

/// The report.
pub fn calibration(found: &CalibrationFindings, output: &Output) -> Document {
    let mut document = Document::new("calibration");
    document.push_warnings(&found.warnings);
    document.push(Block::Headline(headline(found)));
    if !found.cases.is_empty() {
        document.push(Block::Table(case_table(found)));
        output.add_detail(&mut document, |_, document| {
            document.extend(notes(found).into_iter().map(Block::Note));
        });
    }
    document.attach("calibration", data(found));
    document.append(failures(&found.failures, output.verbosity));
    document
}

/// The line of a machine among the checks of `doctor`; `None` for a machine never calibrated.
pub fn calibration_check(known: Option<&Calibration>) -> CheckLine {
    let (state, found, remedy) = match known {
        None => ("unknown", "never calibrated".to_owned(), COMMAND.to_owned()),
        Some(known) => {
            let when = format!("@{}, {}", known.session, moment(known.started_unix_ms));
            let found = format!("{} ({when})", counts(known));
            if known.is_in_range() {
                ("ok", found, String::new())
            } else {
                let remedy = format!("fix what else is reported here, then: {COMMAND}");
                ("warning", found, remedy)
            }
        }
    };
    CheckLine {
        name: "calibration".to_owned(),
        state: state.to_owned(),
        found,
        remedy,
    }
}

/// What tuning the machine changed of the noise: the same thing measured against itself before and after.
pub fn tuned_calibration(
    spreads: &[SpreadChange],
    knobs: &str,
    [before, after]: [&CalibrationFindings; 2],
    output: &Output,
) -> Document {
    let mut document = Document::new("tuned_calibration");
    document.push_warnings(&before.warnings);
    document.push(Block::Headline(tuned_headline(spreads)));
    let mut table = Table {
        caption: vec![format!("set: {knobs}")],
        ..spread_columns().table("spreads", spreads)
    };
    table
        .caption
        .extend(before.metric.iter().map(|metric| metric.name.clone()));
    document.push(Block::Table(table));
    output.add_detail(&mut document, |_, document| {
        document.push(Block::Note(
            "spread: the median difference between two runs of the same thing in one block. The interval resamples \
             blocks. Before and after were measured one after the other, so other work that came or went in between counts as well."
                .into(),
        ));
        let alarms = [("before", before), ("after", after)];
        let alarms = alarms.map(|(when, found)| format!("{when}: {}", counts(&found.counts)));
        document.push(Block::Note(alarms.join("; ")));
    });
    document.attach("before", data(before));
    document.attach("after", data(after));
    for found in [before, after] {
        document.append(failures(&found.failures, output.verbosity));
    }
    document
}

fn tuned_headline(spreads: &[SpreadChange]) -> String {
    let number = |word: &str| {
        spreads
            .iter()
            .filter(|one| spread_word(one) == word)
            .count()
    };
    let cases = count(spreads.len(), "case", "cases");
    match (number("less"), number("more")) {
        _ if spreads.is_empty() => "nothing was compared".into(),
        (0, 0) => format!(
            "tuned, runs of the same thing differ as before, as far as can be seen in {cases}."
        ),
        (less, more) => format!(
            "tuned, runs of the same thing differ less in {less} and more in {more} of {cases}."
        ),
    }
}

/// Whether there is less noise, as far as the interval says.
fn spread_word(one: &SpreadChange) -> &'static str {
    match one.change {
        Some(change) if change.high < 0.0 => "less",
        Some(change) if change.low > 0.0 => "more",
        _ => "unclear",
    }
}

fn spread_columns() -> Columns<SpreadChange> {
    let mut columns = Columns::new();
    columns.add(
        Column::new("case", "case", Kind::Label),
        |one: &SpreadChange| Cell::words(one.case.id()),
    );
    columns.add(Column::figure("before", "spread before"), |one| {
        Cell::shown_figure(Some(one.before), share)
    });
    columns.add(Column::figure("after", "after"), |one| {
        Cell::shown_figure(Some(one.after), share)
    });
    columns.add(Column::figure("change", "change").for_people(), |one| {
        Cell::text(one.change.as_ref().map(change).unwrap_or_default())
    });
    columns.add(
        Column::figure("interval", "95 % interval").for_people(),
        |one| Cell::text(one.change.as_ref().map(change_interval).unwrap_or_default()),
    );
    columns.add(Column::words("noise", "noise"), |one| {
        Cell::words(spread_word(one))
    });
    columns.add_figure("change", |one| one.change.map(|change| change.value));
    columns.add_figure("change_low", |one| one.change.map(|change| change.low));
    columns.add_figure("change_high", |one| one.change.map(|change| change.high));
    columns
}

/// The line of a machine's knobs among the checks of `doctor`; `None` where nothing is tuned.
pub fn tuned_check(knobs: Option<String>) -> CheckLine {
    let (state, found, remedy) = match knobs {
        Some(knobs) => ("ok", knobs, ""),
        None => (
            "unknown",
            "no knob is set".to_owned(),
            "speedwell tune --dry-run",
        ),
    };
    CheckLine {
        name: "tuned".to_owned(),
        state: state.to_owned(),
        found,
        remedy: remedy.to_owned(),
    }
}

fn headline(found: &CalibrationFindings) -> String {
    let counts = counts(&found.counts);
    match found.outcome {
        Calibrated::Yes => format!("this machine is calibrated: {counts}."),
        Calibrated::TooManyAlarms => format!(
            "this machine is not calibrated: {counts}. Differences are seen where there are none."
        ),
        Calibrated::TooFewAlarms => format!(
            "this machine is not calibrated: {counts}. The test is more careful here than it says, and \
             changes are overlooked."
        ),
        Calibrated::Unknown => unknown(found),
    }
}

fn unknown(found: &CalibrationFindings) -> String {
    let alarms = alarms(&found.counts);
    match (found.counts.comparisons, found.needed) {
        (0, _) => "nothing was compared".to_owned(),
        (_, None) => format!("{alarms}: the runs do not vary enough to tell anything."),
        (_, Some(needed)) => {
            format!("{alarms}: too few comparisons to say; at least {needed} are needed.")
        }
    }
}

fn alarms(counts: &Calibration) -> String {
    format!(
        "{} in {} of the same thing",
        count(counts.false_alarms as usize, "false alarm", "false alarms"),
        count(counts.comparisons as usize, "comparison", "comparisons"),
    )
}

fn counts(counts: &Calibration) -> String {
    let Calibration {
        expected_low: low,
        expected_high: high,
        ..
    } = counts;
    format!("{}, where {low} to {high} are expected", alarms(counts))
}

/// A case with its name in the table.
struct Entry<'a> {
    case: &'a CalibratedCase,
    name: Name,
}

fn case_table(found: &CalibrationFindings) -> Table {
    let cases: Vec<_> = found.cases.iter().map(|of| Arc::clone(&of.case)).collect();
    let labels = CaseLabels::new(&cases);
    let columns = case_columns();
    let rows = labelled_rows(labels.lines, |index, name| {
        let case = &found.cases[index];
        columns.row(&Entry { case, name })
    });
    let metric = found.metric.iter().map(|metric| metric.name.clone());
    let caption = Some(labels.shared).filter(|text| !text.is_empty());
    let runs = format!("{} + {} runs a comparison", found.runs, found.runs);
    let line: Vec<String> = metric.chain([runs]).collect();
    Table {
        caption: caption.into_iter().chain([line.join(", ")]).collect(),
        ..columns.table_of_rows("calibrated_cases", rows)
    }
}

fn case_columns<'a>() -> Columns<Entry<'a>> {
    let mut columns = Columns::new();
    columns.add(
        Column::new("case", "case", Kind::Label),
        |row: &Entry<'a>| Cell::value(row.case.case.id()).named(&row.name),
    );
    columns.add_value("benchmark", |row| row.case.case.benchmark.clone());
    columns.add_value("parameters", |row| parameters(&row.case.case));
    columns.add(Column::figure("comparisons", "comparisons"), |row| {
        Cell::count(row.case.comparisons)
    });
    columns.add(Column::figure("false_alarms", "false alarms"), |row| {
        Cell::count(row.case.false_alarms)
    });
    columns.add(Column::figure("variation", "CV"), |row| {
        Cell::shown_figure(row.case.variation, share)
    });
    columns.add(
        Column::figure("autocorrelation", "autocorrelation"),
        |row| {
            let mark = if row.case.is_dependent { "*" } else { "" };
            Cell::shown_figure(row.case.autocorrelation, |r1| format!("{r1:+.2}{mark}"))
        },
    );
    columns.add(Column::figure("detectable", "32 runs find"), |row| {
        Cell::shown_figure(row.case.detectable, share)
    });
    columns
}

/// Said below the table.
fn notes(found: &CalibrationFindings) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(rate) = &found.rate {
        notes.push(format!(
            "false alarms: a difference was found at {}; that is {} of the comparisons, [{}, {}]. With \
             {} runs a side the test itself would give {}.",
            setting(found.alpha),
            share(rate.value),
            share(rate.low),
            share(rate.high),
            found.runs,
            share(found.level),
        ));
    }
    notes.push(
        "CV: standard deviation of all runs divided by their mean; 32 runs find: the smallest change \
         that 32 runs a side find in 80 % of cases."
            .into(),
    );
    if !found.rules.is_empty() {
        let rules = found.rules.iter();
        let rules: Vec<String> = rules
            .map(|(rule, part)| format!("{rule} {}", share(*part)))
            .collect();
        notes.push(format!(
            "--reject would put aside of these runs: {}.",
            rules.join(", ")
        ));
    }
    if found.cases.iter().any(|case| case.is_dependent) {
        notes.push(
            "autocorrelation with *: runs depend on those before them (it is beyond 2 / sqrt(runs)); the \
             randomised blocks protect the test."
                .into(),
        );
    }
    notes
}

fn data(found: &CalibrationFindings) -> serde_json::Value {
    let outcome = match found.outcome {
        Calibrated::Yes => "calibrated",
        Calibrated::TooManyAlarms => "too many false alarms",
        Calibrated::TooFewAlarms => "too few false alarms",
        Calibrated::Unknown => "unknown",
    };
    json!({
        "result": outcome,
        "session": found.counts.session,
        "comparisons": found.counts.comparisons,
        "false_alarms": found.counts.false_alarms,
        "expected_low": found.counts.expected_low,
        "expected_high": found.counts.expected_high,
        "rules": found.rules.iter().map(|(rule, part)| json!({"rule": rule.to_string(), "rejected": part})).collect::<Vec<_>>(),
        "rate": found.rate.map(|rate| rate.value),
        "rate_low": found.rate.map(|rate| rate.low),
        "rate_high": found.rate.map(|rate| rate.high),
        "alpha": found.alpha,
        "level": found.level,
        "runs_per_side": found.runs,
        "metric": found.metric.as_ref().map(|metric| metric.name.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Output, print};

    #[test]
    fn a_remedy_stands_below_its_check() {
        let check = |state: &str, name: &str, remedy: &str| CheckLine {
            name: name.into(),
            state: state.into(),
            found: "found".into(),
            remedy: remedy.into(),
        };
        let document = checks(&[
            check("ok", "timer", ""),
            check(
                "warning",
                "cpu frequency",
                "cpupower frequency-set -g performance",
            ),
        ]);
        let mut out = Vec::new();
        print(&document, &Output::default(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "state      check          found\n\
             ───────────────────────────────\n\
             ✓ ok       timer          found\n\
             ! warning  cpu frequency  found\n  \
               → cpupower frequency-set -g performance\n"
        );
    }
}
