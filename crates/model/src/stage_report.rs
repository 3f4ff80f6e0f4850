//! Defines the outcome of one run of an experiment: its metrics, or the stage at which the run
//! failed. The process that performed the run sends the outcome as JSON. Start at [`StageReport`].

use super::{Metric, Sample};
use serde::{Deserialize, Serialize};

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StageReport {
    /// The metrics of the run, in the order in which they were reported.
    pub figures: Vec<ReportedMetric>,
    /// Notes on the metrics, as whole sentences.
    pub notes: Vec<String>,
    /// Why the run failed, if it did. A failed run keeps its metrics only if it failed at
    /// [`RunStage::Stop`].
    pub failure: Option<StageFailure>,
}

impl StageReport {
    /// Adds a metric with one value.
    pub fn add_metric(&mut self, metric: Metric, value: f64) {
        self.figures.push(ReportedMetric::new(metric, vec![value]));
    }

    /// Adds a metric with the value, duration and iterations of a sample.
    pub fn add_sample(&mut self, metric: Metric, sample: &Sample) {
        self.figures.push(ReportedMetric {
            elapsed_ns: sample.elapsed_ns,
            iterations: sample.iterations,
            ..ReportedMetric::new(metric, vec![sample.value])
        });
    }
}

/// The values of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportedMetric {
    /// The metric.
    pub metric: Metric,
    /// Values in the metric's unit.
    pub values: Vec<f64>,
    /// Duration of the measurement, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// Number of iterations in the measurement, if the metric is a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<f64>,
}

impl ReportedMetric {
    /// Values without duration and iterations.
    pub fn new(metric: Metric, values: Vec<f64>) -> ReportedMetric {
        ReportedMetric { metric, values, elapsed_ns: None, iterations: None }
    }
}

/// Where and why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFailure {
    /// The stage that failed.
    pub stage: RunStage,
    /// The reason, as the end of a sentence about the stage.
    pub reason: String,
    /// Last lines of the target's stderr.
    pub stderr_tail: String,
}

/// The stages of a run, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStage {
    /// Checking that the port is free.
    Port,
    /// Starting the target.
    Start,
    /// Waiting until the target listens, answers and has its child processes.
    Ready,
    /// Checking that the variant took effect.
    Proof,
    /// Checking the target's response before the load.
    Verify,
    /// Sending the warm-up load.
    Warmup,
    /// Recording a profile.
    Profile,
    /// Sending the measured load.
    Load,
    /// Checking that every request of the load succeeded.
    Served,
    /// Checking the target's response after the load.
    VerifyAgain,
    /// Checking that the target is alive and that none of its child processes was replaced.
    Alive,
    /// Reading the metrics that the target reported.
    Figures,
    /// Stopping the target and checking that no processes are left over.
    Stop,
    /// Checking at exit that the variant took effect.
    ProofAtExit,
}

name_variants!(RunStage: Port = "port", Start = "start", Ready = "ready",
    Proof = "proof of the variant", Verify = "verify", Warmup = "warmup", Profile = "profile",
    Load = "load", Served = "served", VerifyAgain = "verify after the load", Alive = "alive",
    Figures = "figures", Stop = "stop", ProofAtExit = "proof of the variant at exit");
