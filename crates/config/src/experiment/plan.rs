//! Reads `[plan]`, which defines the number of runs, their order, the processors, and when to stop.

use super::variant::ExperimentVariant;
use crate::file_part::FilePart;
use crate::value::{DurationValue, PlainValue, PositiveCount, ShareValue, checked};
use anyhow::Result;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::RunOrder;
use speedwell_model::assignment::ProcessorShares;
use std::time::Duration;

/// Default time limit of a run, as for all measurements.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Minimum number of processors to divide between target and load. With fewer processors, taking
/// one away changes the target more than sharing does.
const MIN_DIVISIBLE_PROCESSORS: u32 = 4;

/// How an experiment is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentPlan {
    /// Runs of every case under every variant; `None` means as many as the verdict needs.
    pub runs: Option<u32>,
    /// Order of runs.
    pub order: RunOrder,
    /// Variant that is measured twice, to show how large the noise is.
    pub control: Option<String>,
    /// Division of processors.
    pub pins: Option<ProcessorPins>,
    /// Time limit of the whole measurement.
    pub budget: Option<Duration>,
    /// A case is done when the half-width of its interval has shrunk to this fraction of the mean.
    pub precision: Option<f64>,
    /// Default time limit of a run.
    pub timeout: Duration,
}

/// Division of processors between target and load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorPins {
    /// Processors of the target; `None` means all processors that the load does not use.
    pub target: Option<u32>,
    /// Processors of the load generator.
    pub load: u32,
}

impl ProcessorPins {
    /// Divides `usable` processors between the target and the load; `None` if there are too few.
    pub fn divide_processors(self, usable: u32) -> Option<ProcessorShares> {
        let remaining = usable.checked_sub(self.load).filter(|remaining| *remaining > 0)?;
        let target = self.target.unwrap_or(remaining);
        let shares = ProcessorShares { target, load: self.load };
        (usable >= MIN_DIVISIBLE_PROCESSORS && target <= remaining).then_some(shares)
    }
}

/// How the experiment is measured: number of runs, order, processors, and when to stop.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanKeys {
    /// Runs of every case under every variant. By default, as many as the verdict needs.
    runs: Option<PositiveCount>,
    /// Order of the runs. Default: "blocks", random within a block.
    order: Option<OrderName>,
    /// A variant that is measured twice: the difference between the two measurements is noise.
    control: Option<String>,
    /// The first processors are for the target, the last ones for the load generator. By default,
    /// both share all processors.
    cpus: Option<PinKeys>,
    /// Time limit of the whole measurement.
    budget: Option<DurationValue>,
    /// When a case is done.
    stop_when: Option<StopWhenKeys>,
    /// Time limit of a run. Default: "5m".
    timeout: Option<DurationValue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OrderName {
    /// Random within a block.
    Blocks,
    /// The variants in turn, always in the same order.
    Alternate,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PinKeys {
    /// Processors of the target: "rest", or a number.
    target: TargetPins,
    /// Processors of the load generator. Default: 1.
    load: Option<PositiveCount>,
}

checked! {
    #[derive(Copy, Default)]
    struct TargetPins(Option<u32>) from PlainValue as {
        "anyOf": [{ "const": "rest" }, { "type": ["integer", "string"], "minimum": 1 }]
    },
    |value| match value.program_text().as_str() {
        "rest" => Ok(None),
        _ => {
            let count = value.as_whole(1).and_then(|count| u32::try_from(count).ok());
            count.map(Some).ok_or("must be \"rest\" or a whole number above 0".to_owned())
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StopWhenKeys {
    /// A case is done when its interval is this narrow on each side.
    precision: Option<ShareValue>,
    /// Time limit of the whole measurement.
    budget: Option<DurationValue>,
}

/// Resolves `[plan]`. The variants are read later, so [`check_control`] checks the control.
pub fn resolve_plan(keys: &PlanKeys, top: &FilePart) -> Result<ExperimentPlan> {
    let order = match keys.order {
        Some(OrderName::Alternate) => RunOrder::Alternate,
        _ => RunOrder::Blocks,
    };
    let stop = keys.stop_when;
    let (budget, inner) = (keys.budget, stop.and_then(|stop| stop.budget));
    let stop_part = top.part("plan").and_then(|plan| plan.part("stop_when"));
    if let (Some(_), Some(_), Some(part)) = (budget, inner, stop_part) {
        return Err(part
            .error_at_key("budget", "the budget is set twice, in [plan] and in its 'stop_when'"));
    }
    let pins = |pins: PinKeys| ProcessorPins {
        target: pins.target.0,
        load: pins.load.map_or(1, |load| load.0),
    };
    Ok(ExperimentPlan {
        runs: keys.runs.map(|runs| runs.0),
        order,
        control: keys.control.clone(),
        pins: keys.cpus.map(pins),
        budget: budget.or(inner).map(|budget| budget.0),
        precision: stop.and_then(|stop| stop.precision).map(|share| share.0),
        timeout: keys.timeout.map_or(DEFAULT_TIMEOUT, |timeout| timeout.0),
    })
}

/// Rejects a control that is not a variant.
pub fn check_control(
    plan: &ExperimentPlan,
    top: &FilePart,
    variants: &[ExperimentVariant],
) -> Result<()> {
    match (&plan.control, top.part("plan")) {
        (Some(name), Some(part)) => check_variant(&part, "control", name, variants),
        _ => Ok(()),
    }
}

/// Rejects the name of a variant that does not exist.
pub fn check_variant(
    part: &FilePart,
    key: &str,
    name: &str,
    variants: &[ExperimentVariant],
) -> Result<()> {
    match super::variant::find_variant(variants, name) {
        Ok(_) => Ok(()),
        Err(error) => Err(part.error_at_key(key, error)),
    }
}

/// Suffix of the name under which a control is measured the second time (A/A test). The difference
/// between the two measurements is noise.
const REPETITION_SUFFIX: &str = "-again";

/// Returns the name of the second measurement of a variant.
pub fn repetition_of(variant: &str) -> String {
    format!("{variant}{REPETITION_SUFFIX}")
}

/// Whether this is the name of a second measurement.
pub fn is_repetition(name: &str) -> bool {
    repeated_variant(name) != name
}

/// Returns the variant that is measured under this name.
pub fn repeated_variant(name: &str) -> &str {
    name.strip_suffix(REPETITION_SUFFIX).unwrap_or(name)
}
