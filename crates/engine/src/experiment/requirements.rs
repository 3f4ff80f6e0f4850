//! Checks the requirements of an experiment before anything starts. One error names everything that
//! is missing.

use crate::EventListener;
use anyhow::bail;
use regex::Regex;
use speedwell_config::experiment::{Experiment, ExperimentRequirement, RequirementKind};
use speedwell_model::SessionEvent;
use std::cmp::Ordering;
use std::path::Path;
use std::process::{Command, Stdio};

/// Checks all requirements and installs missing packages.
///
/// # Errors
/// Fails if something is missing, too old, or cannot be installed.
pub fn check_requirements(
    experiment: &Experiment,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<()> {
    let missing: Vec<String> = experiment
        .requirements
        .iter()
        .filter_map(|requirement| describe_missing(requirement, listener))
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        bail!("requirements of '{}' are not met:\n  {}", experiment.name, missing.join("\n  "))
    }
}

/// Describes an unmet requirement in one line; `None` if it is met.
fn describe_missing(
    requirement: &ExperimentRequirement,
    listener: &mut EventListener<'_>,
) -> Option<String> {
    let problem = match &requirement.need {
        RequirementKind::Program { command, pattern, at_least } => {
            check_program(command, pattern, at_least.as_deref()).err()?
        }
        RequirementKind::Packages { directory, lockfile } => {
            install_packages(directory, *lockfile, listener).err()?
        }
    };
    let hint = requirement.hint.as_ref().map(|hint| format!(" ({hint})"));
    Some(format!("{}: {problem}{}", requirement.name, hint.unwrap_or_default()))
}

/// Checks that a program exists and is recent enough.
fn check_program(command: &[String], pattern: &str, at_least: Option<&str>) -> Result<(), String> {
    let [program, arguments @ ..] = command else {
        return Err("no command is given to check for it".to_owned());
    };
    let displayed = command.join(" ");
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start '{program}': {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let expression = Regex::new(pattern).map_err(|error| error.to_string())?;
    let captures = expression.captures(&text);
    let version =
        captures.as_ref().and_then(|captures| captures.name("version").or_else(|| captures.get(0)));
    let Some(version) = version else {
        return Err(format!(
            "cannot find a version in the output of '{displayed}': {}",
            text.lines().next().unwrap_or_default()
        ));
    };
    match at_least {
        Some(min_version) if compare_versions(version.as_str(), min_version) == Ordering::Less => {
            Err(format!("version {} is older than {min_version}", version.as_str()))
        }
        _ => Ok(()),
    }
}

/// Compares versions number by number.
fn compare_versions(installed: &str, required: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        let parts = text.split(|c: char| !c.is_ascii_digit());
        parts.filter_map(|part| part.parse().ok()).collect()
    };
    let (installed, required) = (numbers(installed), numbers(required));
    let part = |version: &[u64], index: usize| version.get(index).copied().unwrap_or(0);
    // Only as many parts are compared as the requirement has: 20.20.2 satisfies 20.
    (0..required.len())
        .map(|index| part(&installed, index).cmp(&part(&required, index)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Installs missing packages, in exactly the versions of the lockfile if there is one. If
/// `lockfile` is set, a missing lockfile is an error. Does not run scripts of packages: results
/// must not depend on what a package does to the machine.
fn install_packages(
    directory: &Path,
    lockfile: bool,
    listener: &mut EventListener<'_>,
) -> Result<(), String> {
    let displayed = directory.display();
    if !directory.join("package.json").is_file() {
        return Err(format!("'{displayed}' has no package.json"));
    }
    let lock = directory.join("package-lock.json");
    if lockfile && !lock.is_file() {
        return Err(format!("'{displayed}' has no package-lock.json"));
    }
    // npm keeps a copy of the lockfile that it last installed from.
    let installed = directory.join("node_modules/.package-lock.json");
    let modified =
        |file: &Path| std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    if modified(&installed).zip(modified(&lock)).is_some_and(|(installed, lock)| installed >= lock)
    {
        return Ok(());
    }
    let note = format!("installing the packages of '{displayed}'");
    listener.observe(&SessionEvent::Note(&note)).map_err(|error| error.to_string())?;
    let arguments: &[&str] = if lock.is_file() {
        &["ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    } else {
        &["install", "--ignore-scripts", "--no-audit", "--no-fund"]
    };
    let output = Command::new("npm")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start 'npm': {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last_error =
        errors.lines().rev().find(|line| line.contains("error") || line.contains("ERR"));
    Err(format!(
        "'npm {}' in '{displayed}' failed: {}",
        arguments.join(" "),
        last_error.unwrap_or("no error message")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_number_by_number() {
        assert_eq!(compare_versions("20.9.1", "20.10"), Ordering::Less);
        assert_eq!(compare_versions("20.20.2", "20"), Ordering::Equal);
        assert_eq!(compare_versions("v22.1", "18"), Ordering::Greater);
        assert_eq!(compare_versions("9", "18.0.1"), Ordering::Less);
    }

    #[test]
    fn a_program_is_asked_for_its_version() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let pattern = r"(?P<version>\d+\S*)";
        let echo = words("echo v3.2.1");
        assert_eq!(check_program(&echo, pattern, Some("3.2")), Ok(()));
        assert!(
            check_program(&echo, pattern, Some("4")).unwrap_err().contains("3.2.1 is older than 4")
        );
        let gone = check_program(&words("no-such-program --version"), pattern, None);
        assert!(gone.unwrap_err().contains("cannot start 'no-such-program'"));
        assert!(
            check_program(&words("echo hello"), pattern, None)
                .unwrap_err()
                .contains("cannot find a version")
        );
    }
}
