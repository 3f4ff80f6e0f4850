//! Writes the warnings about the plan of a session. They explain how the order of runs, the test,
//! the user's settings and the machine affect all verdicts. Changes no figure and no verdict.

use crate::AnalysisSettings;
use crate::policy::{JudgingPolicy, to_percent};
use speedwell_model::{
    Environment, Metric, MetricDirection, NoiseCalibration, RunOrder, SessionDesign, StoppingDesign,
};

/// Warns that the execution order weakens comparisons within a session.
pub(super) fn warn_order(order: RunOrder) -> Option<String> {
    let text = match order {
        RunOrder::Blocks | RunOrder::Paired => return None,
        RunOrder::Alternate => {
            "Runs alternated in a fixed order: noise with a period of two runs looks like a \
             change, so verdicts are indicative."
        }
        RunOrder::Parallel => {
            "The variants ran at the same time and may have disturbed each other, so verdicts are \
             indicative."
        }
        RunOrder::Imported => {
            "The order of the runs was not randomised by Speedwell, so verdicts are indicative."
        }
    };
    Some(text.into())
}

/// Warns that the preferred direction of a metric is unknown.
pub(super) fn warn_direction(metric: &Metric) -> Option<String> {
    let name = &metric.name;
    (metric.better == MetricDirection::Unknown).then(|| {
        format!(
            "It is unknown whether more or less of '{name}' is better, so its changes have no \
             verdict; set the direction with --better '{name}=lower' or '{name}=higher'."
        )
    })
}

/// Explains the consequences of comparing different cases of one session.
pub(super) fn warn_turns((old, new): (&str, &str), order: RunOrder) -> Option<String> {
    match order {
        RunOrder::Blocks | RunOrder::Paired => Some(format!(
            "'{old}' and '{new}' are different cases of one session: they alternated, always in \
             the same order, so verdicts are indicative."
        )),
        other => warn_order(other),
    }
}

/// Warns if the requested test was replaced by another.
pub(super) fn warn_method(settings: &AnalysisSettings, policy: &JudgingPolicy) -> Option<String> {
    let was_replaced = settings.method.is_some_and(|method| method != policy.method);
    was_replaced
        .then(|| "The rank test needs randomised blocks; using the default test instead.".into())
}

/// Warns if the user's settings differ from the settings that were fixed before measuring.
pub(super) fn warn_plan(design: &SessionDesign, settings: &AnalysisSettings) -> Option<String> {
    let StoppingDesign::Sequential { alpha, delta, .. } = &design.stopping else { return None };
    let differs = |requested: f64, planned: f64| (requested - planned).abs() > 1e-9;
    let confidence = settings.confidence.is_some_and(|requested| differs(1.0 - requested, *alpha));
    let threshold = settings.threshold.is_some_and(|requested| differs(requested, *delta));
    (confidence || threshold).then(|| {
        format!(
            "The plan was made for a confidence of {}% and a delta of {}%; with other choices \
             the verdicts are exploratory.",
            to_percent(1.0 - alpha),
            to_percent(*delta)
        )
    })
}

/// Warns that the calibration of a machine counted too many or too few false alarms. `None` if
/// their number is in the expected range.
pub fn warn_uncalibrated(machine: &Environment, calibration: &NoiseCalibration) -> Option<String> {
    let effect = if calibration.false_alarms > calibration.expected_high {
        "differences are found where there are none"
    } else {
        "the test is more conservative than stated"
    };
    let host = machine.host.as_deref().unwrap_or("unknown");
    (!calibration.is_in_range()).then(|| {
        format!(
            "The machine '{host}' is not calibrated: @{} found {} in {} comparisons of the same thing, \
             where {} to {} are expected; {effect}.",
            calibration.session,
            format_count(calibration.false_alarms as usize, "false alarm", "false alarms"),
            calibration.comparisons,
            calibration.expected_low,
            calibration.expected_high,
        )
    })
}

/// Adds the warnings that are not in the list yet.
pub(super) fn add_distinct(
    warnings: &mut Vec<String>,
    additional: impl IntoIterator<Item = String>,
) {
    for warning in additional {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// Names in quotes, joined by commas.
pub(super) fn quote_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

/// Formats a number with the singular or plural noun.
pub(super) fn format_count(number: usize, singular: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { singular } else { plural })
}
