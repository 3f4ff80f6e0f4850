//! Which HTTP tool a script is measured with: found once, by us, never by measured processes.

use super::job::{Request, Trial, UsualTool};
use std::path::PathBuf;

/// Our own generator among the tools.
pub(super) const OWN: &str = "speedwell";

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

/// Who starts the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Library {
    /// Our own package, which knows our generator.
    Ours,
    /// Node core's `common.js`, for which our generator has to stand in for a tool that it knows.
    NodeCore,
}

/// Chooses the tool for a script with this `text`, of which `request` is asked.
pub(super) fn choose(text: &str, request: &Request, library: Library) -> Choice {
    if !text.contains("bench.http(") {
        return Choice::NotNeeded;
    }
    // The library prefers what the script passes to it over what the command line says.
    if let Some(name) = own_choice(text) {
        return named_by_script(&name, request, library);
    }
    let set = request.sets.iter().rfind(|(name, _)| name == "benchmarker");
    if let Some((_, name)) = set {
        return available(name, true);
    }
    if request.usual_tool == UsualTool::Speedwell {
        return available(OWN, true);
    }
    if let Some(name) = PREFERRED.into_iter().find(|name| find(name).is_some()) {
        return available(name, true);
    }
    if request.trial != Trial::No {
        return available("test-double-http", true);
    }
    Choice::Missing {
        reason: "no HTTP load tool is installed: install 'wrk' or 'autocannon', or choose our own \
                 with --set benchmarker=speedwell"
            .into(),
    }
}

/// What a script names itself is what it gets. Where that is missing, our own generator takes its
/// place and its name is on the results.
fn named_by_script(name: &str, request: &Request, library: Library) -> Choice {
    let choice = available(name, false);
    let is_missing = matches!(choice, Choice::Missing { .. });
    let may = library == Library::NodeCore && request.usual_tool == UsualTool::Speedwell;
    if is_missing && may && PREFERRED.contains(&name) {
        available(OWN, false)
    } else {
        choice
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
    use speedwell_model::Variant;
    use std::time::Duration;

    fn request(sets: &[(&str, &str)], usual_tool: UsualTool) -> Request {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Request {
            program: "node".into(),
            variant: Variant::plain("default"),
            sets: sets.iter().map(owned).collect(),
            trial: Trial::Own,
            usual_tool,
            limit: Duration::from_secs(1),
        }
    }

    fn tool(name: &str, argument: bool) -> Choice {
        Choice::Tool {
            name: name.into(),
            argument,
        }
    }

    const LOAD: &str = "bench.http({}, f)";

    #[test]
    fn a_script_without_load_needs_no_tool() {
        let request = request(&[], UsualTool::Speedwell);
        assert_eq!(
            choose("bench.start()", &request, Library::Ours),
            Choice::NotNeeded
        );
    }

    #[test]
    fn our_own_generator_is_the_usual_tool_but_not_of_drop_ins() {
        let own = request(&[], UsualTool::Speedwell);
        assert_eq!(
            choose(LOAD, &own, Library::NodeCore),
            tool("speedwell", true)
        );
        let drop_in = choose(
            LOAD,
            &request(&[], UsualTool::AsNodeCore),
            Library::NodeCore,
        );
        assert_ne!(drop_in, tool("speedwell", true));
    }

    #[test]
    fn a_script_keeps_its_own_choice() {
        let text = "bench.http({ benchmarker: 'test-double-http2' }, done)";
        let expected = tool("test-double-http2", false);
        for sets in [&[][..], &[("benchmarker", "test-double-http")]] {
            let request = request(sets, UsualTool::Speedwell);
            assert_eq!(choose(text, &request, Library::NodeCore), expected);
        }
    }

    #[test]
    fn a_tool_that_a_script_names_and_nobody_has_is_replaced() {
        let request = request(&[], UsualTool::Speedwell);
        let text = "bench.http({ benchmarker: 'autocannon' }, done)";
        let expected = match find("autocannon") {
            Some(_) => "autocannon",
            None => "speedwell",
        };
        assert_eq!(
            choose(text, &request, Library::NodeCore),
            tool(expected, false)
        );
    }

    #[test]
    fn the_users_choice_is_passed_on() {
        let sets = [("benchmarker", "test-double-http")];
        let request = request(&sets, UsualTool::Speedwell);
        assert_eq!(
            choose(LOAD, &request, Library::Ours),
            tool("test-double-http", true)
        );
    }
}
