//! `[plan]`: how often, in which order, on which processors, and when it is enough.

use super::variant::Variant;
use crate::part::Part;
use crate::value::{Count, Plain, Share, Time, checked};
use anyhow::Result;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::Order;
use speedwell_model::assignment::Shares;
use std::time::Duration;

/// How long a run may take where nothing is said, as for all measuring.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Fewer processors than this are not divided between target and load: one of two or three taken
/// away changes the target more than sharing does.
const DIVISIBLE: u32 = 4;

/// How an experiment is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Runs of every case under every variant; `None`: as many as the verdict needs.
    pub runs: Option<u32>,
    /// The order.
    pub order: Order,
    /// The variant that is measured twice, to show what no difference looks like.
    pub control: Option<String>,
    /// Which processors are whose.
    pub pins: Option<Pins>,
    /// The time that measuring may take in all.
    pub budget: Option<Duration>,
    /// A case is done when its interval is this narrow to each side, as a share.
    pub precision: Option<f64>,
    /// How long a run may take where its target does not say.
    pub timeout: Duration,
}

/// Which processors are whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pins {
    /// So many are the target's; `None`: all that are left.
    pub target: Option<u32>,
    /// So many are those of what sends the load.
    pub load: u32,
}

impl Pins {
    /// Processors of the target and of the load, of so many that are usable; `None` if they are too
    /// few to be divided.
    pub fn divide(self, usable: u32) -> Option<Shares> {
        let rest = usable.checked_sub(self.load).filter(|rest| *rest > 0)?;
        let target = self.target.unwrap_or(rest);
        let shares = Shares {
            target,
            load: self.load,
        };
        (usable >= DIVISIBLE && target <= rest).then_some(shares)
    }
}

/// How it is measured: how often, in which order, on which processors, and when it is enough.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanKeys {
    /// Runs of every case under every variant. Usually as many as the verdict needs.
    runs: Option<Count>,
    /// The order of the runs. Usually "blocks", random within a block.
    order: Option<OrderName>,
    /// A variant that is measured twice: what differs between the two is noise.
    control: Option<String>,
    /// The first processors are the target's, the last ones are those of what sends the load. Usually they share all.
    cpus: Option<PinKeys>,
    /// Time for all measuring.
    budget: Option<Time>,
    /// When a case is done.
    stop_when: Option<StopWhenKeys>,
    /// How long a run may take. Usually "5m".
    timeout: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OrderName {
    /// Random within a block.
    Blocks,
    /// One variant after the other.
    Alternate,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PinKeys {
    /// How many are the target's: "rest", or a number.
    target: TargetPins,
    /// How many are those of what sends the load. Usually 1.
    load: Option<Count>,
}

checked! {
    #[derive(Copy, Default)]
    struct TargetPins(Option<u32>) from Plain as {
        "anyOf": [{ "const": "rest" }, { "type": ["integer", "string"], "minimum": 1 }]
    },
    |value| match value.text().as_str() {
        "rest" => Ok(None),
        _ => {
            let count = value.whole(1).and_then(|count| u32::try_from(count).ok());
            count.map(Some).ok_or("is not \"rest\" or a whole number above 0".to_owned())
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StopWhenKeys {
    /// A case is done when its interval is this narrow to each side.
    precision: Option<Share>,
    /// Time for all measuring.
    budget: Option<Time>,
}

/// What `[plan]` of the file says. Variants are checked by [`check`], because processors must be known before them.
pub fn resolve(keys: &PlanKeys, top: &Part) -> Result<Plan> {
    let order = match keys.order {
        Some(OrderName::Alternate) => Order::Alternate,
        _ => Order::Blocks,
    };
    let stop = keys.stop_when;
    let (budget, inner) = (keys.budget, stop.and_then(|stop| stop.budget));
    let stop_part = top.part("plan").and_then(|plan| plan.part("stop_when"));
    if let (Some(_), Some(_), Some(part)) = (budget, inner, stop_part) {
        return Err(part.error("budget", "the budget is given twice, in [plan] as well"));
    }
    let pins = |pins: PinKeys| Pins {
        target: pins.target.0,
        load: pins.load.map_or(1, |load| load.0),
    };
    Ok(Plan {
        runs: keys.runs.map(|runs| runs.0),
        order,
        control: keys.control.clone(),
        pins: keys.cpus.map(pins),
        budget: budget.or(inner).map(|budget| budget.0),
        precision: stop.and_then(|stop| stop.precision).map(|share| share.0),
        timeout: keys.timeout.map_or(TIMEOUT, |timeout| timeout.0),
    })
}

/// Refuses a control that is not a variant.
pub fn check(plan: &Plan, top: &Part, variants: &[Variant]) -> Result<()> {
    match (&plan.control, top.part("plan")) {
        (Some(name), Some(part)) => check_variant(&part, "control", name, variants),
        _ => Ok(()),
    }
}

/// Refuses a name of a variant that does not exist.
pub fn check_variant(part: &Part, key: &str, name: &str, variants: &[Variant]) -> Result<()> {
    match super::variant::find(variants, name) {
        Ok(_) => Ok(()),
        Err(error) => Err(part.error(key, error)),
    }
}

/// What the name of a control ends with: the second measurement of a variant. What differs between the two is noise, the
/// floor under which no other difference is distinguishable from none (A/A test).
const AGAIN: &str = "-again";

/// The name under which a variant is measured a second time.
pub fn repetition_of(variant: &str) -> String {
    format!("{variant}{AGAIN}")
}

/// Whether this name is that of a second measurement.
pub fn is_repetition(name: &str) -> bool {
    repeated_variant(name) != name
}

/// The variant that is measured under this name.
pub fn repeated_variant(name: &str) -> &str {
    name.strip_suffix(AGAIN).unwrap_or(name)
}
