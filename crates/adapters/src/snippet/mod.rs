//! Measures snippets with the harness of their language, whose workers execute the code.
//!
//! The commands are the same for every language (`live_harness.rs`), and so is the meaning of the
//! answers (`timing.rs`). Languages differ in how their process is started; [`build_process`]
//! decides how. A snippet in a compiled language first becomes a program: each language has a file
//! here (C and C++ share one), which generates the source from the templates and lists in
//! `languages/`, and `compile.rs` runs the compilers. Start at [`SnippetHarness`].

use crate::cache::{cache_folder, find_in_path, locate_program, sorted_entries};
use crate::compile::{GeneratedBuild, adjacent_program, resolve_links, variable_words};
use crate::layout::{LinkRecord, LinkedProgram, RunLayout};
use crate::node::JsRuntime;
use crate::own_program;
use crate::sources::{self, HarnessSources};
use parts::SnippetBuild;
use speedwell_machine::process::{ChannelKind, ProcessSpec};
use speedwell_model::{FailureCause, Snippet, SnippetLanguage, Variant};
use std::fs;
use std::path::{Path, PathBuf};

mod c;
mod go;
mod java;
mod live_harness;
mod parts;
mod runs;
mod rust;
pub mod sh;
mod text;
mod timing;

pub use crate::failure::HarnessFailure;
pub use live_harness::{CommandAnswer, LiveHarness};
pub use runs::{
    SharedProcesses, SnippetHarness, expected_duration, folded_warning, shared_process_failure,
    to_observation,
};

/// Default program for snippets of a language: the interpreter, the compiler, or for Java `java`.
pub fn default_program(language: SnippetLanguage) -> PathBuf {
    let from_variable = |name| variable_words(name, &[]).into_iter().next();
    let program = match language {
        SnippetLanguage::C => {
            from_variable("CC").unwrap_or_else(|| first_in_path(&["cc", "gcc", "clang"]))
        }
        SnippetLanguage::Cpp => {
            from_variable("CXX").unwrap_or_else(|| first_in_path(&["c++", "g++", "clang++"]))
        }
        SnippetLanguage::Erlang => "erl".to_owned(),
        SnippetLanguage::Python => "python3".to_owned(),
        SnippetLanguage::Rust => "rustc".to_owned(),
        other => other.name().to_owned(),
    };
    PathBuf::from(program)
}

/// Whether other code sees names of this file: a Python file, a JavaScript file that exports
/// something, or an Erlang module.
pub fn is_module(language: SnippetLanguage, file: &Path, text: &str) -> bool {
    let exports = |line: &str| {
        let has_statement = ["export ", "export{", "exports."].iter().any(|s| line.starts_with(s));
        has_statement || line.contains("module.exports")
    };
    match language {
        SnippetLanguage::Python => file.extension().is_some_and(|ending| ending == "py"),
        SnippetLanguage::Node => text.lines().any(exports),
        SnippetLanguage::Erlang => {
            file.extension().is_some_and(|ending| ending == "erl")
                && text.lines().any(|line| line.starts_with("-module("))
        }
        _ => false,
    }
}

/// Maximum size of a file that may be a module, in bytes.
const MAX_MODULE_BYTES: u64 = 1 << 20;

/// Returns the name that code uses although nothing defines it, if the run of a snippet failed for
/// that reason.
pub fn undefined_name(cause: &FailureCause) -> Option<&str> {
    let FailureCause::Invalid { reason } = cause else { return None };
    let first_line = reason.lines().next()?;
    // Python may add what the name is similar to.
    let subject = first_line.split_once(" is not defined")?.0.rsplit(' ').next()?;
    let name = subject.trim_matches('\'');
    is_identifier(name).then_some(name)
}

/// Returns the first file in `folder`, by name, that is a module for `--init @FILE` and mentions
/// `name`.
pub fn find_module(language: SnippetLanguage, name: &str, folder: &Path) -> Option<String> {
    let extensions: &[&str] = match language {
        SnippetLanguage::Python => &["py"],
        SnippetLanguage::Node => &["js", "cjs", "mjs", "ts"],
        _ => return None,
    };
    let is_source = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
            && fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= MAX_MODULE_BYTES)
    };
    let has_name = |path: &PathBuf| {
        is_source(path)
            && fs::read_to_string(path)
                .is_ok_and(|text| is_module(language, path, &text) && has_word(&text, name))
    };
    let file = sorted_entries(folder).into_iter().find(has_name)?;
    Some(file.file_name()?.to_string_lossy().into_owned())
}

/// Returns a call for a hint on how to measure a function of the module with this text: an example
/// call, or a placeholder.
pub fn suggest_call(language: SnippetLanguage, text: &str) -> String {
    example_call(language, text, None).unwrap_or_else(|| "FUNCTION()".to_owned())
}

/// Returns a call of a function that other code sees in this file, with the names of its parameters:
/// `regex(text)`. Without a `name`, it is the first such function. Returns `None` if there is none,
/// or its parameters have no simple names.
pub fn example_call(language: SnippetLanguage, text: &str, name: Option<&str>) -> Option<String> {
    if !matches!(language, SnippetLanguage::Node | SnippetLanguage::Python) {
        return None;
    }
    let is_seen = |function: &str| match language {
        SnippetLanguage::Python => !function.starts_with('_'),
        _ => text.lines().any(|line| line.contains("export") && has_word(line, function)),
    };
    let mut functions = text.lines().filter_map(|line| function_header(language, line));
    let is_wanted =
        |function: &str| name.map_or_else(|| is_seen(function), |name| name == function);
    let (function, parameters) = functions.find(|(function, _)| is_wanted(function))?;
    // A parameter with a default value can be left out.
    let needed = parameters.split(',').map(str::trim).filter(|parameter| {
        !parameter.is_empty() && !parameter.contains('=') && !parameter.starts_with(['*', '/', '.'])
    });
    let names: Vec<&str> =
        needed.map(|parameter| parameter.split(':').next().unwrap_or_default().trim()).collect();
    names
        .iter()
        .all(|name| is_identifier(name))
        .then(|| format!("{function}({})", names.join(", ")))
}

/// Returns the name and the parameters of the function that the line begins, if it does.
fn function_header(language: SnippetLanguage, line: &str) -> Option<(&str, &str)> {
    let (name, parameters) = match language {
        SnippetLanguage::Python => declared_function(line.strip_prefix("def ")?)?,
        _ => javascript_function(line)?,
    };
    Some((name.trim(), parameters)).filter(|(name, _)| is_identifier(name))
}

/// Splits `NAME(PARAMETERS)` at the start of the text.
fn declared_function(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('(')?;
    Some((name, rest.split_once(')')?.0))
}

/// Returns the name and the parameters of a declared function, or of one that is assigned to a name.
fn javascript_function(line: &str) -> Option<(&str, &str)> {
    let mut header = line;
    let words = ["export ", "default ", "module.", "exports.", "async ", "const ", "let ", "var "];
    while let Some(rest) = words.iter().find_map(|word| header.strip_prefix(word)) {
        header = rest;
    }
    if let Some(declaration) = header.strip_prefix("function ") {
        return declared_function(declaration);
    }
    let (name, assigned) = header.split_once('=')?;
    let expression = assigned.trim_start();
    let value = strip_keyword(expression, "async").map_or(expression, str::trim_start);
    // TypeScript writes the parameters of a generic type before the list.
    let after_generics = || Some(value.strip_prefix('<')?.split_once(">(")?.1);
    let list = value.strip_prefix('(').or_else(after_generics);
    let parameters = match (strip_keyword(value, "function"), list) {
        (Some(declaration), _) => declared_function(declaration)?.1,
        (None, Some(list)) => {
            let (parameters, rest) = list.split_once(')')?;
            // TypeScript writes the type of the result before the arrow.
            let is_arrow = rest.trim_start().starts_with(['=', ':']) && rest.contains("=>");
            Some(parameters).filter(|list| is_arrow && !list.contains('('))?
        }
        (None, None) => {
            let (parameter, _) = value.split_once("=>")?;
            Some(parameter).filter(|parameter| is_identifier(parameter.trim()))?
        }
    };
    Some((name, parameters))
}

fn strip_keyword<'t>(text: &'t str, keyword: &str) -> Option<&'t str> {
    text.strip_prefix(keyword).filter(|rest| !rest.starts_with(is_identifier_part))
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !is_identifier_part(c)).any(|part| part == word)
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| is_identifier_part(c) && !c.is_numeric())
        && text.chars().all(is_identifier_part)
}

fn is_identifier_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

fn first_in_path(names: &[&str]) -> String {
    let found = names.iter().find(|name| find_in_path(name).is_some());
    (*found.unwrap_or(&names[0])).to_owned()
}

/// Builds the process that performs `snippet` under `variant`. The process speaks the protocol. It
/// contains the code if the language is compiled; otherwise it loads the code on command.
///
/// # Errors
/// Fails if our files cannot be unpacked, if a compiler, Erlang or Elixir is missing, or if the
/// compiler rejects the code.
pub fn build_process(
    snippet: &Snippet,
    program: &Path,
    variant: &Variant,
) -> Result<ProcessSpec, HarnessFailure> {
    build_with_layout(snippet, program, variant, RunLayout::default()).map(|(spec, _)| spec)
}

/// Does the same as [`build_process`] with a memory layout. Also returns how the program was
/// linked.
fn build_with_layout(
    snippet: &Snippet,
    program: &Path,
    variant: &Variant,
    layout: RunLayout,
) -> Result<(ProcessSpec, Option<LinkRecord>), HarnessFailure> {
    let (mut spec, linking) = match snippet.language {
        SnippetLanguage::Node => {
            let flags = JsRuntime::from_program(program).arguments(&variant.arguments);
            (script_process(&sources::NODE, "harness.cjs", program, &flags)?, None)
        }
        SnippetLanguage::Python => {
            (script_process(&sources::PYTHON, "harness.py", program, &variant.arguments)?, None)
        }
        SnippetLanguage::Sh => {
            let shell = program.to_string_lossy();
            let words = [sh::HARNESS_COMMAND, &shell];
            (ProcessSpec::new(own_program()).args(words), None)
        }
        SnippetLanguage::Erlang | SnippetLanguage::Elixir => {
            (beam_process(snippet.language, program, variant)?, None)
        }
        _ => build_snippet(SnippetBuild { snippet, compiler: program, variant, layout })?,
    };
    spec.environment.extend(variant.environment.iter().cloned());
    spec.channel = ChannelKind::Harness;
    Ok((layout.apply_to(&spec), linking))
}

/// Builds the process that executes one of our scripts in an interpreter.
fn script_process(
    harness: &HarnessSources,
    file: &str,
    program: &Path,
    flags: &[String],
) -> Result<ProcessSpec, HarnessFailure> {
    let script = harness.folder()?.join(file);
    Ok(ProcessSpec::new(program).args(flags).args([script.to_string_lossy()]))
}

/// Emulator options: no shell, no user files, and no distribution daemon, which is needed only to
/// connect several nodes.
const EMULATOR_OPTIONS: [&str; 8] = [
    "-noshell",
    "-noinput",
    "-boot",
    "no_dot_erlang",
    "-start_epmd",
    "false",
    "-epmd_module",
    "speedwell_epmd",
];

/// Builds the process for Erlang or Elixir. `program` is `erl` or `elixir`; the library of Elixir
/// is expected next to its program.
///
/// # Errors
/// Fails if Erlang is missing, or if Elixir is required and missing.
fn beam_process(
    language: SnippetLanguage,
    program: &Path,
    variant: &Variant,
) -> Result<ProcessSpec, HarnessFailure> {
    let is_elixir = language == SnippetLanguage::Elixir;
    let emulator = if is_elixir { PathBuf::from("erl") } else { program.to_owned() };
    let mut folders = vec![compile_erlang_harness(&emulator)?];
    if is_elixir {
        folders.push(elixir_library(program)?);
    }
    let mut spec = ProcessSpec::new(&emulator).args(&variant.arguments).args(EMULATOR_OPTIONS);
    // Without this option, the emulator would write a cookie into the user's home folder.
    let cookie = uuid::Uuid::now_v7().simple().to_string();
    spec = spec.args(["-setcookie", &cookie]);
    for folder in &folders {
        spec = spec.args(["-pa", &folder.to_string_lossy()]);
    }
    let cache = cache_folder().join("code");
    Ok(spec.args(["-s", "speedwell_harness"]).env("SPEEDWELL_CACHE", cache.to_string_lossy()))
}

/// Returns the folder with the harness, compiled by this emulator's compiler.
fn compile_erlang_harness(emulator: &Path) -> Result<PathBuf, HarnessFailure> {
    if !locate_program(emulator).is_absolute() {
        return Err(missing_language(emulator, "Erlang/OTP", "erlang"));
    }
    let compiler = adjacent_program(emulator, "erlc");
    let files = sorted_entries(&sources::ERLANG.folder()?.join("src"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "erl"))
        .map(|path| path.to_string_lossy().into_owned());
    let arguments = ["+deterministic".to_owned(), "-o".to_owned(), ".".to_owned()];
    // The path, size and modification time of the compiler identify the Erlang release.
    let data = fs::metadata(&compiler).ok();
    let identity = data.map(|data| format!("{} {:?}", data.len(), data.modified().ok()));
    GeneratedBuild {
        stem: "erlang-harness",
        compiler,
        arguments: arguments.into_iter().chain(files).collect(),
        identity: identity.unwrap_or_default(),
        ..GeneratedBuild::default()
    }
    .compile()
}

/// Folder of Elixir's modules.
fn elixir_library(program: &Path) -> Result<PathBuf, HarnessFailure> {
    let location = resolve_links(program);
    let folder = location.parent().and_then(Path::parent).map(|root| root.join("lib/elixir/ebin"));
    folder
        .filter(|folder| folder.is_dir())
        .ok_or_else(|| missing_language(program, "Elixir", "elixir"))
}

fn missing_language(program: &Path, name: &str, package: &str) -> HarnessFailure {
    let reason = format!(
        "'{}': {name} not found; most systems package it as '{package}'",
        program.display()
    );
    HarnessFailure::start_failed(reason)
}

/// Compiles a snippet in a compiled language to a program that speaks the protocol: the user's code
/// in a generated loop, and a harness that is compiled once for each compiler and set of flags.
/// Returns the command that starts the program.
///
/// # Errors
/// Fails if the compiler is missing or rejects the code.
fn build_snippet(build: SnippetBuild) -> Result<(ProcessSpec, Option<LinkRecord>), HarnessFailure> {
    let program = |(program, linking): LinkedProgram| (ProcessSpec::new(program), linking);
    let built = match build.snippet.language {
        SnippetLanguage::Rust => rust::build_program(build).map(program),
        SnippetLanguage::Go => go::build_program(build).map(program),
        SnippetLanguage::Java => java::build_program(build).map(|spec| (spec, None)),
        _ => c::build_program(build).map(program),
    };
    built.map_err(|failure| with_hint(failure, build.snippet.language))
}

/// Adds a hint if the compiler cannot be started.
fn with_hint(mut failure: HarnessFailure, language: SnippetLanguage) -> HarnessFailure {
    let hint = match language {
        SnippetLanguage::C => {
            "install gcc or clang, or name a compiler with --variant 'NAME=PROGRAM' or the variable CC"
        }
        SnippetLanguage::Cpp => {
            "install g++ or clang++, or name a compiler with --variant 'NAME=PROGRAM' or the variable CXX"
        }
        SnippetLanguage::Rust => {
            "install Rust (https://rustup.rs), or name rustc with --variant 'NAME=PROGRAM'"
        }
        SnippetLanguage::Go => {
            "install Go (https://go.dev/dl), or name it with --variant 'NAME=PROGRAM'"
        }
        _ => "install a JDK, which has both 'java' and 'javac'",
    };
    if let FailureCause::Start { reason } = &mut failure.cause
        && reason.starts_with("the compiler")
    {
        *reason = format!("{reason}\nhint: {hint}");
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undefined_name_is_found_in_the_error() {
        let name = |reason: &str| {
            let cause = FailureCause::Invalid { reason: reason.to_owned() };
            undefined_name(&cause).map(str::to_owned)
        };
        assert_eq!(name("failed: line 1: regex is not defined").as_deref(), Some("regex"));
        assert_eq!(
            name("failed: name 'f_1' is not defined. Did you mean: 'f'?").as_deref(),
            Some("f_1")
        );
        assert_eq!(name("failed: line 1: f() is not defined"), None);
        assert_eq!(name("failed: line 1: no room"), None);
    }

    #[test]
    fn a_call_has_the_parameters_that_the_function_needs() {
        let (python, node) = (SnippetLanguage::Python, SnippetLanguage::Node);
        let arrows = "const own = 1;\nexports.regex = (text, n = 1) => text;\n\
                      exports.loop = async text => text;\n";
        let listed = "function hidden() {}\nfunction f({ a }) {}\nfunction g(a, b) {}\n\
                      module.exports = { f, g };\n";
        for (language, text, name, expected) in [
            (python, "def _f(): pass\ndef g(a: int, b=2, *c):\n", None, Some("g(a)")),
            (python, "class A:\n    def f(self): pass\n", None, None),
            (python, "def f():\n", Some("g"), None),
            (node, arrows, None, Some("regex(text)")),
            (node, arrows, Some("loop"), Some("loop(text)")),
            (node, listed, None, None),
            (node, listed, Some("g"), Some("g(a, b)")),
            (node, "export default function run() {}\n", None, Some("run()")),
            (node, "exports.x = items.map(v => v);\nexports.y = v => v;\n", None, Some("y(v)")),
            (node, "exports.x = ((a) => a)(1);\nexports.y = function () {};\n", None, Some("y()")),
            (node, "export const f = async (a: string): any => a;\n", None, Some("f(a)")),
            (node, "export const f = <T extends A<B>>(a: T) => a;\n", None, Some("f(a)")),
        ] {
            assert_eq!(example_call(language, text, name).as_deref(), expected, "{text}");
        }
    }
}
