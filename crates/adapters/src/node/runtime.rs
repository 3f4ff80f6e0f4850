//! Recognizes the JavaScript runtimes Node.js, Bun and Deno, and builds their arguments.
//!
//! The runtime determines how a program is started. It is recognized by the program's name, because
//! programs are never executed just to identify them. The protocol with the npm package `speedwell`
//! is the same in all runtimes.

use crate::job::BenchmarkJob;
use std::path::Path;

/// A JavaScript runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsRuntime {
    /// Node.js. Programs with an unknown name count as Node.js, because builds of Node.js have
    /// arbitrary names.
    Node,
    Bun,
    Deno,
}

impl JsRuntime {
    /// Recognizes `bun`, `bun-1.2`, `deno`, `deno2`; everything else counts as Node.js.
    pub(crate) fn from_program(program: &Path) -> JsRuntime {
        let name = program.file_stem().unwrap_or_default().to_string_lossy();
        let has_name = |expected: &str| {
            name.strip_prefix(expected)
                .is_some_and(|suffix| !suffix.starts_with(|next: char| next.is_ascii_alphabetic()))
        };
        match () {
            () if has_name("bun") => JsRuntime::Bun,
            () if has_name("deno") => JsRuntime::Deno,
            () => JsRuntime::Node,
        }
    }

    /// Returns the arguments between the program and the script: the user's `arguments`, and what
    /// the runtime needs before them. Deno needs a subcommand and permissions if `arguments` does
    /// not begin with a subcommand.
    pub(crate) fn arguments(self, arguments: &[String]) -> Vec<String> {
        let is_bare = arguments.first().is_none_or(|first| first.starts_with('-'));
        let defaults: &[&str] = match self {
            JsRuntime::Deno if is_bare => &["run", "-A"],
            _ => &[],
        };
        defaults.iter().map(|word| (*word).to_owned()).chain(arguments.iter().cloned()).collect()
    }

    /// Returns arguments that preload the script at `path`, combined with the user's `arguments`.
    pub(crate) fn preload_arguments(self, path: String, arguments: Vec<String>) -> Vec<String> {
        let preload = |option: &str| [option.to_owned(), path];
        match self {
            JsRuntime::Deno => [arguments, preload("--require").to_vec()].concat(),
            _ => [preload("-r").to_vec(), arguments].concat(),
        }
    }

    /// If the job's file needs Node.js flags and this runtime is not Node.js, explains why the job
    /// cannot be performed.
    pub(crate) fn refuse_flags(self, job: &BenchmarkJob) -> Option<String> {
        let name = match self {
            JsRuntime::Node => return None,
            JsRuntime::Bun => "Bun",
            JsRuntime::Deno => "Deno",
        };
        (!job.flags.is_empty()).then(|| {
            let flags = job.flags.join(" ");
            format!("the file requires Node.js flags that {name} does not support: '{flags}'")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_known_by_its_name() {
        let of = |path: &str| JsRuntime::from_program(Path::new(path));
        for path in ["bun", "/opt/bun-1.4.5/bin/bun", "x/bun.exe", "bun-profile"] {
            assert_eq!(of(path), JsRuntime::Bun, "{path}");
        }
        for path in ["deno", "/usr/bin/deno2", "deno-2.9.6"] {
            assert_eq!(of(path), JsRuntime::Deno, "{path}");
        }
        for path in ["node", "bunny", "/deno/node", "denote", "bun/"] {
            let expected = if path == "bun/" { JsRuntime::Bun } else { JsRuntime::Node };
            assert_eq!(of(path), expected, "{path}");
        }
    }

    #[test]
    fn deno_gets_a_subcommand_unless_it_has_one() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let of = |runtime: JsRuntime, given: &[&str]| runtime.arguments(&words(given));
        assert_eq!(of(JsRuntime::Deno, &[]), words(&["run", "-A"]));
        let flag = "--v8-flags=--maglev";
        assert_eq!(of(JsRuntime::Deno, &[flag]), words(&["run", "-A", flag]));
        let own = ["run", "--allow-read"];
        assert_eq!(of(JsRuntime::Deno, &own), words(&own));
        assert_eq!(of(JsRuntime::Bun, &["--smol"]), words(&["--smol"]));
    }
}
