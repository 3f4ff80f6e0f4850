//! A figure of a run: one that was kept as such, or a percentile that its histogram still knows.

use speedwell_model::Run;
use speedwell_model::load_run::LoadRun;

/// The value of a metric, in the unit in which runs keep it.
pub fn value_of(run: &Run, metric: &str) -> Option<f64> {
    run.value_of(metric).or_else(|| percentile(run, metric))
}

/// A percentile of the latency that is not among those that are kept: `latency_p66`, `latency_min`.
fn percentile(run: &Run, metric: &str) -> Option<f64> {
    let which = metric.strip_prefix("latency_")?;
    let percent: f64 = match which.strip_prefix('p') {
        Some(digits) => digits.replace('_', ".").parse().ok()?,
        None if which == "min" => 0.0,
        None => return None,
    };
    let load: LoadRun = serde_json::from_str(run.load.as_deref()?).ok()?;
    let ppm = (percent * 1e4).round();
    let ppm = (0.0..=1e6).contains(&ppm).then_some(ppm as u32)?;
    let found = load.measured.totals.latency.service().quantile(ppm)?;
    Some(found.ns as f64)
}
