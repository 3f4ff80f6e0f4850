//! `[plan]`: how often, in which order, on which processors, and when it is enough.

use super::variant::{self, Variant};
use crate::keys::Keys;
use anyhow::Result;
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

/// Reads `[plan]`. Variants are checked by [`check`], because processors must be known before them.
pub fn read(top: &Keys) -> Result<Plan> {
    let mut plan = Plan {
        runs: None,
        order: Order::Blocks,
        control: None,
        pins: None,
        budget: None,
        precision: None,
        timeout: TIMEOUT,
    };
    let Some(keys) = top.table("plan")? else {
        return Ok(plan);
    };
    plan.runs = keys.count("runs")?;
    if keys.choice("order", &["blocks", "alternate"])?.as_deref() == Some("alternate") {
        plan.order = Order::Alternate;
    }
    plan.control = keys.text("control")?;
    plan.pins = pins(&keys)?;
    plan.budget = keys.time("budget")?;
    if let Some(timeout) = keys.time("timeout")? {
        plan.timeout = timeout;
    }
    if let Some(stop) = keys.table("stop_when")? {
        plan.precision = stop.share("precision")?;
        let budget = stop.time("budget")?;
        if budget.is_some() && plan.budget.is_some() {
            return Err(stop.error("budget", "the budget is given twice, in [plan] as well"));
        }
        plan.budget = plan.budget.or(budget);
        stop.finish()?;
    }
    keys.finish()?;
    Ok(plan)
}

/// Refuses names of variants that do not exist.
pub fn check(top: &Keys, variants: &[Variant]) -> Result<()> {
    let Some(keys) = top.table("plan")? else {
        return Ok(());
    };
    match keys.text("control")? {
        Some(name) => known(&keys, "control", &name, variants),
        None => Ok(()),
    }
}

/// Refuses a name of a variant that does not exist.
pub fn known(keys: &Keys, key: &str, name: &str, variants: &[Variant]) -> Result<()> {
    match variant::find(variants, name) {
        Ok(_) => Ok(()),
        Err(_) => Err(keys.error(key, variant::unknown(variants, name))),
    }
}

fn pins(keys: &Keys) -> Result<Option<Pins>> {
    let Some(inner) = keys.table("cpus")? else {
        return Ok(None);
    };
    let is_rest = inner
        .node("target")
        .is_none_or(|node| node.text() == Some("rest"));
    let pins = Pins {
        target: if is_rest {
            None
        } else {
            inner.count("target")?
        },
        load: inner.count("load")?.unwrap_or(1),
    };
    inner.finish()?;
    Ok(Some(pins))
}
