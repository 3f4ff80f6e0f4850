//! Several files that hold results of the same thing, as one session.
//!
//! Decides what is one run when there are several processes: what came of one process, such as
//! repetitions inside a program, are samples of its run (docs/why/statistics.md, "One value per
//! process"). With a single file there would be a single run, so there each repetition counts, with a
//! remark. It must not know formats.

use super::imported::{NOTE_ON_REPETITIONS, VARIANT};
use anyhow::{Result, bail};
use speedwell_model::{Order, Run, Session, State, Stopping, Variant};
use std::collections::HashMap;

/// The sessions as one with a single variant. Of each session the named variant takes part, or its
/// baseline. `label` is what the user calls them together.
///
/// # Errors
/// There are none, or two give a metric in different units.
pub fn merge(label: &str, sessions: Vec<(Session, Option<String>)>) -> Result<Session> {
    let mut parts = sessions.into_iter();
    let Some((first, wanted)) = parts.next() else {
        bail!("'{label}' holds no results");
    };
    let mut merged = Session {
        runs: Vec::new(),
        failures: Vec::new(),
        profiles: Vec::new(),
        variants: vec![Variant::plain(VARIANT)],
        state: State::Imported,
        command: vec!["merge".to_owned(), label.to_owned()],
        ..first.clone()
    };
    let mut counts = HashMap::new();
    add(&mut merged, first, wanted, &mut counts)?;
    for (session, wanted) in parts {
        merged.id = format!("{}+{}", merged.id, session.id);
        add(&mut merged, session, wanted, &mut counts)?;
    }
    merged.design.order = Order::Imported;
    merged.design.baseline = VARIANT.to_owned();
    merged.design.runs_per_block = 1;
    merged.design.stopping = Stopping::Fixed {
        runs: counts.values().copied().max().unwrap_or(1),
    };
    Ok(merged)
}

fn add(
    merged: &mut Session,
    session: Session,
    wanted: Option<String>,
    counts: &mut HashMap<String, u32>,
) -> Result<()> {
    for metric in &session.metrics {
        match merged.metric(&metric.name) {
            None => merged.metrics.push(metric.clone()),
            Some(known) if known.unit != metric.unit => bail!(
                "its files give '{}' in '{}' and in '{}'",
                metric.name,
                known.unit,
                metric.unit
            ),
            Some(_) => {}
        }
    }
    let wanted = wanted.unwrap_or_else(|| session.design.baseline.clone());
    let only = session.variants.len() < 2;
    let chosen = session
        .runs
        .into_iter()
        .filter(|run| only || *run.variant == *wanted);
    for mut run in by_process(chosen) {
        let count = counts.entry(run.case.id()).or_default();
        run.block = *count;
        *count += 1;
        run.slot = merged.runs.len() as u32;
        run.variant = VARIANT.into();
        merged.runs.push(run);
    }
    merged.failures.extend(session.failures);
    Ok(())
}

/// The runs, with those that are repetitions inside one process put together.
fn by_process(runs: impl Iterator<Item = Run>) -> Vec<Run> {
    let mut kept: Vec<Run> = Vec::new();
    let mut processes: HashMap<String, usize> = HashMap::new();
    for mut run in runs {
        let is_repetition = run.notes.iter().any(|note| note == NOTE_ON_REPETITIONS);
        run.notes.retain(|note| note != NOTE_ON_REPETITIONS);
        match processes.get(&run.case.id()).filter(|_| is_repetition) {
            Some(&at) => kept[at].samples.extend(run.samples),
            None => {
                if is_repetition {
                    processes.insert(run.case.id(), kept.len());
                }
                kept.push(run);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats;

    fn file(times: &[f64]) -> Session {
        let rows: Vec<String> = times
            .iter()
            .map(|time| {
                format!(
                    r#"{{"name":"a","run_type":"iteration","real_time":{time},"cpu_time":1,"time_unit":"ns"}}"#
                )
            })
            .collect();
        let text = format!(r#"{{"benchmarks":[{}]}}"#, rows.join(","));
        formats::read("f", text.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn each_file_is_a_run_and_its_repetitions_are_samples() {
        let files = [&[1.0, 2.0, 9.0][..], &[4.0], &[5.0, 7.0]];
        let files = files.map(|times| (file(times), None)).to_vec();
        let merged = merge("old", files).unwrap();
        let values: Vec<f64> = merged
            .runs
            .iter()
            .filter_map(|run| run.value_of("real_time"))
            .collect();
        assert_eq!(values, [2.0, 4.0, 6.0]);
        let blocks: Vec<(u32, u32)> = merged
            .runs
            .iter()
            .map(|run| (run.slot, run.block))
            .collect();
        assert_eq!(blocks, [(0, 0), (1, 1), (2, 2)]);
        assert!(merged.runs.iter().all(|run| run.notes.is_empty()));
    }

    #[test]
    fn a_metric_has_one_unit() {
        let mut other = file(&[1.0]);
        other.metrics[0].unit = "s".into();
        let error = merge("old", vec![(file(&[1.0]), None), (other, None)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its files give 'real_time' in 'ns' and in 's'"
        );
    }
}
