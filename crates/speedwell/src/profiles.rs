//! Handles comparisons of profiles. A profile records where a program spends its time.
//!
//! The module recognizes profiles by their content, and prints the comparison of two profiles.
//! `foreign::profile` reads the files.

use super::CommandStatus;
use super::operand::SourceOperand;
use super::options::{FailOn, RunArgs};
use super::source::files_at;
use anyhow::{Context, bail};
use speedwell_analysis::profile;
use speedwell_formats::foreign::profile::{FrameNames, read_profile};
use speedwell_model::StackProfile;
use speedwell_report::{self as report, ProfileSide};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads the operands as profiles. Returns `None` if no operand is a profile.
///
/// # Errors
/// Fails if an operand cannot be read, or if profiles are mixed with other sources.
pub fn read_sides(operands: &[SourceOperand]) -> anyhow::Result<Option<Vec<StackProfile>>> {
    let mut profiles = Vec::new();
    for operand in operands {
        let profile =
            read_side(operand).with_context(|| format!("in source '{}'", operand.label))?;
        profiles.push(profile);
    }
    let other = operands.iter().zip(&profiles).find(|(_, profile)| profile.is_none());
    let first_profile = operands.iter().zip(&profiles).find(|(_, profile)| profile.is_some());
    match (first_profile, other) {
        (None, _) => Ok(None),
        (Some((first_profile, _)), Some((other, _))) => bail!(
            "'{}' is a profile but '{}' is not: they cannot be compared",
            first_profile.label,
            other.label
        ),
        (Some(_), None) => Ok(Some(profiles.into_iter().flatten().collect())),
    }
}

/// Reads and adds up the profiles of one operand. Returns `None` if its files are not profiles.
fn read_side(operand: &SourceOperand) -> anyhow::Result<Option<StackProfile>> {
    let mut files = Vec::new();
    for location in &operand.locations {
        // Skip stored sessions and pipes. A pipe can be read only once, by the code that reads
        // results.
        let path = Path::new(location);
        if !path.is_file() && !path.is_dir() {
            return Ok(None);
        }
        files.extend(files_at(location)?);
    }
    let mut merged: Option<StackProfile> = None;
    for file in files {
        match (&mut merged, profile_in_file(&file)?) {
            (None, None) => return Ok(None),
            (None, Some(first)) => merged = Some(first),
            (Some(merged), Some(next)) if merged.unit == next.unit => merged.merge(&next),
            (Some(_), Some(_)) => {
                bail!("the costs in '{file}' have a different unit than in the files before it")
            }
            (Some(_), None) => bail!("'{file}' is not a profile, but the files before it are"),
        }
    }
    Ok(merged)
}

fn profile_in_file(file: &str) -> anyhow::Result<Option<StackProfile>> {
    let read_context = || format!("cannot read the file '{file}'");
    // Rule out files with benchmark results first, so that none is mistaken for a profile.
    // Executable programs are not profiles, either.
    let mut opened_file = File::open(file).with_context(read_context)?;
    let mut bytes = Vec::new();
    let mut beginning = opened_file.by_ref().take(speedwell_formats::BEGINNING_BYTES);
    beginning.read_to_end(&mut bytes).with_context(read_context)?;
    if speedwell_formats::detect_format(&bytes).is_some()
        || speedwell_adapters::is_elf(Path::new(file))
    {
        return Ok(None);
    }
    opened_file.read_to_end(&mut bytes).with_context(read_context)?;
    let read = read_profile(&bytes, &FrameNames::default());
    read.with_context(|| format!("cannot read '{file}' as a profile"))
}

/// Compares two profiles.
///
/// # Errors
/// Fails if there are not exactly two profiles, if their units differ, or if `--fail-on` is given.
pub fn compare_profiles(
    operands: &[SourceOperand],
    profiles: &[StackProfile],
    args: &RunArgs,
) -> anyhow::Result<CommandStatus> {
    let ([old_name, new_name], [old, new]) = (operands, profiles) else {
        bail!(
            "cannot compare {}: expected two",
            report::format_count(operands.len(), "profile", "profiles")
        );
    };
    if old.unit != new.unit {
        bail!("the costs of '{}' and '{}' have different units", old_name.label, new_name.label);
    }
    if args.comparison.fail_on != FailOn::Never {
        bail!(
            "--fail-on needs a verdict, but profiles have none: they show where costs differ, not whether a difference is more than noise"
        );
    }
    let labelled_profile = |operand: &'_ SourceOperand, profile| (operand.label.clone(), profile);
    let (old, new) = (labelled_profile(old_name, old), labelled_profile(new_name, new));
    let sides = [&old, &new].map(|(label, profile)| ProfileSide { label, profile });
    let difference = profile::explain_difference(sides[0].profile, sides[1].profile);
    let document = report::report_profiles(sides, &difference, &args.output.report_settings());
    args.output.print_document(&document)?;
    Ok(CommandStatus::DONE)
}
