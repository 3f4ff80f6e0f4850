//! Builds snippets from arguments: matches hooks to snippets and names each.

use crate::options::SnippetArgs;
use anyhow::{Context, bail, ensure};
use speedwell_harness::snippet;
use speedwell_measure::eval::NamedSnippet;
use speedwell_model::{Case, Language, Nodes, Snippet, Value};
use std::path::{Path, PathBuf};

/// Returns the snippets in the order typed.
///
/// # Errors
/// Fails if the number of hooks or names is neither one nor one per snippet, or if a file cannot be
/// read.
pub fn read(
    language: Language,
    texts: &[String],
    args: &SnippetArgs,
    parameters: &[(String, Vec<Value>)],
) -> anyhow::Result<Vec<NamedSnippet>> {
    let count = texts.len();
    let inits = spread("--init", &args.init, count)?;
    let init_workers = spread("--init-worker", &args.init_worker, count)?;
    let prepares = spread("--prepare", &args.prepare, count)?;
    ensure!(
        args.prepare.is_empty() || language == Language::Sh,
        "--prepare is for 'sh', where an iteration is a process\nhint: elsewhere, --init-worker prepares a worker once"
    );
    let dones = spread("--done", &args.done, count)?;
    let given = &args.name;
    ensure!(
        given.is_empty() || given.len() == count,
        "--name is given {} for {count} snippets\nhint: one name for each snippet, in their order",
        times(given.len())
    );
    let paths = args.path.iter().map(|path| folder(path));
    let paths: Vec<PathBuf> = paths.collect::<anyhow::Result<_>>()?;
    let nodes = nodes(language, args)?;
    let mut named: Vec<NamedSnippet> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let runner = text_of(text)?;
        ensure!(
            !runner.trim().is_empty(),
            "snippet number {} is empty",
            at + 1
        );
        let usual = if runner == *text {
            on_one_line(&runner)
        } else {
            text[1..].to_owned()
        };
        let name = given.get(at).unwrap_or(&usual);
        named.push(NamedSnippet {
            name: unlike(name, &named),
            snippet: Snippet {
                init: inits[at].clone(),
                init_worker: init_workers[at].clone(),
                prepare: prepares[at].clone(),
                done: dones[at].clone(),
                paths: paths.clone(),
                nodes: nodes.clone(),
                ..Snippet::new(language, runner)
            },
        });
    }
    compare_in_shell(&mut named, &Case::combinations(parameters)?);
    Ok(named)
}

/// If one of several commands needs a shell, runs all of them in one, so that every side has the
/// same overhead. Whether a command needs one is known only with the values of a case filled in;
/// `rows` holds those of all cases.
fn compare_in_shell(named: &mut [NamedSnippet], rows: &[Vec<(String, Value)>]) {
    let needs_one = |one: &NamedSnippet| {
        let filled = |row: &Vec<(String, Value)>| one.snippet.filled(row);
        let mut filled = rows.iter().map(filled);
        one.snippet.language == Language::Sh
            && filled.any(|snippet| snippet::sh::needs_shell(&snippet.runner))
    };
    if named.len() * rows.len() > 1 && named.iter().any(needs_one) {
        named.iter_mut().for_each(|one| one.snippet.in_shell = true);
    }
}

/// Joins a text of several lines to a name of one line, as sentences and tables need it.
pub fn on_one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// Returns the other nodes that the snippets need.
fn nodes(language: Language, args: &SnippetArgs) -> anyhow::Result<Option<Nodes>> {
    let nodes = match (args.nodes, &args.node) {
        (Some(count), _) => Some(Nodes::Local(count)),
        (_, Some(name)) => Some(Nodes::Remote {
            name: name.clone(),
            cookie: args.node_cookie.clone(),
        }),
        _ => None,
    };
    let is_distributed = matches!(language, Language::Erlang | Language::Elixir);
    ensure!(
        nodes.is_none() || is_distributed,
        "--nodes and --node are for Erlang and Elixir, not for {language}"
    );
    Ok(nodes)
}

/// Returns a hook for each snippet: one for all, or one for each.
fn spread(option: &str, given: &[String], count: usize) -> anyhow::Result<Vec<Option<String>>> {
    let texts = given.iter().map(|text| text_of(text).map(Some));
    let texts: Vec<Option<String>> = texts
        .collect::<anyhow::Result<_>>()
        .with_context(|| format!("in {option}"))?;
    Ok(match &texts[..] {
        [] => vec![None; count],
        [all] => vec![all.clone(); count],
        each if each.len() == count => texts,
        more => bail!(
            "{option} is given {} for {count} snippet(s)\nhint: once for all snippets, or once for each, in \
             their order; an empty one is none",
            times(more.len())
        ),
    }
    .into_iter()
    .map(|text| text.filter(|text| !text.trim().is_empty()))
    .collect())
}

/// Reads the file of an `@FILE` argument; returns any other text unchanged.
fn text_of(word: &str) -> anyhow::Result<String> {
    match word.strip_prefix('@') {
        // Elixir's attributes and Java's annotations begin with '@', too.
        Some(file) if Path::new(file).is_file() => {
            std::fs::read_to_string(file).with_context(|| format!("cannot read '{file}'"))
        }
        _ => Ok(word.to_owned()),
    }
}

fn folder(path: &Path) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    let found =
        std::fs::canonicalize(path).with_context(|| format!("cannot find '{shown}' of --path"))?;
    ensure!(
        found.is_dir() || found.is_file(),
        "'{shown}' of --path is neither folder nor file"
    );
    Ok(found)
}

/// Appends a number to the name if another snippet has it.
fn unlike(name: &str, others: &[NamedSnippet]) -> String {
    let taken = |name: &str| others.iter().any(|other| other.name == name);
    if !taken(name) {
        return name.to_owned();
    }
    let numbered = (2..).map(|number| format!("{name} #{number}"));
    let mut free = numbered.skip_while(|name| taken(name));
    // Unreachable default: the range is infinite.
    free.next().unwrap_or_default()
}

fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(runner: &str) -> NamedSnippet {
        NamedSnippet {
            name: runner.to_owned(),
            snippet: Snippet::new(Language::Sh, runner),
        }
    }

    #[test]
    fn commands_that_are_compared_are_all_executed_by_a_shell_or_none_is() {
        let in_shell = |runners: &[&str]| -> Vec<bool> {
            let mut all: Vec<NamedSnippet> = runners.iter().map(|runner| named(runner)).collect();
            compare_in_shell(&mut all, &[Vec::new()]);
            all.iter().map(|one| one.snippet.in_shell).collect()
        };
        assert_eq!(in_shell(&["sleep 1", "sleep 1 | cat"]), [true, true]);
        assert_eq!(in_shell(&["sleep 1", "sleep 2"]), [false, false]);
        assert_eq!(
            in_shell(&["sleep 1 | cat"]),
            [false],
            "it decides for itself"
        );
    }

    #[test]
    fn a_snippet_of_several_lines_has_a_name_of_one() {
        assert_eq!(
            on_one_line("\n#include <a.h>\n\n  f(1)\n"),
            "#include <a.h> f(1)"
        );
    }
}
