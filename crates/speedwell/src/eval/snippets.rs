//! Builds snippets, with hooks and names, from arguments.

use crate::options::SnippetArgs;
use anyhow::{Context, bail, ensure};
use speedwell_adapters::snippet;
use speedwell_engine::eval::NamedSnippet;
use speedwell_model::{Case, ErlangNodes, ParameterValue, Snippet, SnippetLanguage};
use std::path::{Path, PathBuf};

/// Reads the snippets and returns them in the order in which they were typed.
///
/// # Errors
/// Fails if the number of hooks or names does not suit the number of snippets, if a snippet is
/// empty, if an option does not apply to the language, or if a file cannot be read.
pub fn read(
    language: SnippetLanguage,
    arguments: &[String],
    args: &SnippetArgs,
    parameters: &[(String, Vec<ParameterValue>)],
) -> anyhow::Result<Vec<NamedSnippet>> {
    let count = arguments.len();
    let inits = hook_per_snippet("--init", &args.init, count)?;
    let init_workers = hook_per_snippet("--init-worker", &args.init_worker, count)?;
    let prepares = hook_per_snippet("--prepare", &args.prepare, count)?;
    ensure!(
        args.prepare.is_empty() || language == SnippetLanguage::Sh,
        "--prepare needs 'sh', where each iteration is a process\nhint: for other languages, --init-worker prepares each worker once"
    );
    let dones = hook_per_snippet("--done", &args.done, count)?;
    let names = &args.name;
    ensure!(
        names.is_empty() || names.len() == count,
        "--name is given {} for {count} snippets\nhint: give one name for each snippet, in the same order",
        count_of_times(names.len())
    );
    let paths = args.path.iter().map(|path| resolve_folder(path));
    let paths: Vec<PathBuf> = paths.collect::<anyhow::Result<_>>()?;
    let nodes = remote_nodes(language, args)?;
    let mut named_snippets: Vec<NamedSnippet> = Vec::new();
    for (index, text) in arguments.iter().enumerate() {
        let code = read_text(text)?;
        ensure!(!code.trim().is_empty(), "snippet number {} is empty", index + 1);
        let default_name = if code == *text { join_lines(&code) } else { text[1..].to_owned() };
        let name = names.get(index).unwrap_or(&default_name);
        named_snippets.push(NamedSnippet {
            name: unique_name(name, &named_snippets),
            snippet: Snippet {
                init: inits[index].clone(),
                init_worker: init_workers[index].clone(),
                prepare: prepares[index].clone(),
                done: dones[index].clone(),
                paths: paths.clone(),
                nodes: nodes.clone(),
                ..Snippet::new(language, code)
            },
        });
    }
    compare_in_shell(&mut named_snippets, &Case::cartesian_product(parameters)?);
    Ok(named_snippets)
}

/// If one of several commands needs a shell, runs all of them in a shell, so that all have the same
/// overhead. Checks each command with the values of every case (`rows`) filled in.
fn compare_in_shell(named: &mut [NamedSnippet], rows: &[Vec<(String, ParameterValue)>]) {
    let needs_shell = |candidate: &NamedSnippet| {
        let filled = |row: &Vec<(String, ParameterValue)>| candidate.snippet.with_defaults(row);
        let mut filled = rows.iter().map(filled);
        candidate.snippet.language == SnippetLanguage::Sh
            && filled.any(|snippet| snippet::sh::needs_shell(&snippet.runner))
    };
    if named.len() * rows.len() > 1 && named.iter().any(needs_shell) {
        named.iter_mut().for_each(|named| named.snippet.in_shell = true);
    }
}

/// Joins the lines of a snippet into a one-line name, for use in sentences and tables.
pub fn join_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// Returns the requested Erlang nodes: a local cluster or a running node.
fn remote_nodes(
    language: SnippetLanguage,
    args: &SnippetArgs,
) -> anyhow::Result<Option<ErlangNodes>> {
    let nodes = match (args.nodes, &args.node) {
        (Some(count), _) => Some(ErlangNodes::Local(count)),
        (_, Some(name)) => {
            Some(ErlangNodes::Remote { name: name.clone(), cookie: args.node_cookie.clone() })
        }
        _ => None,
    };
    let is_distributed = matches!(language, SnippetLanguage::Erlang | SnippetLanguage::Elixir);
    ensure!(
        nodes.is_none() || is_distributed,
        "--nodes and --node need Erlang or Elixir, not {language}"
    );
    Ok(nodes)
}

/// Returns a hook for each snippet. There must be one hook for all snippets, or one hook for each.
fn hook_per_snippet(
    option: &str,
    arguments: &[String],
    count: usize,
) -> anyhow::Result<Vec<Option<String>>> {
    let hooks = arguments.iter().map(|text| read_text(text).map(Some));
    let hooks: Vec<Option<String>> =
        hooks.collect::<anyhow::Result<_>>().with_context(|| format!("in {option}"))?;
    Ok(match &hooks[..] {
        [] => vec![None; count],
        [hook] => vec![hook.clone(); count],
        _ if hooks.len() == count => hooks,
        _ => bail!(
            "{option} is given {} for {count} snippet(s)\nhint: give it once for all snippets, or once for each, in \
             their order; an empty string leaves its snippet without a hook",
            count_of_times(hooks.len())
        ),
    }
    .into_iter()
    .map(|text| text.filter(|text| !text.trim().is_empty()))
    .collect())
}

/// Reads the file of an `@FILE` argument; returns any other text unchanged.
fn read_text(argument: &str) -> anyhow::Result<String> {
    match argument.strip_prefix('@') {
        // Code may also begin with '@': an attribute in Elixir, or an annotation in Java.
        Some(file) if Path::new(file).is_file() => {
            std::fs::read_to_string(file).with_context(|| format!("cannot read '{file}'"))
        }
        _ => Ok(argument.to_owned()),
    }
}

fn resolve_folder(path: &Path) -> anyhow::Result<PathBuf> {
    let displayed = path.display();
    let resolved = std::fs::canonicalize(path)
        .with_context(|| format!("in --path: cannot find '{displayed}'"))?;
    ensure!(
        resolved.is_dir() || resolved.is_file(),
        "in --path: '{displayed}' is neither a folder nor a file"
    );
    Ok(resolved)
}

/// Appends a number to the name if another snippet has it.
fn unique_name(name: &str, others: &[NamedSnippet]) -> String {
    let is_taken = |name: &str| others.iter().any(|other| other.name == name);
    if !is_taken(name) {
        return name.to_owned();
    }
    let numbered = (2..).map(|number| format!("{name} #{number}"));
    let mut free_names = numbered.skip_while(|name| is_taken(name));
    // The range is infinite, so the default is never used.
    free_names.next().unwrap_or_default()
}

fn count_of_times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_snippet(runner: &str) -> NamedSnippet {
        NamedSnippet { name: runner.to_owned(), snippet: Snippet::new(SnippetLanguage::Sh, runner) }
    }

    #[test]
    fn compared_commands_all_run_in_a_shell_or_none_does() {
        let in_shell = |runners: &[&str]| -> Vec<bool> {
            let mut others: Vec<NamedSnippet> =
                runners.iter().map(|runner| named_snippet(runner)).collect();
            compare_in_shell(&mut others, &[Vec::new()]);
            others.iter().map(|snippet| snippet.snippet.in_shell).collect()
        };
        assert_eq!(in_shell(&["sleep 1", "sleep 1 | cat"]), [true, true]);
        assert_eq!(in_shell(&["sleep 1", "sleep 2"]), [false, false]);
        assert_eq!(in_shell(&["sleep 1 | cat"]), [false], "a lone command is left alone");
    }

    #[test]
    fn a_snippet_of_several_lines_has_a_single_line_name() {
        assert_eq!(join_lines("\n#include <a.h>\n\n  f(1)\n"), "#include <a.h> f(1)");
    }
}
