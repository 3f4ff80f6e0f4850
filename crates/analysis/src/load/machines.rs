//! Collects remarks on a load that several machines sent: lost machines, bottlenecks, and parts
//! that do not add up to the whole.
//!
//! A bottleneck on one machine limits the whole load, because no other machine sends the missing
//! requests. Start at [`machine_remarks`].

use super::{LoadRemark, MachineLimit};
use speedwell_model::load::latency::OpenVerdict;
use speedwell_model::load::run::{LoadPart, LoadRun};

/// A network device may have limited the load if it used more than this fraction of its speed.
const LINK_FULL: f64 = 0.9;
/// If machines start further apart than this, or than a fraction of the load's length
/// (`MAX_START_GAP_SHARE`), the load differs from the requested load for a while.
const MAX_START_GAP_NS: u64 = 100_000_000;
const MAX_START_GAP_SHARE: f64 = 0.01;
/// If a clock drifted by more than this during the load, in nanoseconds, it must have been set.
const MAX_CLOCK_DRIFT_NS: u64 = 100_000_000;

/// Remarks by kind; the caller sorts them by severity.
pub(super) fn machine_remarks(run: &LoadRun) -> Vec<LoadRemark<'_>> {
    let parts = &run.parts;
    let lost_parts = parts.iter().filter(|part| part.lost.is_some());
    let mut remarks: Vec<LoadRemark<'_>> = lost_parts.map(LoadRemark::MachineLost).collect();
    remarks.extend(unequal_parts(run));
    remarks.extend(parts.iter().filter_map(limited_machine));
    remarks.extend(starts_apart(run));
    remarks.extend(parts.iter().filter_map(clock_set));
    remarks
}

/// Verdict on the whole load. If the whole load seems punctual but some machine was late, the
/// verdict on the latest machine counts: punctual machines must not hide a late one.
pub(super) fn combined_verdict(load_verdict: OpenVerdict, parts: &[LoadPart]) -> OpenVerdict {
    let verdict_of_part = |part: &LoadPart| {
        let (own_lag_p99_ns, own_lag_limit_ns) = part.own_lag_p99_ns?;
        Some(OpenVerdict { own_lag_p99_ns, own_lag_limit_ns, ..load_verdict })
    };
    let late = parts.iter().filter_map(verdict_of_part).filter(OpenVerdict::is_generator_limited);
    let latest = late.max_by_key(|verdict| verdict.own_lag_p99_ns);
    if load_verdict.is_generator_limited() {
        return load_verdict;
    }
    latest.unwrap_or(load_verdict)
}

/// Returns a remark if the machines' counts do not add up to the counts of the whole load, which
/// are stored separately.
fn unequal_parts(run: &LoadRun) -> Option<LoadRemark<'_>> {
    let remaining_parts = || run.parts.iter().filter(|part| part.lost.is_none());
    remaining_parts().next()?;
    let counts = &run.measured.totals.outcomes;
    let sum = |count_of: fn(&LoadPart) -> u64| remaining_parts().map(count_of).sum::<u64>();
    let pairs = [
        (sum(|part| part.attempted), counts.attempts()),
        (sum(|part| part.ok), counts.succeeded()),
        (sum(|part| part.errors), counts.all_errors()),
    ];
    let unequal = pairs.into_iter().find(|(parts, total)| parts != total)?;
    Some(LoadRemark::PartsUnlike { parts: unequal.0, whole: unequal.1 })
}

fn limited_machine(part: &LoadPart) -> Option<LoadRemark<'_>> {
    let late = part
        .own_lag_p99_ns
        .filter(|(lag, limit)| lag > limit)
        .map(|(lag, limit)| MachineLimit::Late(lag, limit));
    let busy = part.is_bottleneck.then_some(MachineLimit::Busy(part.busiest));
    let link = part
        .link
        .as_ref()
        .filter(|(_, share)| *share > LINK_FULL)
        .map(|(_, share)| MachineLimit::Link(*share));
    Some(LoadRemark::MachineLimited(part, late.or(busy).or(link)?))
}

fn clock_set(part: &LoadPart) -> Option<LoadRemark<'_>> {
    let drift_ns = part.drift_ns.filter(|ns| ns.unsigned_abs() > MAX_CLOCK_DRIFT_NS)?;
    Some(LoadRemark::ClockSet(part, drift_ns))
}

fn starts_apart(run: &LoadRun) -> Option<LoadRemark<'_>> {
    let latest = run.parts.iter().filter_map(|part| part.began_ns).max()?;
    let latest_ns = u64::try_from(latest).ok()?;
    let share = MAX_START_GAP_SHARE * run.measured.elapsed_ns as f64;
    (latest_ns > MAX_START_GAP_NS || latest_ns as f64 > share)
        .then_some(LoadRemark::StartsApart(latest_ns))
}
