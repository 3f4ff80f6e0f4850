//! The outcome of one run of an experiment: its metrics, or the stage at which it failed. Plain data, sent as JSON
//! by the process that performed the run. Start at [`Performed`].

use super::{Metric, Sample};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Performed {
    /// Its metrics, in the order of reports.
    pub figures: Vec<Measure>,
    /// Notes on the metrics for the reader, as whole sentences.
    pub notes: Vec<String>,
    /// Why the run failed, if it did. Its metrics are kept only if the failure was in stopping the target.
    pub failure: Option<StageFailure>,
}

impl Performed {
    /// Adds a metric with one value.
    pub fn tell(&mut self, metric: Metric, value: f64) {
        self.figures.push(Measure::new(metric, vec![value]));
    }

    /// Adds a metric with the value of a sample and the duration and iterations that it covers.
    pub fn tell_sample(&mut self, metric: Metric, sample: &Sample) {
        self.figures.push(Measure {
            elapsed_ns: sample.elapsed_ns,
            iterations: sample.iterations,
            ..Measure::new(metric, vec![sample.value])
        });
    }
}

/// The values of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// The metric.
    pub metric: Metric,
    /// Values in the metric's unit.
    pub values: Vec<f64>,
    /// Duration of the measurement, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// Number of iterations in that time, if the metric is a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<f64>,
}

impl Measure {
    /// Values without duration and iterations.
    pub fn new(metric: Metric, values: Vec<f64>) -> Measure {
        Measure {
            metric,
            values,
            elapsed_ns: None,
            iterations: None,
        }
    }
}

/// Where and why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFailure {
    /// The stage that failed.
    pub stage: Stage,
    /// Reason, phrased as the end of a sentence about the stage.
    pub reason: String,
    /// Last lines of the target's stderr.
    pub stderr_tail: String,
}

/// The stages of a run, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Checking that the port is free.
    Port,
    /// Starting the target.
    Start,
    /// Waiting until it listens, answers and has its child processes.
    Ready,
    /// Checking that the variant took effect.
    Proof,
    /// Checking its response before the load.
    Verify,
    /// Sending the warm-up load.
    Warmup,
    /// Recording a profile.
    Profile,
    /// Sending the measured load.
    Load,
    /// Checking that every request of the load succeeded.
    Served,
    /// Checking its response after the load.
    VerifyAgain,
    /// Checking that it is alive and no child process was replaced.
    Alive,
    /// Reading the metrics it reported.
    Figures,
    /// Stopping it, without processes left over.
    Stop,
    /// Checking at exit that the variant took effect.
    ProofAtExit,
}

impl Stage {
    /// Whether the metrics of a run that failed at this stage are valid.
    pub fn is_after_the_figures(self) -> bool {
        self == Stage::Stop
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Stage::Port => "port",
            Stage::Start => "start",
            Stage::Ready => "ready",
            Stage::Proof => "proof of the variant",
            Stage::Verify => "verify",
            Stage::Warmup => "warmup",
            Stage::Profile => "profile",
            Stage::Load => "load",
            Stage::Served => "served",
            Stage::VerifyAgain => "verify after the load",
            Stage::Alive => "alive",
            Stage::Figures => "figures",
            Stage::Stop => "stop",
            Stage::ProofAtExit => "proof of the variant at exit",
        })
    }
}
