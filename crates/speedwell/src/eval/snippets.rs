//! Builds snippets from arguments: matches hooks to snippets and names each.

use crate::options::SnippetArgs;
use anyhow::{Context, bail, ensure};
use speedwell_harness::snippet;
use speedwell_measure::eval::NamedSnippet;
use speedwell_model::{Case, ErlangNodes, ParameterValue, Snippet, SnippetLanguage};
use std::path::{Path, PathBuf};

/// Returns the snippets in the order typed.
///
/// # Errors
/// Fails if the number of hooks or names is neither one nor one per snippet, or if a file cannot be
/// read.
pub fn read(
    language: SnippetLanguage,
    texts: &[String],
    args: &SnippetArgs,
    parameters: &[(String, Vec<ParameterValue>)],
) -> anyhow::Result<Vec<NamedSnippet>> {
    let count = texts.len();
    let inits = hook_per_snippet("--init", &args.init, count)?;
    let init_workers = hook_per_snippet("--init-worker", &args.init_worker, count)?;
    let prepares = hook_per_snippet("--prepare", &args.prepare, count)?;
    ensure!(
        args.prepare.is_empty() || language == SnippetLanguage::Sh,
        "--prepare needs 'sh', where each iteration is a process\nhint: for other languages, --init-worker prepares each worker once"
    );
    let dones = hook_per_snippet("--done", &args.done, count)?;
    let given = &args.name;
    ensure!(
        given.is_empty() || given.len() == count,
        "--name is given {} for {count} snippets\nhint: give one name for each snippet, in the same order",
        count_in_words(given.len())
    );
    let paths = args.path.iter().map(|path| resolve_folder(path));
    let paths: Vec<PathBuf> = paths.collect::<anyhow::Result<_>>()?;
    let nodes = remote_nodes(language, args)?;
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
            name: unique_name(name, &named),
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
    compare_in_shell(&mut named, &Case::cartesian_product(parameters)?);
    Ok(named)
}

/// If one of several commands needs a shell, runs all of them in one, so that every side has the
/// same overhead. Whether a command needs one is known only with the values of a case filled in;
/// `rows` holds the values of all cases.
fn compare_in_shell(named: &mut [NamedSnippet], rows: &[Vec<(String, ParameterValue)>]) {
    let needs_one = |one: &NamedSnippet| {
        let filled = |row: &Vec<(String, ParameterValue)>| one.snippet.with_defaults(row);
        let mut filled = rows.iter().map(filled);
        one.snippet.language == SnippetLanguage::Sh
            && filled.any(|snippet| snippet::sh::needs_shell(&snippet.runner))
    };
    if named.len() * rows.len() > 1 && named.iter().any(needs_one) {
        named
            .iter_mut()
            .for_each(|named| named.snippet.in_shell = true);
    }
}

/// Joins a text of several lines to a name of one line, as sentences and tables need it.
pub fn on_one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// Returns the other nodes that the snippets need.
fn remote_nodes(
    language: SnippetLanguage,
    args: &SnippetArgs,
) -> anyhow::Result<Option<ErlangNodes>> {
    let nodes = match (args.nodes, &args.node) {
        (Some(count), _) => Some(ErlangNodes::Local(count)),
        (_, Some(name)) => Some(ErlangNodes::Remote {
            name: name.clone(),
            cookie: args.node_cookie.clone(),
        }),
        _ => None,
    };
    let is_distributed = matches!(language, SnippetLanguage::Erlang | SnippetLanguage::Elixir);
    ensure!(
        nodes.is_none() || is_distributed,
        "--nodes and --node need Erlang or Elixir, not {language}"
    );
    Ok(nodes)
}

/// Returns a hook for each snippet: one for all, or one for each.
fn hook_per_snippet(
    option: &str,
    given: &[String],
    count: usize,
) -> anyhow::Result<Vec<Option<String>>> {
    let texts = given.iter().map(|text| text_of(text).map(Some));
    let texts: Vec<Option<String>> = texts
        .collect::<anyhow::Result<_>>()
        .with_context(|| format!("in {option}"))?;
    Ok(match &texts[..] {
        [] => vec![None; count],
        [all] => vec![all.clone(); count],
        each if each.len() == count => texts,
        more => bail!(
            "{option} is given {} for {count} snippet(s)\nhint: give it once for all snippets, or once for each, in \
             their order; an empty one is none",
            count_in_words(more.len())
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

fn resolve_folder(path: &Path) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    let found =
        std::fs::canonicalize(path).with_context(|| format!("in --path: cannot find '{shown}'"))?;
    ensure!(
        found.is_dir() || found.is_file(),
        "in --path: '{shown}' is neither a folder nor a file"
    );
    Ok(found)
}

/// Appends a number to the name if another snippet has it.
fn unique_name(name: &str, others: &[NamedSnippet]) -> String {
    let taken = |name: &str| others.iter().any(|other| other.name == name);
    if !taken(name) {
        return name.to_owned();
    }
    let numbered = (2..).map(|number| format!("{name} #{number}"));
    let mut free = numbered.skip_while(|name| taken(name));
    // Unreachable default: the range is infinite.
    free.next().unwrap_or_default()
}

fn count_in_words(count: usize) -> String {
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
        NamedSnippet {
            name: runner.to_owned(),
            snippet: Snippet::new(SnippetLanguage::Sh, runner),
        }
    }

    #[test]
    fn commands_that_are_compared_are_all_executed_by_a_shell_or_none_is() {
        let in_shell = |runners: &[&str]| -> Vec<bool> {
            let mut others: Vec<NamedSnippet> =
                runners.iter().map(|runner| named_snippet(runner)).collect();
            compare_in_shell(&mut others, &[Vec::new()]);
            others.iter().map(|one| one.snippet.in_shell).collect()
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
