//! Reports whether loads met the conditions of a gate, which decide the exit status. Start at
//! [`add_gate`].

use crate::document::{Document, ReportBlock};
use crate::figure::{
    Uncertainty, format_bounded_ns, format_count, format_ns_range, format_number, format_quantity,
    format_rate, format_setting, format_share, join_texts,
};
use crate::load::tables::refusal_reason;
use crate::table::{ReportCell, ReportTable, TableFootnotes, TextEmphasis, column_set};
use speedwell_analysis::load::TimedQuantity;
use speedwell_analysis::load::gate::{
    ConditionAnswer, JudgedCondition, LimitOperator, LoadCondition, LoadFigure, UnknownReason,
    UntimedFailures,
};
use speedwell_model::Session;

/// Adds the result of a gate to a report: a line per condition that failed or cannot be judged, or
/// one line for all that passed, above everything else. A table with a row per condition follows the
/// headline. For a single condition, it says no more than the line, so people see it only in full
/// reports.
pub fn add_gate(judged: &[JudgedCondition<'_>], document: &mut Document) {
    if judged.is_empty() {
        return;
    }
    document.gate_lines.extend(gate_lines(judged));
    let table = ReportBlock::Table(conditions_table(judged));
    match (judged, document.blocks.iter().position(ReportBlock::is_headline)) {
        ([_], _) => document.push(ReportBlock::appendix("Conditions for failure", vec![table])),
        (_, Some(headline)) => document.blocks.insert(headline + 1, table),
        (_, None) => document.push(table),
    }
}

/// Maximum number of conditions that get a line each.
const MAX_GATE_LINES: usize = 5;

/// Returns the result of a gate in lines for people: first what failed, then what cannot be judged,
/// or one line for all that passed. Empty without conditions.
pub fn gate_lines(judged: &[JudgedCondition<'_>]) -> Vec<String> {
    if judged.is_empty() {
        return Vec::new();
    }
    let is_single = judged.iter().all(|row| row.load == judged[0].load);
    let load_name = |row: &JudgedCondition<'_>| {
        if is_single { String::new() } else { format!(" of {}", row.load) }
    };
    let stated = |row: &JudgedCondition<'_>| stated_figure(row, &load_name(row));
    let mut lines: Vec<String> =
        judged.iter().filter_map(|row| problem_line(row, &load_name(row))).collect();
    // What failed is more important than what cannot be judged.
    lines.sort_by_key(|line| !line.starts_with("gate failed"));
    if lines.is_empty() {
        let passed = |row: &JudgedCondition<'_>| {
            let side = match row.condition.operator {
                LimitOperator::Below => "below",
                LimitOperator::AtMost => "up to",
                LimitOperator::Above => "above",
                LimitOperator::AtLeast => "from",
            };
            format!("{}, fails {side} {}", stated(row), limit_text(row.condition))
        };
        let conditions = match judged.len() {
            ..=MAX_GATE_LINES => join_texts("; ", judged.iter().map(passed)),
            count => format_count(count, "condition", "conditions"),
        };
        lines.push(format!("gate passed: {conditions}"));
    }
    let more = lines.len().saturating_sub(MAX_GATE_LINES);
    if more > 0 {
        lines.truncate(MAX_GATE_LINES);
        lines.push(format!("and {}", format_count(more, "more condition", "more conditions")));
    }
    lines
}

/// States that a condition failed or cannot be judged; `None` if it passed. `load` names the load
/// if there are several.
fn problem_line(row: &JudgedCondition<'_>, load: &str) -> Option<String> {
    let (figure, operator) = split_condition(row);
    if row.answer == ConditionAnswer::Failed
        && let Some(failures) = row.failures.filter(|failures| failures.are_decisive)
    {
        let share = format_share(failures.share);
        let what = failed_things(&failures);
        return Some(format!(
            "gate failed: {share} of the {what}{load} failed, so {figure} is above every limit"
        ));
    }
    let failed = (row.answer == ConditionAnswer::Failed).then_some(("failed", String::new()));
    let unknown = unknown_reason(row).map(|reason| ("cannot judge", format!(": {reason}")));
    let (outcome, reason) = failed.or(unknown)?;
    let limit = limit_text(row.condition);
    Some(format!("gate {outcome}: {} {operator} {limit}{reason}", stated_figure(row, load)))
}

/// Formats the figure with its value and the failures that it includes.
fn stated_figure(row: &JudgedCondition<'_>, load: &str) -> String {
    let (figure, _) = split_condition(row);
    let found = row.value.map(|value| format!(" {}", found_value(row, value)));
    let failures = row.failures.map(|failures| {
        let share = format_share(failures.share);
        format!(" ({share} of the {} failed and count as slower)", failed_things(&failures))
    });
    format!("{figure}{load}{}{}", found.unwrap_or_default(), failures.unwrap_or_default())
}

fn failed_things(failures: &UntimedFailures) -> &'static str {
    if failures.is_of_connections { "connection attempts" } else { "requests" }
}

/// Returns the figure and the operator of a condition, as the user wrote them.
fn split_condition<'a>(row: &JudgedCondition<'a>) -> (&'a str, &'a str) {
    let text = row.condition.text.as_str();
    let is_operator = |character: char| "<>=".contains(character);
    let start = text.find(is_operator).unwrap_or(text.len());
    let (figure, rest) = text.split_at(start);
    let end = rest.find(|character: char| !is_operator(character)).unwrap_or(rest.len());
    (figure.trim(), &rest[..end])
}

fn limit_text(condition: &LoadCondition) -> String {
    match condition.figure {
        LoadFigure::Time(..) => format_quantity(condition.limit, "ns", Uncertainty::Exact),
        LoadFigure::Throughput => format_quantity(condition.limit, "1/s", Uncertainty::Exact),
        LoadFigure::ErrorShare | LoadFigure::OkShare => format_setting(condition.limit),
        LoadFigure::ErrorCount | LoadFigure::OkCount => format_number(condition.limit, 0),
    }
}

fn conditions_table(judged: &[JudgedCondition<'_>]) -> ReportTable {
    let mut footnotes = TableFootnotes::default();
    let line = |row| {
        let mark = unknown_reason(row).map(|reason| footnotes.footnote_mark(reason));
        (row, mark.unwrap_or_default())
    };
    let rows: Vec<ConditionLine<'_>> = judged.iter().map(line).collect();
    let columns = column_set! { row: ConditionLine<'_>;
        identifier("fails_if", "fails if") => &row.0.condition.text,
        label("load", "load") => row.0.load,
        machine("quantity") => row.0.quantity.map(|quantity| quantity.name()),
        figure("value", "found") => found_cell(row.0),
        machine("low") => row.0.low,
        machine("limit") => row.0.condition.limit,
        machine("is_lower_bound") => row.0.is_lower_bound,
        machine("failed_share") => row.0.failures.map(|failures| failures.share),
        words("answer", "answer").facet() => answer_cell(row),
    };
    ReportTable { footnotes: footnotes.into_texts(), ..columns.build_table("conditions", &rows) }
}

/// A condition with the mark of its footnote.
type ConditionLine<'a> = (&'a JudgedCondition<'a>, String);

fn answer_cell((row, mark): &ConditionLine<'_>) -> ReportCell {
    let (name, words, emphasis) = match row.answer {
        ConditionAnswer::Passed => ("passed", "✓ passed", TextEmphasis::Good),
        ConditionAnswer::Failed => ("failed", "✗ failed", TextEmphasis::Bad),
        ConditionAnswer::Unknown(_) => ("unknown", "✗ cannot be judged", TextEmphasis::Caution),
    };
    ReportCell::words(name).with_text(format!("{words}{mark}")).with_emphasis(emphasis)
}

/// Builds the cell of the figure, or of the failures that keep it from being finite.
fn found_cell(row: &JudgedCondition<'_>) -> ReportCell {
    if let Some(failures) = row.failures.filter(|failures| failures.are_decisive) {
        return ReportCell::text(format!("{} failed", format_share(failures.share)));
    }
    let quantity = match row.quantity {
        Some(quantity @ (TimedQuantity::Response | TimedQuantity::Service)) => quantity.name(),
        _ => "",
    };
    ReportCell::shown_figure(row.value, |value| {
        format!("{quantity} {}", found_value(row, value)).trim_start().to_owned()
    })
}

/// Formats the figure, which may be a range or a lower bound.
fn found_value(row: &JudgedCondition<'_>, value: f64) -> String {
    match (row.condition.figure, row.low) {
        (LoadFigure::Time(..), Some(low)) => format_ns_range(low, value),
        (LoadFigure::Time(..), None) => format_bounded_ns(value, row.is_lower_bound),
        (LoadFigure::Throughput, _) => format_rate(value),
        (LoadFigure::ErrorShare | LoadFigure::OkShare, _) => format_share(value),
        (LoadFigure::ErrorCount | LoadFigure::OkCount, _) => format_number(value, 0),
    }
}

/// Says why a condition could not be evaluated.
fn unknown_reason(row: &JudgedCondition<'_>) -> Option<&'static str> {
    let ConditionAnswer::Unknown(why) = row.answer else { return None };
    Some(match why {
        UnknownReason::Refused(refusal) => refusal_reason(refusal),
        UnknownReason::ClosedLoad => "this time is measured only for loads with --rate",
        UnknownReason::NoRequests => "no request counts towards this figure",
        UnknownReason::TooFewRequests => "too few requests: none lies beyond this percentile",
        UnknownReason::MachineLost => {
            "a machine that sent a part of the load was lost, so the load was smaller than requested"
        }
        UnknownReason::Range => {
            "the limit lies within the range of possible values, which is due to the lateness of the \
             generator itself"
        }
        UnknownReason::LowerBound => "unfinished requests may have taken longer",
    })
}

/// Returns the session's limits from `--fail-on`. A search for the highest rate depends on them.
pub fn session_conditions(session: &Session) -> Vec<LoadCondition> {
    let parsed = |text: &String| text.parse().ok();
    if !session.design.conditions.is_empty() {
        return session.design.conditions.iter().filter_map(parsed).collect();
    }
    // Older sessions have the limits only in the command line.
    let mut arguments = session.command.iter();
    let mut conditions = Vec::new();
    while let Some(argument) = arguments.next() {
        let text = match argument.strip_prefix("--fail-on") {
            Some("") => arguments.next().map(String::as_str),
            Some(value) => value.strip_prefix('='),
            None => None,
        };
        conditions.extend(text.and_then(|text| text.parse().ok()));
    }
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_come_from_the_design_or_from_the_options_of_older_sessions() {
        let words = ["speedwell", "load", "--fail-on", "p99>20ms", "--fail-on=errors>1%"];
        let rows = "\"filename\",\"configuration\",\"rate\",\"time\"\n\"a/b.js\",\"n=1\",10,1\n";
        let mut session = speedwell_formats::read("x", rows.as_bytes()).unwrap().remove(0);
        session.command = words.map(str::to_owned).to_vec();
        let texts = |session: &Session| -> Vec<String> {
            session_conditions(session).into_iter().map(|limit| limit.text).collect()
        };
        assert_eq!(texts(&session), ["p99>20ms", "errors>1%"]);
        session.design.conditions = vec!["p50>1ms".to_owned()];
        assert_eq!(texts(&session), ["p50>1ms"]);
    }
}
