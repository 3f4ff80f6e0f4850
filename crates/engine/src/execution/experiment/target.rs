//! Builds the command for a [`TargetProgram`]: expands its arguments and applies the changes to
//! environment variables.

use rustix::process::Signal;
use speedwell_machine::process::{ProcessSpec, ShutdownPolicy};
use speedwell_model::assignment::TargetProgram;
use std::time::Duration;

/// Builds the command. Replaces `{port}` in its arguments and environment variables with `port`.
pub fn target_spec(target: &TargetProgram, port: Option<u16>) -> ProcessSpec {
    let port = port.map(|port| ("port".to_owned(), port.to_string()));
    let target = target.clone().fill_placeholders(port.as_slice());
    let mut words = target.command.into_iter();
    let mut spec = ProcessSpec::new(words.next().unwrap_or_default()).args(words);
    spec.directory = Some(target.directory);
    spec.limit = Duration::from_millis(target.limit_ms);
    // The target may itself be a harness. It must not use the private channel of this process.
    spec.unset.push("SPEEDWELL_FDS".into());
    for change in &target.environment {
        let (name, value) = change.apply(|name| current_value(&spec, name));
        spec.environment.retain(|(variable, _)| variable != name);
        match value {
            Some(value) => spec.environment.push((name.to_owned(), value)),
            None => spec.unset.push(name.to_owned()),
        }
    }
    spec
}

/// Returns how to stop a server. The fallback to `TERM` is never needed, because definition files
/// accept only signals that have a name.
pub fn shutdown(stop: &speedwell_model::assignment::StopSignal) -> ShutdownPolicy {
    ShutdownPolicy {
        signal: Signal::from_named_raw(stop.signal).unwrap_or(Signal::TERM),
        grace: Duration::from_millis(stop.grace_ms),
    }
}

/// Returns the value that the variable `name` has after the changes that `spec` already contains.
fn current_value(spec: &ProcessSpec, name: &str) -> Option<String> {
    let found = spec.environment.iter().find(|(variable, _)| variable == name);
    let is_unset = spec.unset.iter().any(|variable| variable == name);
    match found {
        Some((_, value)) => Some(value.clone()),
        None => std::env::var(name).ok().filter(|_| !is_unset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::assignment::EnvVarChange;

    fn target(environment: Vec<EnvVarChange>) -> TargetProgram {
        TargetProgram {
            command: ["node", "--port={port}"].map(str::to_owned).to_vec(),
            directory: "/x".into(),
            environment,
            expected_exit: 0,
            limit_ms: 1000,
        }
    }

    #[test]
    fn changes_of_a_variable_are_applied_in_order() {
        let text = |a: &str| a.to_owned();
        let changes = vec![
            EnvVarChange::Set(text("OPTIONS"), text("-a")),
            EnvVarChange::Append(text("OPTIONS"), text("--port {port}")),
            EnvVarChange::Prepend(text("MY_PATH"), text("/new")),
            EnvVarChange::Append(text("MY_PATH"), text("/last")),
            EnvVarChange::Unset(text("HOME")),
        ];
        let spec = target_spec(&target(changes), Some(81));
        assert_eq!(spec.arguments, ["--port=81"]);
        assert_eq!(
            spec.environment,
            [("OPTIONS", "-a --port 81"), ("MY_PATH", "/new:/last")]
                .map(|(name, value)| (text(name), text(value)))
        );
        assert_eq!(spec.unset, ["SPEEDWELL_FDS", "HOME"]);
    }
}
