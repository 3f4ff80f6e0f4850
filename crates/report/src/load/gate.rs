//! Reports whether loads met the conditions of a gate, which decide the exit status. Start at
//! [`add_gate`].

use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::figure::{
    format_count, format_ns, format_ns_range, format_number, format_rate, format_share,
};
use crate::load::tables::refusal_reason;
use crate::table::{ReportCell, ReportTable, TableFootnotes, TextEmphasis};
use speedwell_analysis::load::TimedQuantity;
use speedwell_analysis::load::gate::{
    ConditionAnswer, JudgedCondition, LoadCondition, LoadFigure, UnknownReason,
};
use speedwell_model::Session;

/// Adds the result of a gate to a report. A sentence precedes the headline, and a table with a row
/// per condition follows it.
pub fn add_gate(judged: &[JudgedCondition<'_>], document: &mut Document) {
    if judged.is_empty() {
        return;
    }
    let answer = gate_answer(judged);
    let table = ReportBlock::Table(conditions_table(judged));
    let is_headline = |block: &ReportBlock| matches!(block, ReportBlock::Headline(_));
    let index = document.blocks.iter().position(is_headline);
    match index.map(|index| (index, &mut document.blocks[index])) {
        Some((index, ReportBlock::Headline(text))) => {
            *text = format!("{answer} {text}");
            document.blocks.insert(index + 1, table);
        }
        _ => document.extend([ReportBlock::Headline(answer), table]),
    }
}

fn gate_answer(judged: &[JudgedCondition<'_>]) -> String {
    let conditions = format_count(judged.len(), "condition", "conditions");
    let count = |has_answer: fn(&ConditionAnswer) -> bool| {
        judged.iter().filter(|row| has_answer(&row.answer)).count()
    };
    let failed = count(|answer| *answer == ConditionAnswer::Failed);
    let unknown = count(|answer| matches!(answer, ConditionAnswer::Unknown(_)));
    match (failed, unknown) {
        (0, 0) if judged.len() == 1 => {
            "gate passed: its condition for failure is not met.".to_owned()
        }
        (0, 0) => format!("gate passed: none of its {conditions} for failure is met."),
        (0, unknown) => format!("gate cannot judge {unknown} of {conditions}."),
        (failed, 0) => format!("gate failed: the loads met {failed} of {conditions} for failure."),
        (failed, unknown) => {
            format!(
                "gate failed: the loads met {failed} of {conditions} for failure; {unknown} cannot \
                 be judged."
            )
        }
    }
}

fn conditions_table(judged: &[JudgedCondition<'_>]) -> ReportTable {
    let mut footnotes = TableFootnotes::default();
    let rows: Vec<ConditionLine<'_>> = judged
        .iter()
        .map(|judged| ConditionLine {
            judged,
            mark: unknown_reason(judged)
                .map_or(String::new(), |reason| footnotes.footnote_mark(reason)),
        })
        .collect();
    ReportTable {
        footnotes: footnotes.into_texts(),
        ..condition_columns().build_table("conditions", &rows)
    }
}

/// A condition with the mark of its footnote.
struct ConditionLine<'a> {
    judged: &'a JudgedCondition<'a>,
    mark: String,
}

fn condition_columns<'a>() -> ColumnSet<ConditionLine<'a>> {
    column_set! { row: ConditionLine<'a>;
        identifier("fails_if", "fails if") => &row.judged.condition.text,
        label("load", "load") => row.judged.load,
        machine("quantity") => row.judged.quantity.map(|quantity| quantity.name()),
        figure("value", "found") =>
            ReportCell::shown_figure(row.judged.value, |value| found_text(row.judged, value)),
        machine("low") => row.judged.low,
        machine("limit") => row.judged.condition.limit,
        machine("is_lower_bound") => row.judged.is_lower_bound,
        words("answer", "answer").facet() => answer_cell(row),
    }
}

fn answer_cell(row: &ConditionLine<'_>) -> ReportCell {
    let (name, words, emphasis) = match row.judged.answer {
        ConditionAnswer::Passed => ("passed", "✓ passed", TextEmphasis::Good),
        ConditionAnswer::Failed => ("failed", "✗ failed", TextEmphasis::Bad),
        ConditionAnswer::Unknown(_) => ("unknown", "✗ cannot be judged", TextEmphasis::Caution),
    };
    ReportCell::words(name).with_text(format!("{words}{}", row.mark)).with_emphasis(emphasis)
}

fn found_text(row: &JudgedCondition<'_>, value: f64) -> String {
    match row.condition.figure {
        LoadFigure::Time(..) => {
            let time = match row.low {
                Some(low) => format_ns_range(low, value),
                None => format_ns(value, row.is_lower_bound),
            };
            match row.quantity {
                Some(quantity @ (TimedQuantity::Response | TimedQuantity::Service)) => {
                    format!("{} {time}", quantity.name())
                }
                _ => time,
            }
        }
        LoadFigure::Throughput => format_rate(value),
        LoadFigure::ErrorShare | LoadFigure::OkShare => format_share(value),
        LoadFigure::ErrorCount | LoadFigure::OkCount => format_number(value, 0),
    }
}

/// Says why a condition could not be evaluated.
fn unknown_reason(row: &JudgedCondition<'_>) -> Option<&'static str> {
    let ConditionAnswer::Unknown(why) = row.answer else {
        return None;
    };
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
