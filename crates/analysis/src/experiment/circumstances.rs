//! What the definition file knows of the circumstances of its figures, for the checks of their validity.

use super::GroupFound;
use crate::Comparison;
use crate::validity::{Finding, Known, of};
use speedwell_model::Session;
use speedwell_model::assignment::{Service, Work};
use speedwell_suite::experiment::{Experiment, control};

/// Everything that is wrong with the figures of an experiment, the worst first.
pub fn validity(session: &Session, experiment: &Experiment, groups: &[GroupFound]) -> Vec<Finding> {
    let mut known = Known {
        control: groups.iter().find_map(control_of),
        ..Known::default()
    };
    for (case, service) in services(experiment) {
        let asked = f64::from(service.load.in_flight());
        known.asked.insert(case.clone(), asked);
        if !service.verify.same_bytes {
            known.sizes_may_differ.push(case);
        }
    }
    of(session, &known)
}

/// The first comparison of a variant with itself.
fn control_of(group: &GroupFound) -> Option<&Comparison> {
    let first = group.metrics.first()?;
    let mut comparisons = first.findings.comparisons.iter();
    comparisons.find(|comparison| control::is_again(&comparison.candidate))
}

/// Every case that is a server under load, as the first variant serves it.
fn services(experiment: &Experiment) -> Vec<(String, Service)> {
    let Some(variant) = experiment.variants.first() else {
        return Vec::new();
    };
    let of_group = |group: &speedwell_suite::experiment::Group| {
        let services = group.cases.iter().filter_map(|case| {
            let assignment = experiment.assignment(group, case, &variant.name, 0).ok()?;
            match assignment.work {
                Work::Server(service) => Some((case.id(), *service)),
                Work::Command | Work::Load(_) => None,
            }
        });
        services.collect::<Vec<_>>()
    };
    experiment.groups.iter().flat_map(of_group).collect()
}
