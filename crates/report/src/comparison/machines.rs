//! Reports on cases that were measured on several machines: which machine measured a case, how much
//! the machines differ, and what to expect of other such machines. `analysis/machines.rs` computes
//! the findings.

use crate::charts::{change_row, forest_chart, forest_row};
use crate::document::ReportChart;
use crate::figure::{
    format_change, format_change_interval, format_count, format_probability, format_setting,
};
use serde_json::{Value, json};
use speedwell_analysis::{
    AcrossMachines, CandidateComparison, CaseComparison, MachineEffect, MachinePopulation,
};
use speedwell_model::{IntervalEstimate, MetricDirection};
use speedwell_plot as plot;

/// Says why a verdict was withdrawn. Names the two machines that differ most.
pub fn withdrawal_remark(row: &CaseComparison) -> Option<String> {
    let by_machine = row.machines.as_ref().filter(|effects| effects.depends)?;
    let p = by_machine.p_equal.map(format_probability)?;
    let range = range_text(by_machine)?;
    Some(format!(
        "The change depends on the machine: {range}. If it were the same on all machines, they would differ this much with a probability of {p}."
    ))
}

/// Formats the range of the changes, as in `-4.1% on lab-3 … +1.2% on lab-7`.
pub fn range_text(by_machine: &AcrossMachines) -> Option<String> {
    let [low, high] = by_machine.extreme_machines()?.map(|machine| {
        let value = machine.change.as_ref().map(format_change).unwrap_or_default();
        format!("{value} on {}", machine.name)
    });
    Some(format!("{low} … {high}"))
}

/// Returns all per-machine figures, for programs.
pub fn machines_data(by_machine: &AcrossMachines) -> Value {
    let machine = |machine: &MachineEffect| {
        json!({
            "name": machine.name,
            "class": machine.class,
            "blocks": machine.blocks,
            "change": machine.change.map(|change| change.value),
            "low": machine.change.map(|change| change.low),
            "high": machine.change.map(|change| change.high),
        })
    };
    let population = |population: &MachinePopulation| {
        json!({
            "class": population.class,
            "machines": population.machines,
            "change": population.change.value,
            "low": population.change.low,
            "high": population.change.high,
            "machines_to_halve_interval": population.to_halve,
        })
    };
    json!({
        "verdict": by_machine.on_these.to_string(),
        "depends_on_machine": by_machine.depends,
        "machines": by_machine.machines.iter().map(machine).collect::<Vec<Value>>(),
        "populations": by_machine.populations.iter().map(population).collect::<Vec<Value>>(),
    })
}

/// Returns notes on what to expect of other machines. For a single case, they state the expected
/// change. For several cases, they say where to find it.
pub fn population_notes(comparison: &CandidateComparison) -> Vec<String> {
    let rows = || comparison.rows.iter().filter_map(|row| row.machines.as_ref());
    let several: Vec<&AcrossMachines> =
        rows().filter(|by_machine| by_machine.machines.len() > 1).collect();
    if several.is_empty() {
        return Vec::new();
    }
    if several.iter().all(|by_machine| by_machine.populations.is_empty()) {
        let machines = several.iter().map(|by_machine| by_machine.machines.len()).max();
        return vec![format!(
            "The verdicts hold on these {} only; to predict changes on other machines, measure on \
             at least 3 machines of a class.",
            format_count(machines.unwrap_or_default(), "machine", "machines")
        )];
    }
    if let [only] = several[..] {
        let populations = only.populations.iter();
        return populations.map(|population| expectation_note(population, comparison)).collect();
    }
    let note = "For each case, the HTML page and the exported data give the change to expect on other \
                machines of a class.";
    vec![note.to_owned()]
}

/// Says what to expect of other machines, as in `On other machines like these 4 (EPYC, ...): change
/// +3.1% [+1.2, +5.0] (95% interval over machines); 9 more would halve the interval.`
fn expectation_note(population: &MachinePopulation, comparison: &CandidateComparison) -> String {
    format!(
        "On other machines like these {} ({}): change {} ({} interval over machines); {} more would halve the interval.",
        population.machines,
        population.class,
        format_change_interval(&population.change),
        format_setting(comparison.confidence),
        population.to_halve,
    )
}

/// Draws the change of a case on each machine, on all these machines, and as expected on other such
/// machines. Returns `None` if the case was measured on one machine.
pub fn machines_forest(
    comparison: &CandidateComparison,
    row: &CaseComparison,
) -> Option<ReportChart> {
    let by_machine = row.machines.as_ref().filter(|by_machine| by_machine.machines.len() > 1)?;
    let line = |label: String, change: IntervalEstimate| {
        change_row(label, change, interval_mark(&change, comparison.metric.better))
    };
    let mut rows: Vec<plot::ForestRow> = (by_machine.machines.iter())
        .filter_map(|machine| Some(line(machine.name.clone(), machine.change?)))
        .collect();
    rows.extend(forest_row(row, "on these machines".to_owned()));
    rows.extend(by_machine.populations.iter().map(|population| {
        line(format!("on others like them ({})", population.class), population.change)
    }));
    let title = format!("{}: {} by machine", comparison.metric.name, comparison.candidate);
    Some(forest_chart(comparison, title, Some(row.case.id()), rows))
}

/// Returns the mark for a change that has an interval but no verdict.
fn interval_mark(change: &IntervalEstimate, better: MetricDirection) -> plot::VerdictMark {
    match (change.low > 0.0, change.high < 0.0, better) {
        (true, _, MetricDirection::Higher) | (_, true, MetricDirection::Lower) => {
            plot::VerdictMark::Better
        }
        (true, _, MetricDirection::Lower) | (_, true, MetricDirection::Higher) => {
            plot::VerdictMark::Worse
        }
        _ => plot::VerdictMark::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{OutputOptions, Verbosity};
    use crate::{RenderDocument, TextFormat};
    use speedwell_analysis::{AnalysisFindings, AnalysisSettings};
    use speedwell_fixtures::FakeSession;

    const FOUR: [(&str, &str); 4] =
        [("m1", "zen4"), ("m2", "zen4"), ("m3", "zen4"), ("m4", "zen4")];

    /// Returns findings from four machines with four blocks each; `factors` scale the new variant.
    fn simulated_findings(factors: [f64; 4]) -> AnalysisFindings {
        let value = move |variant: &str, number: u32| {
            let factor = if variant == "new" { factors[(number / 8) as usize] } else { 1.0 };
            1000.0 * factor * (1.0 + f64::from(number * 7919 % 13) / 1000.0)
        };
        let story = FakeSession::with_fixed_blocks(&["old", "new"], 16)
            .add_case("g/b", value)
            .add_case("g/c", value);
        speedwell_analysis::analyze_session(
            &story.distribute_over_machines(&FOUR).build(),
            &AnalysisSettings::default(),
        )
    }

    fn text(findings: &AnalysisFindings, verbosity: Verbosity) -> String {
        let output = OutputOptions { verbosity, ..OutputOptions::default() };
        let document = crate::comparison::report_comparison(findings, &output);
        let mut text = Vec::new();
        TextFormat::default().render(&document, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_row_shows_how_machines_differ_and_why_its_verdict_was_withdrawn() {
        let findings = simulated_findings([0.9, 0.9, 0.9, 1.05]);
        let shown = text(&findings, Verbosity::Normal);
        assert!(shown.contains("over machines"), "{shown}");
        assert!(
            shown.contains("The change depends on the machine: -10") && shown.contains("on m4"),
            "{shown}"
        );
        let all = text(&findings, Verbosity::Verbose);
        for machine in ["m1", "m2", "m3", "m4"] {
            assert!(all.contains(machine), "{all}");
        }
        let row = &findings.comparisons[0].rows[0];
        let Some(plot::AnyChart::Forest(forest)) =
            machines_forest(&findings.comparisons[0], row).map(|chart| chart.picture)
        else {
            panic!("no chart");
        };
        let labels: Vec<&str> = forest.rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(
            labels,
            ["m1", "m2", "m3", "m4", "on these machines", "on others like them (zen4)"]
        );
        assert_eq!(forest.rows[0].mark, plot::VerdictMark::Worse);
        assert_eq!(forest.rows[3].mark, plot::VerdictMark::Better);
    }

    #[test]
    fn two_machines_allow_no_prediction_for_other_machines() {
        let factor = |variant: &str| if variant == "new" { 1.1 } else { 1.0 };
        let story =
            FakeSession::with_fixed_blocks(&["old", "new"], 8).add_noisy_case("g/b", 0.01, factor);
        let two = story.clone().distribute_over_machines(&FOUR[..2]).build();
        let findings = speedwell_analysis::analyze_session(&two, &AnalysisSettings::default());
        let shown = text(&findings, Verbosity::Normal);
        assert!(
            shown.contains(
                "hold on these 2 machines only; to predict changes on other machines, measure on"
            ),
            "{shown}"
        );
        // With one machine, the row names it.
        let one = story.distribute_over_machines(&FOUR[2..3]).build();
        let findings = speedwell_analysis::analyze_session(&one, &AnalysisSettings::default());
        let shown = text(&findings, Verbosity::Normal);
        assert!(shown.contains("m3") && !shown.contains("over machines"), "{shown}");
        let effect = machines_forest(&findings.comparisons[0], &findings.comparisons[0].rows[0]);
        assert!(effect.is_none());
    }
}
