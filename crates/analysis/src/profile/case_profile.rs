//! The profiles of a session, set against each other case by case.

use super::{Explanation, explain};
use speedwell_model::{Case, Profile, Recorded, Recording, Session};
use std::sync::Arc;

/// What two variants say about each other in one case.
#[derive(Debug, Clone)]
pub struct CaseProfile {
    /// The case.
    pub case: Case,
    /// The variant that is the reference.
    pub baseline: String,
    /// The other one.
    pub candidate: String,
    /// Both sides, or why they cannot be set against each other, as a sentence.
    pub sides: Result<Box<ProfiledSides>, String>,
}

/// Two profiles of the same work.
#[derive(Debug, Clone)]
pub struct ProfiledSides {
    /// That of the baseline, then that of the candidate.
    pub profiles: [Arc<Profile>; 2],
    /// What they say about each other.
    pub explanation: Explanation,
}

/// Everything that the profiles of a session say about these pairs of variants, in the order in which cases were
/// recorded. Pairs of which one side was never to be recorded are left out.
pub fn case_profiles(session: &Session, pairs: &[(String, String)]) -> Vec<CaseProfile> {
    let mut cases: Vec<&Case> = Vec::new();
    for recording in &session.profiles {
        if !cases.contains(&&recording.case) {
            cases.push(&recording.case);
        }
    }
    let of_case = |case: &Case| -> Vec<CaseProfile> {
        let side = |variant: &str| {
            let is_meant = |known: &&Recording| known.case == *case && known.variant == variant;
            session.profiles.iter().find(is_meant)
        };
        let found = pairs.iter().filter_map(|(baseline, candidate)| {
            let (old, new) = (side(baseline)?, side(candidate)?);
            Some(CaseProfile {
                case: case.clone(),
                baseline: baseline.clone(),
                candidate: candidate.clone(),
                sides: sides(old, new).map(Box::new),
            })
        });
        found.collect()
    };
    cases.into_iter().flat_map(of_case).collect()
}

fn sides(old: &Recording, new: &Recording) -> Result<ProfiledSides, String> {
    let [old, new] = match (&old.profile, &new.profile) {
        (Recorded::Taken(old_one), Recorded::Taken(new_one)) if old_one.unit == new_one.unit => {
            [old_one, new_one].map(Arc::clone)
        }
        (Recorded::Taken(_), Recorded::Taken(_)) => {
            return Err(format!(
                "'{}' and '{}' were recorded by different tools, whose costs have different units.",
                old.variant, new.variant
            ));
        }
        (Recorded::Missing(reason), Recorded::Missing(other)) if reason == other => {
            return Err(format!("There is no profile: {reason}."));
        }
        _ => {
            let missing = [old, new]
                .into_iter()
                .filter_map(|side| match &side.profile {
                    Recorded::Missing(reason) => Some(format!(
                        "There is no profile of '{}': {reason}.",
                        side.variant
                    )),
                    Recorded::Taken(_) => None,
                });
            return Err(missing.collect::<Vec<_>>().join(" "));
        }
    };
    let explanation = explain(&old, &new);
    Ok(ProfiledSides {
        profiles: [old, new],
        explanation,
    })
}
