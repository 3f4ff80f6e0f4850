//! Builds the command for a [`TargetProgram`]: expands its arguments and applies the changes to
//! environment variables.

use rustix::process::Signal;
use speedwell_machine::process::{ProcessSpec, ShutdownPolicy};
use speedwell_model::assignment::{EnvVarChange, TargetProgram};
use std::time::Duration;

/// Builds the command. Replaces `{port}` in its arguments and environment variables with `port`.
pub fn target_spec(target: &TargetProgram, port: Option<u16>) -> ProcessSpec {
    let fill_port = |text: &String| match port {
        Some(port) => text.replace("{port}", &port.to_string()),
        None => text.clone(),
    };
    let mut arguments = target.command.iter().map(fill_port);
    let program = arguments.next().unwrap_or_default();
    let mut spec = ProcessSpec::new(program).args(arguments);
    spec.directory = Some(target.directory.clone());
    spec.limit = Duration::from_millis(target.limit_ms);
    // The target may itself be a harness. It must not use the private channel of this process.
    spec.unset.push("SPEEDWELL_FDS".into());
    for change in &target.environment {
        apply_change(change, &mut spec, &fill_port);
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

fn apply_change(
    change: &EnvVarChange,
    spec: &mut ProcessSpec,
    fill_port: &dyn Fn(&String) -> String,
) {
    let (name, value) = match change {
        EnvVarChange::Unset(name) => {
            spec.environment.retain(|(variable, _)| variable != name);
            spec.unset.push(name.clone());
            return;
        }
        EnvVarChange::Set(name, value) => (name, fill_port(value)),
        EnvVarChange::Append(name, value) => {
            let value = fill_port(value);
            (name, join_values(name, current_value(spec, name), Some(value)))
        }
        EnvVarChange::Prepend(name, value) => {
            let value = fill_port(value);
            (name, join_values(name, Some(value), current_value(spec, name)))
        }
    };
    spec.environment.retain(|(variable, _)| variable != name);
    spec.environment.push((name.clone(), value));
}

/// Returns the value that the variable has before the change.
fn current_value(spec: &ProcessSpec, name: &str) -> Option<String> {
    let set_value = spec
        .environment
        .iter()
        .find(|(variable, _)| variable == name)
        .map(|(_, value)| value.clone());
    let is_unset = spec.unset.iter().any(|variable| variable == name);
    set_value
        .or_else(|| std::env::var(name).ok().filter(|_| !is_unset))
        .filter(|value| !value.is_empty())
}

/// Joins two values with the separator that the variable uses: a colon if the variable is a list of
/// paths, otherwise a space.
fn join_values(name: &str, first: Option<String>, second: Option<String>) -> String {
    let separator = if name.ends_with("PATH") { ":" } else { " " };
    let parts: Vec<String> = [first, second].into_iter().flatten().collect();
    parts.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn changes_of_a_variable_follow_each_other() {
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
