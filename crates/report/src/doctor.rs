//! Builds the reports of `doctor`, and of `tune` and the outbox, whose state `doctor` checks. The
//! report of the checks lists sources of noise on this machine with their remedies. The report of
//! `doctor --calibrate` compares a program with itself. It says whether the rate of false alarms is
//! as expected, and how noisy each case is.
//!
//! Start at [`report_checks`], [`report_calibration`] and [`report_tuned_calibration`].

use crate::case_labels::{CaseLabels, labelled_rows, parameters_json};
use crate::document::{Document, ReportBlock};
use crate::failures::report_failures;
use crate::figure::{
    format_change, format_count, format_duration, format_interval, format_moment, format_setting,
    format_share, join_texts,
};
use crate::output::{OutputOptions, Verbosity};
use crate::table::{ReportCell, ReportTable, RowName, TextEmphasis, column_set};
use indexmap::IndexMap;
use serde_json::json;
use speedwell_analysis::{
    AnalysisFindings, CalibratedCase, CalibrationFindings, CalibrationOutcome, SpreadChange,
};
use speedwell_model::stored::{OutboxEntry, UploadState};
use speedwell_model::{NoiseCalibration, quote};
use std::sync::Arc;

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    /// The subject of the check: `cpu frequency`.
    pub name: String,
    /// The result in one word: `ok`, `warning`, `problem` or `unknown`.
    pub state: String,
    /// The finding.
    pub found: String,
    /// The remedy; empty if there is nothing to do.
    pub remedy: String,
}

impl CheckLine {
    fn new(name: &str, state: &str, found: String, remedy: impl Into<String>) -> CheckLine {
        let (name, state) = (name.to_owned(), state.to_owned());
        CheckLine { name, state, found, remedy: remedy.into() }
    }
}

/// Builds the report of the checks. A remedy follows the check that needs it.
pub fn report_checks(checks: &[CheckLine]) -> Document {
    let columns = column_set! { check: CheckLine;
        words("state", "state") => ReportCell::state(&check.state),
        identifier("name", "check") => &check.name,
        label("found", "found") => &check.found,
        machine("remedy") => &check.remedy,
    };
    let remedy = |check: &CheckLine| arrow_remark(&check.remedy);
    Document::new("checks").with_table(columns.build_with_remarks("checks", checks, remedy))
}

/// Returns a row's remark, such as advice; `None` if the text is empty.
fn arrow_remark(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| format!("→ {text}"))
}

/// A spread below this fraction is negligible: changes of this size count as `same` by default.
const NEGLIGIBLE_SPREAD: f64 = 0.02;

/// Reports whether the layout of builds matters, one line per case.
pub fn report_layouts(findings: &AnalysisFindings) -> Document {
    let mut document = Document::new("layouts");
    document.push_warnings(&findings.warnings);
    for spread in &findings.layout {
        let interval = spread.components.interval;
        let answer = match () {
            () if interval.low > 0.0 => "layout matters, so compare builds (--builds 32)",
            () if interval.high < NEGLIGIBLE_SPREAD => "layout hardly matters",
            () => "unclear whether layout matters",
        };
        document.push_headline(format!("{}: {answer}. {}", spread.case, spread.to_sentence()));
    }
    let data = findings.layout.iter().map(|spread| {
        let components = &spread.components;
        json!({
            "case": spread.case,
            "metric": spread.metric,
            "builds": components.groups,
            "between": components.between,
            "between_low": components.interval.low,
            "between_high": components.interval.high,
            "within": components.within,
            "slowest_to_fastest": spread.range,
        })
    });
    document.attach_data("layout", data.collect());
    document.append_document(report_failures(&findings.failures, Verbosity::Normal));
    document
}

/// The command for a first calibration, and for another one after changes.
const CALIBRATE_COMMAND: &str = "speedwell doctor --calibrate FILE";

/// Builds the report of a calibration.
pub fn report_calibration(found: &CalibrationFindings, output: &OutputOptions) -> Document {
    let mut document = Document::new("calibration");
    document.push_warnings(&found.warnings);
    document.push_headline(calibration_headline(found));
    if !found.cases.is_empty() {
        document.push_table(case_table(found));
        output.add_detail(&mut document, |_, document| {
            document.push_notes(calibration_notes(found));
        });
    }
    document.attach_data("calibration", calibration_data(found));
    document.append_document(report_failures(&found.failures, output.verbosity));
    document
}

/// Returns the calibration check of `doctor`. `calibration` is `None` if the machine was never
/// calibrated.
pub fn calibration_check(calibration: Option<&NoiseCalibration>) -> CheckLine {
    let Some(calibration) = calibration else {
        let found = "never calibrated".to_owned();
        return CheckLine::new("calibration", "unknown", found, CALIBRATE_COMMAND);
    };
    let started = format_moment(calibration.started_unix_ms);
    let alarms = expected_alarms_text(calibration);
    let found = format!("{alarms} (@{}, {started})", calibration.session);
    if calibration.is_in_range() {
        return CheckLine::new("calibration", "ok", found, "");
    }
    let remedy = format!("fix the other findings, then: {CALIBRATE_COMMAND}");
    CheckLine::new("calibration", "warning", found, remedy)
}

/// Reports how tuning changed the noise of programs measured against themselves.
pub fn report_tuned_calibration(
    spreads: &[SpreadChange],
    knobs: &str,
    [before, after]: [&CalibrationFindings; 2],
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("tuned_calibration");
    document.push_warnings(&before.warnings);
    document.push_headline(tuned_headline(spreads));
    let columns = column_set! { spread: SpreadChange;
        label("case", "case") => spread.case.id(),
        figure("before", "spread before") => ReportCell::share(spread.before),
        figure("after", "after") => ReportCell::share(spread.after),
        figure("change", "change").for_people() =>
            spread.change.map(|change| ReportCell::text(format_change(&change))),
        figure("interval", "95% interval").for_people() =>
            spread.change.map(|change| ReportCell::text(format_interval(&change))),
        words("noise", "noise") => spread_word(spread),
        machine("change") => spread.change.map(|change| change.value),
        machine("change_low") => spread.change.map(|change| change.low),
        machine("change_high") => spread.change.map(|change| change.high),
    };
    let mut table = columns.build_table("spreads", spreads);
    table.caption.push(format!("set: {knobs}"));
    table.caption.extend(before.metric.iter().map(|metric| metric.name.clone()));
    document.push_table(table);
    output.add_detail(&mut document, |_, document| {
        document.push_note(
            "spread: the median difference between two runs of the same case in one block. The \
             interval is computed by resampling blocks. Before and after were measured in \
             sequence, so they also differ by other work that started or ended in between.",
        );
        let [old, new] = [before, after].map(|found| expected_alarms_text(&found.counts));
        document.push_note(format!("before: {old}; after: {new}"));
    });
    document.attach_data("before", calibration_data(before));
    document.attach_data("after", calibration_data(after));
    for found in [before, after] {
        document.append_document(report_failures(&found.failures, output.verbosity));
    }
    document
}

fn tuned_headline(spreads: &[SpreadChange]) -> String {
    let number = |word: &str| spreads.iter().filter(|spread| spread_word(spread) == word).count();
    let cases = format_count(spreads.len(), "case", "cases");
    match (number("less"), number("more")) {
        _ if spreads.is_empty() => "nothing was compared".into(),
        (0, 0) => format!(
            "after tuning, runs of the same thing differ as much as before, as far as {cases} can show."
        ),
        (fewer_cases, noisier_cases) => format!(
            "after tuning, runs of the same thing differ less in {fewer_cases} and more in \
             {noisier_cases} of {cases}."
        ),
    }
}

/// Says whether the noise decreased or increased, if the interval shows a change.
fn spread_word(spread: &SpreadChange) -> &'static str {
    match spread.change {
        Some(change) if change.high < 0.0 => "less",
        Some(change) if change.low > 0.0 => "more",
        _ => "unclear",
    }
}

/// Returns the tuning check of `doctor`. `knobs` is `None` if nothing is tuned.
pub fn tuned_check(knobs: Option<String>) -> CheckLine {
    let (state, found, remedy) = match knobs {
        Some(knobs) => ("ok", knobs, ""),
        None => ("unknown", "no knob is set".to_owned(), "speedwell tune --dry-run"),
    };
    CheckLine::new("tuned", state, found, remedy)
}

fn calibration_headline(found: &CalibrationFindings) -> String {
    let counts = expected_alarms_text(&found.counts);
    match found.outcome {
        CalibrationOutcome::Yes => format!("this machine is calibrated: {counts}."),
        CalibrationOutcome::TooManyAlarms => format!(
            "this machine is not calibrated: {counts}. Differences are found where there are none."
        ),
        CalibrationOutcome::TooFewAlarms => format!(
            "this machine is not calibrated: {counts}. The test is more conservative here than \
             stated, and misses changes."
        ),
        CalibrationOutcome::Unknown if found.counts.comparisons == 0 => {
            "nothing was compared".to_owned()
        }
        CalibrationOutcome::Unknown => {
            let alarms = alarms_text(&found.counts);
            let Some(needed) = found.needed else {
                return format!("{alarms}: the runs vary too little for a conclusion.");
            };
            format!("{alarms}: too few comparisons for a conclusion; at least {needed} are needed.")
        }
    }
}

fn alarms_text(counts: &NoiseCalibration) -> String {
    format!(
        "{} in {} of the same thing",
        format_count(counts.false_alarms as usize, "false alarm", "false alarms"),
        format_count(counts.comparisons as usize, "comparison", "comparisons"),
    )
}

fn expected_alarms_text(counts: &NoiseCalibration) -> String {
    let NoiseCalibration { expected_low: low, expected_high: high, .. } = counts;
    format!("{}, where {low} to {high} are expected", alarms_text(counts))
}

fn case_table(found: &CalibrationFindings) -> ReportTable {
    let cases: Vec<_> = found.cases.iter().map(|calibrated| Arc::clone(&calibrated.case)).collect();
    let labels = CaseLabels::new(&cases);
    let columns = column_set! { row: (&CalibratedCase, RowName);
        label("case", "case") => ReportCell::words(row.0.case.id()).with_name(&row.1),
        machine("benchmark") => &row.0.case.benchmark,
        machine("parameters") => parameters_json(&row.0.case),
        figure("comparisons", "comparisons") => row.0.comparisons,
        figure("false_alarms", "false alarms") => row.0.false_alarms,
        figure("variation", "CV") => ReportCell::share(row.0.variation),
        // A `*` marks runs that depend on earlier ones.
        figure("autocorrelation", "autocorrelation") => {
            let mark = if row.0.is_dependent { "*" } else { "" };
            ReportCell::shown_figure(row.0.autocorrelation, |r1| format!("{r1:+.2}{mark}"))
        },
        figure("detectable", "32 runs find") => ReportCell::share(row.0.detectable),
    };
    let rows =
        labelled_rows(labels.lines, |index, name| columns.build_row(&(&found.cases[index], name)));
    let metric = found.metric.iter().map(|metric| metric.name.clone());
    let runs = format!("{} + {} runs a comparison", found.runs, found.runs);
    let mut caption = vec![labels.shared, join_texts(", ", metric.chain([runs]))];
    caption.retain(|text| !text.is_empty());
    ReportTable { caption, ..columns.table_of_rows("calibrated_cases", rows) }
}

fn calibration_notes(found: &CalibrationFindings) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(rate) = &found.rate {
        notes.push(format!(
            "false alarms: differences found at the {} level, in {} of the comparisons, [{}, {}]. \
             With {} runs a side, the test alone would cause them in {}.",
            format_setting(found.alpha),
            format_share(rate.value),
            format_share(rate.low),
            format_share(rate.high),
            found.runs,
            format_share(found.level),
        ));
    }
    notes.push(
        "CV: standard deviation of all runs divided by their mean; 32 runs find: the smallest change \
         that 32 runs a side find with a probability of 80%."
            .into(),
    );
    if !found.rules.is_empty() {
        let shares =
            found.rules.iter().map(|(rule, part)| format!("{rule} {}", format_share(*part)));
        let rules = join_texts(", ", shares);
        notes.push(format!("Fraction of these runs that --reject would discard: {rules}."));
    }
    if found.cases.iter().any(|case| case.is_dependent) {
        notes.push(
            "autocorrelation with *: it exceeds 2 / sqrt(runs), so runs depend on earlier ones; \
             the randomised blocks protect the test."
                .into(),
        );
    }
    notes
}

fn calibration_data(found: &CalibrationFindings) -> serde_json::Value {
    let outcome = match found.outcome {
        CalibrationOutcome::Yes => "calibrated",
        CalibrationOutcome::TooManyAlarms => "too many false alarms",
        CalibrationOutcome::TooFewAlarms => "too few false alarms",
        CalibrationOutcome::Unknown => "unknown",
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

// Reports the outbox, which is the queue of sessions to upload, and the state of its entries.

/// Lists the entries of the outbox.
pub fn report_outbox(items: &[OutboxEntry]) -> Document {
    let mut document = Document::new("outbox");
    if items.is_empty() {
        document.push_paragraph("the outbox is empty");
    }
    let columns = column_set! { item: OutboxEntry;
        figure("number", "session") => ReportCell::session(item.session),
        machine("id") => &item.id,
        words("state", "state") => upload_state_cell(item.state),
        words("url", "to").for_people() => ReportCell::text(&item.url),
        figure("attempts", "attempts") => ReportCell::value(item.attempts),
        words("sent_unix_ms", "sent (UTC)") => item.sent_unix_ms.map(ReportCell::moment),
        words("reason", "reason").for_people() => ReportCell::text(reason_text(item)),
    };
    document.with_table(columns.build_table("outbox", items))
}

fn upload_state_cell(state: UploadState) -> ReportCell {
    ReportCell::words(state.name()).with_emphasis(match state {
        UploadState::Sent => TextEmphasis::None,
        UploadState::Waiting => TextEmphasis::Caution,
        UploadState::Refused => TextEmphasis::Bad,
    })
}

/// Says why the last attempt failed, or why a session is not sent.
fn reason_text(item: &OutboxEntry) -> String {
    match (&item.reason, &*item.ended) {
        (Some(reason), _) => reason.clone(),
        (None, "complete" | "imported") => String::new(),
        _ if item.state == UploadState::Sent => String::new(),
        (None, ended) => format!("{ended}: resume it first, or push it by its number"),
    }
}

/// Returns the outbox check of `doctor`, or `None` if everything was sent.
pub fn outbox_check(items: &[OutboxEntry]) -> Option<CheckLine> {
    let count = |state: UploadState| items.iter().filter(|item| item.state == state).count();
    let (waiting, refused) = (count(UploadState::Waiting), count(UploadState::Refused));
    let waits = (waiting > 0).then(|| format_count(waiting, "session waits", "sessions wait"));
    let is_refused =
        (refused > 0).then(|| format_count(refused, "session is refused", "sessions are refused"));
    let found = join_texts(", ", waits.into_iter().chain(is_refused));
    let remedy = if refused == 0 { "speedwell push" } else { "speedwell push --list shows why" };
    (!found.is_empty()).then(|| CheckLine::new("outbox", "warning", found, remedy))
}

// Builds the reports of `tune`: the effect of each knob, the current changes, and the restored
// settings. Start at [`report_knobs`], [`report_tuned`] and [`report_restored`].

/// A knob, which is a group of settings.
#[derive(Debug, Clone)]
pub struct KnobLine {
    /// The knob's name.
    pub name: &'static str,
    /// The knob's state.
    pub state: &'static str,
    /// The knob's benefit.
    pub effect: &'static str,
    /// A further remark; may be empty.
    pub note: String,
    /// The knob's settings.
    pub settings: Vec<SettingLine>,
}

/// A setting of the machine.
#[derive(Debug, Clone)]
pub struct SettingLine {
    /// The setting's file, or `service:` and a name for the state of a system service.
    pub path: String,
    /// The setting's state.
    pub state: String,
    /// The value before the change.
    pub before: String,
    /// The value after the change: the desired value in a plan, otherwise the current value.
    pub after: String,
}

/// A machine with changed settings.
#[derive(Debug, Clone)]
pub struct TunedMachine {
    /// Description of the process that changed the settings.
    pub holder: String,
    /// Maximum time until the settings are restored, in milliseconds.
    pub left_ms: Option<u64>,
    /// The names of the knobs that are in their desired state.
    pub knobs: Vec<String>,
    /// The changed settings.
    pub settings: Vec<SettingLine>,
}

/// Reports all knobs. A plan also explains the benefit of each knob.
pub fn report_knobs(knobs: &[KnobLine], is_plan: bool, output: &OutputOptions) -> Document {
    let table = |has_remarks: bool| {
        let columns = column_set! { knob: KnobLine;
            words("state", "state") => ReportCell::state(knob.state),
            identifier("knob", "knob") => knob.name,
            label("before", "before") =>
                summarize_values(knob.settings.iter().map(|setting| &setting.before)),
            label("after", "after") =>
                summarize_values(knob.settings.iter().map(|setting| &setting.after)),
            machine("effect") => knob.effect,
            machine("note") => &knob.note,
        };
        let remark =
            |knob: &KnobLine| arrow_remark(&knob_remark(knob, is_plan)).filter(|_| has_remarks);
        ReportBlock::Table(columns.build_with_remarks("knobs", knobs, remark))
    };
    let mut document = Document::new("knobs");
    let full = |_: &OutputOptions, document: &mut Document| document.push(table(true));
    output.add_shortened(&mut document, || vec![table(false)], full);
    let settings = knobs.iter().flat_map(|knob| {
        knob.settings.iter().map(move |setting| {
            json!({
                "knob": knob.name, "path": setting.path, "state": setting.state,
                "before": setting.before, "after": setting.after,
            })
        })
    });
    document.attach_data("settings", settings.collect());
    document
}

fn knob_remark(knob: &KnobLine, is_plan: bool) -> String {
    if !is_plan {
        return knob.note.clone();
    }
    let files = match &knob.settings[..] {
        [] => String::new(),
        [setting] => setting.path.clone(),
        [first, others @ ..] => format!("{} and {} more", first.path, others.len()),
    };
    join_texts("; ", [&*files, knob.effect, &*knob.note])
}

/// Summarizes the values of several files, as in `powersave` or `1 × performance, 3 × powersave`.
fn summarize_values<'a>(values: impl Iterator<Item = &'a String>) -> String {
    let mut counts: IndexMap<&String, usize> = IndexMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    if let (1, Some((value, _))) = (counts.len(), counts.first()) {
        return (*value).clone();
    }
    join_texts(", ", counts.iter().map(|(value, times)| format!("{times} × {value}")))
}

/// Reports the current state of a machine.
pub fn report_tuned(machine: Option<&TunedMachine>) -> Document {
    let mut document = Document::new("tuned");
    let Some(machine) = machine else {
        document.push_headline("this machine is not tuned");
        return document;
    };
    let settings = format_count(machine.settings.len(), "setting is", "settings are");
    let TunedMachine { holder, left_ms, knobs, .. } = machine;
    let left = left_ms.map(|left| format!(", for at most {}", format_duration(left)));
    document.push_headline(format!("{settings} changed by {holder}{}", left.unwrap_or_default()));
    document.push(ReportBlock::Facts(vec![("knobs".to_owned(), knobs.join(", "))]));
    let columns = column_set! { setting: SettingLine;
        identifier("path", "setting") => &setting.path,
        label("before", "before") => &setting.before,
        label("now", "now") => &setting.after,
        words("state", "state") => &setting.state,
    };
    document.push_table(columns.build_table("tuned_settings", &machine.settings));
    document.attach_data("tuned", json!({"holder": holder, "left_ms": left_ms, "knobs": knobs}));
    document
}

/// Reports the number of restored settings, `done`. Each setting in `others` was not restored.
pub fn report_restored(done: usize, others: &[SettingLine]) -> Document {
    let mut document = Document::new("restored");
    document.push_headline(format!("restored: {}", format_count(done, "setting", "settings")));
    document.push_warnings(&others.iter().map(not_restored_sentence).collect::<Vec<_>>());
    let setting_data = |SettingLine { path, before, after, state }: &SettingLine| json!({"path": path, "before": before, "now": after, "state": state});
    let not_restored: Vec<_> = others.iter().map(setting_data).collect();
    document.attach_data("restored", json!({"done": done, "not_restored": not_restored}));
    document
}

/// Explains in a sentence why a setting was not restored.
pub fn not_restored_sentence(setting: &SettingLine) -> String {
    let SettingLine { path, before, after, state } = setting;
    match state.as_str() {
        "left alone" => format!("'{path}' is left alone: it has since been changed to '{after}'."),
        "gone" => format!("'{path}' no longer exists; its value was '{before}'."),
        reason => format!(
            "'{path}' could not be restored: {reason}. Restore it with: {}",
            restore_command(path, before)
        ),
    }
}

/// Returns the shell command that restores a setting.
fn restore_command(path: &str, before: &str) -> String {
    match path.strip_prefix("service:") {
        Some(service) => format!("sudo systemctl start {service}"),
        None => format!("echo {} | sudo tee {path}", quote(before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::print_document;

    #[test]
    fn a_remedy_is_printed_below_its_check() {
        let check = |state: &str, name: &str, remedy: &str| CheckLine {
            name: name.into(),
            state: state.into(),
            found: "found".into(),
            remedy: remedy.into(),
        };
        let document = report_checks(&[
            check("ok", "timer", ""),
            check("warning", "cpu frequency", "cpupower frequency-set -g performance"),
        ]);
        let mut out = Vec::new();
        print_document(&document, &OutputOptions::default(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "state      check          found\n\
             ───────────────────────────────\n\
             ✓ ok       timer          found\n\
             ! warning  cpu frequency  found\n  \
               → cpupower frequency-set -g performance\n"
        );
    }

    #[test]
    fn values_of_many_files_are_counted() {
        let shown = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            summarize_values(values.iter())
        };
        assert_eq!(shown(&["a", "a"]), "a");
        assert_eq!(shown(&["a", "b", "a"]), "2 × a, 1 × b");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn settings_that_cannot_be_restored_are_shown_with_a_restore_command() {
        let line = |path: &str| {
            not_restored_sentence(&SettingLine {
                path: path.into(),
                state: "the device cannot do it".into(),
                before: "a b".into(),
                after: String::new(),
            })
        };
        assert!(line("/proc/x").ends_with("echo 'a b' | sudo tee /proc/x"));
        assert!(line("service:irqbalance").ends_with("sudo systemctl start irqbalance"));
    }
}
