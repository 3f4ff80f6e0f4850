//! Which HTTP tool a script is measured with: found once, by us, never by measured processes.

use std::path::PathBuf;

/// Tools in the order in which Node core prefers them, of those that measure throughput.
const PREFERRED: [&str; 2] = ["wrk", "autocannon"];

/// What a script's HTTP load is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// The script makes no HTTP load.
    NotNeeded,
    /// This tool; `argument` says whether the script must be told.
    Tool { name: String, argument: bool },
    /// None is installed.
    Missing { reason: String },
}

/// Chooses the tool for a script with this `text`, given what the user set for `benchmarker`.
pub(super) fn choose(text: &str, set: Option<&str>, test: bool) -> Choice {
    if !text.contains("bench.http(") {
        return Choice::NotNeeded;
    }
    // The library prefers what the script passes to it over what the command line says.
    if let Some(name) = own_choice(text) {
        return available(&name, false);
    }
    if let Some(name) = set {
        return available(name, true);
    }
    if let Some(name) = PREFERRED.into_iter().find(|name| find(name).is_some()) {
        return Choice::Tool {
            name: name.to_owned(),
            argument: true,
        };
    }
    if test {
        return Choice::Tool {
            name: "test-double-http".into(),
            argument: true,
        };
    }
    Choice::Missing {
        reason: "no HTTP load tool is installed: install 'wrk' or 'autocannon', or choose the \
                 built-in stand-in with --set benchmarker=test-double-http"
            .into(),
    }
}

/// A tool that the script itself asks for.
fn own_choice(text: &str) -> Option<String> {
    let (_, after) = text.split_once("benchmarker:")?;
    let word = after.trim_start().strip_prefix(['\'', '"'])?;
    let end = word.find(['\'', '"'])?;
    Some(word[..end].to_owned())
}

fn available(name: &str, argument: bool) -> Choice {
    let external = super::shadow_path::TOOLS.contains(&name);
    if external && find(name).is_none() {
        let reason = format!("the HTTP load tool '{name}' is not installed");
        return Choice::Missing { reason };
    }
    Choice::Tool {
        name: name.to_owned(),
        argument,
    }
}

/// Where a program lies in `PATH`.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_without_load_needs_no_tool() {
        assert_eq!(choose("bench.start()", None, false), Choice::NotNeeded);
    }

    #[test]
    fn a_script_keeps_its_own_choice() {
        let text = "bench.http({ benchmarker: 'test-double-http2' }, done)";
        let expected = Choice::Tool {
            name: "test-double-http2".into(),
            argument: false,
        };
        assert_eq!(choose(text, None, false), expected);
        assert_eq!(choose(text, Some("test-double-http"), false), expected);
    }

    #[test]
    fn the_users_choice_is_passed_on() {
        let expected = Choice::Tool {
            name: "test-double-http".into(),
            argument: true,
        };
        assert_eq!(
            choose("bench.http({}, f)", Some("test-double-http"), false),
            expected
        );
    }
}
