//! Defines the order of runs and the clock whose time is compared, how the order is requested, and
//! the record of how both were chosen. Start at [`OrderRequest`] and [`OrderChoice`].

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::{Deserialize, Serialize};

/// The order in which runs were executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RunOrder {
    /// Randomized blocks.
    #[default]
    Blocks,
    /// Baseline and candidate at the same time on one processor, so that disturbances slow both.
    /// Processor time is compared.
    Paired,
    /// Baseline, candidate, baseline, candidate ...
    Alternate,
    /// All variants at the same time.
    Parallel,
    /// Unknown, because the runs were imported.
    #[value(skip)]
    Imported,
}

/// The order of runs that a user requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum OrderRequest {
    /// Blocks or pairs, chosen before the first run. The work decides which time is compared, and
    /// the machine decides the order.
    Auto,
    /// This order.
    Fixed(RunOrder),
}

impl OrderRequest {
    /// The order if neither an option nor the project file requests one.
    pub const DEFAULT: OrderRequest = OrderRequest::Fixed(RunOrder::Blocks);

    /// The order before anything is known about the work and the machine.
    pub fn initial_order(self) -> RunOrder {
        match self {
            OrderRequest::Auto => RunOrder::Blocks,
            OrderRequest::Fixed(order) => order,
        }
    }
}

impl Default for OrderRequest {
    fn default() -> OrderRequest {
        OrderRequest::DEFAULT
    }
}

impl ValueEnum for OrderRequest {
    fn value_variants<'a>() -> &'a [OrderRequest] {
        &[
            OrderRequest::Auto,
            OrderRequest::Fixed(RunOrder::Blocks),
            OrderRequest::Fixed(RunOrder::Paired),
            OrderRequest::Fixed(RunOrder::Alternate),
            OrderRequest::Fixed(RunOrder::Parallel),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            OrderRequest::Auto => Some(
                PossibleValue::new("auto")
                    .help("Pairs for work that computes on a busy machine, otherwise blocks"),
            ),
            OrderRequest::Fixed(order) => order.to_possible_value(),
        }
    }
}

impl TryFrom<String> for OrderRequest {
    type Error = String;

    fn try_from(text: String) -> Result<OrderRequest, String> {
        <OrderRequest as ValueEnum>::from_str(&text, false).map_err(|_| {
            format!("must be auto, blocks, paired, alternate or parallel, not '{text}'")
        })
    }
}

impl From<OrderRequest> for String {
    fn from(request: OrderRequest) -> String {
        let value = request.to_possible_value();
        value.map_or_else(|| "imported".to_owned(), |value| value.get_name().to_owned())
    }
}

/// The clock whose time is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ComparedClock {
    /// Elapsed time between start and end, including waiting.
    #[default]
    Wall,
    /// Processor time.
    Cpu,
}

/// How the order of a session was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderChoice {
    /// The requested order. [`crate::SessionDesign::order`] is the chosen one.
    pub requested: OrderRequest,
    /// Why the order was chosen; `None` until it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The clock whose time is compared.
    pub clock: ComparedClock,
    /// What a discarded run of each case and variant showed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trial: Vec<TrialShares>,
}

impl OrderChoice {
    /// Describes the choice of `order`, as in `pairs by CPU time (machine busy, 78%)`. `None` if
    /// nothing is chosen yet.
    pub fn describe(&self, order: RunOrder) -> Option<String> {
        let reason = self.reason.as_ref()?;
        let units = if order == RunOrder::Paired { "pairs" } else { "blocks" };
        let clock = if self.clock == ComparedClock::Cpu { "CPU" } else { "wall" };
        Some(format!("{units} by {clock} time ({reason})"))
    }

    /// Explains why the processor times of two variants cannot be compared: one of them is blocked
    /// for longer than the other. `None` if they are blocked for about as long, or wall time is
    /// compared.
    pub fn explain_blocked(&self, case: &str, variants: [&str; 2]) -> Option<String> {
        let shares = variants.map(|variant| {
            let mut trial = self.trial.iter();
            trial.find(|shares| shares.case == case && shares.variant == variant)?.blocked()
        });
        let [Some(old), Some(new)] = shares else { return None };
        if self.clock != ComparedClock::Cpu || (old - new).abs() <= MAX_BLOCKED_DIFFERENCE {
            return None;
        }
        let (variant, share) = if new > old { (variants[1], new) } else { (variants[0], old) };
        Some(format!("'{variant}' waits {:.0}% of its time, which CPU time omits.", 100.0 * share))
    }
}

/// Largest difference between the blocked shares of two variants whose processor times are compared.
const MAX_BLOCKED_DIFFERENCE: f64 = 0.02;

/// What a discarded run showed about its measured part. Fractions are from 0 to 1, and `None` if
/// they are unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialShares {
    /// Id of the case.
    pub case: String,
    /// Name of the variant.
    pub variant: String,
    /// Fraction of the time in which the work was running or waiting for a processor.
    pub runnable: Option<f64>,
    /// Fraction of the processor time that one thread at a time used.
    pub one_thread: Option<f64>,
    /// Fraction of the looks that found two or more runnable threads.
    pub parallel: Option<f64>,
}

impl TrialShares {
    /// Fraction of the time in which the work was blocked.
    pub fn blocked(&self) -> Option<f64> {
        Some((1.0 - self.runnable?).max(0.0))
    }

    /// Why the work does not only compute; `None` if it does.
    pub fn explain_waiting(&self) -> Option<String> {
        let case = &self.case;
        let (Some(runnable), Some(one_thread), Some(parallel)) =
            (self.runnable, self.one_thread, self.parallel)
        else {
            return Some(format!("the CPU use of '{case}' is unknown"));
        };
        if runnable < MIN_COMPUTING_SHARE {
            return Some(format!("'{case}' waits {:.0}% of its time", 100.0 * (1.0 - runnable)));
        }
        let is_parallel = one_thread < MIN_COMPUTING_SHARE || parallel > MAX_PARALLEL_SHARE;
        is_parallel.then(|| format!("'{case}' uses several threads"))
    }
}

/// Work computes if it needs a processor for at least this fraction of its time, and if one thread
/// at a time uses at least this fraction of the processor time.
const MIN_COMPUTING_SHARE: f64 = 0.95;

/// Work computes if at most this fraction of the looks finds two or more runnable threads.
const MAX_PARALLEL_SHARE: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(name: &str, fractions: [f64; 3]) -> TrialShares {
        let [runnable, one_thread, parallel] = fractions.map(Some);
        let (case, variant) = ("g/a".to_owned(), name.to_owned());
        TrialShares { case, variant, runnable, one_thread, parallel }
    }

    #[test]
    fn a_request_is_stored_as_its_name() {
        for request in OrderRequest::value_variants() {
            let text = serde_json::to_string(request).unwrap();
            assert_eq!(serde_json::from_str::<OrderRequest>(&text).unwrap(), *request, "{text}");
        }
        assert_eq!(serde_json::to_string(&OrderRequest::Auto).unwrap(), "\"auto\"");
        let error = serde_json::from_str::<OrderRequest>("\"imported\"").unwrap_err().to_string();
        assert!(error.contains("must be auto, blocks, paired"), "{error}");
    }

    #[test]
    fn work_computes_if_one_thread_always_needs_a_processor() {
        for (values, reason) in [
            ([0.99, 1.0, 0.0], None),
            ([0.95, 0.95, 0.05], None),
            ([0.62, 1.0, 0.0], Some("'g/a' waits 38% of its time")),
            ([0.99, 0.9, 0.0], Some("'g/a' uses several threads")),
            ([0.99, 1.0, 0.1], Some("'g/a' uses several threads")),
        ] {
            assert_eq!(shares("old", values).explain_waiting().as_deref(), reason);
        }
        let unknown = TrialShares { case: "g/a".to_owned(), ..TrialShares::default() };
        assert_eq!(unknown.explain_waiting().unwrap(), "the CPU use of 'g/a' is unknown");
    }

    #[test]
    fn sides_that_wait_differently_cannot_be_compared_by_processor_time() {
        let mut choice = OrderChoice {
            requested: OrderRequest::Auto,
            reason: Some("machine busy, 78%".to_owned()),
            clock: ComparedClock::Cpu,
            trial: vec![shares("old", [1.0, 1.0, 0.0]), shares("new", [0.96, 1.0, 0.0])],
        };
        let text = choice.describe(RunOrder::Paired).unwrap();
        assert_eq!(text, "pairs by CPU time (machine busy, 78%)");
        let explanation = "'new' waits 4% of its time, which CPU time omits.";
        for variants in [["old", "new"], ["new", "old"]] {
            assert_eq!(choice.explain_blocked("g/a", variants).as_deref(), Some(explanation));
        }
        assert_eq!(choice.explain_blocked("g/b", ["old", "new"]), None);
        choice.trial[1].runnable = Some(0.99);
        assert_eq!(choice.explain_blocked("g/a", ["old", "new"]), None);
    }
}
