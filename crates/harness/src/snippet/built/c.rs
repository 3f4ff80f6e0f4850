//! Compiles C and C++ snippets and generates the source around them. C code is in one function,
//! because gcc and clang can determine the type of statements only inside functions.
//!
//! In `languages/c.txt`, each text occurs several times: to determine its type, and to execute it
//! with or without a value, as a GNU C statement expression, whose value is that of its last
//! statement. `setjmp` is never in a function that contains the code, because a function that may
//! return twice keeps little in registers. Start at [`build`].

use super::parts::{Part, Parts};
use super::source_file::{Marks, SourceFile};
use crate::compile::{self, Failed, Recipe, unpacked, words_of};
use crate::layout::{Linking, Objects, RunLayout};
use crate::{cache_folder, sources};
use speedwell_model::{Cause, Language, Snippet, Variant};
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// Default flags for C and C++; flags of the variant follow and win. Undeclared functions, and a
/// `return` that would leave the loop, are errors in every version of C.
const USUAL_FLAGS: [&str; 2] = ["-O2", "-pthread"];
const FLAGS_OF_C: [&str; 2] = [
    "-Werror=implicit-function-declaration",
    "-Werror=return-type",
];

/// Every header that code may use without naming it, with the words that require it; headers
/// without words are always included.
const HEADERS: &str = include_str!("languages/cpp-headers.txt");

/// Builds the program of a C or C++ snippet.
pub fn build(
    snippet: &Snippet,
    compiler: &Path,
    variant: &Variant,
    layout: RunLayout,
) -> Result<(PathBuf, Option<Linking>), Failed> {
    let is_c = snippet.language == Language::C;
    let folder = unpacked(&sources::C)?;
    let mut flags: Vec<String> = USUAL_FLAGS.map(str::to_owned).to_vec();
    if !is_c {
        flags.extend(["-std=c++17", "-w"].map(str::to_owned));
        flags.push(format!("-I{}", unpacked(&sources::CPP)?.display()));
    }
    flags.extend(words_of(
        if is_c { "CFLAGS" } else { "CXXFLAGS" },
        &variant.environment,
    ));
    flags.extend(variant.arguments.iter().cloned());
    flags.extend(layout.flags());
    let harness = Recipe {
        compiler: compiler.to_owned(),
        flags: [&flags[..], &["-c".to_owned()]].concat(),
        file: folder.join(if is_c { "main.c" } else { "main.cpp" }),
        directory: folder.clone(),
        header: folder,
        environment: variant.environment.clone(),
    };
    let main = compile::build(&harness)?;
    if is_c {
        flags.extend(FLAGS_OF_C.map(str::to_owned));
    }
    let paths = snippet.paths.iter().map(|path| path.to_string_lossy());
    flags.extend(paths.flat_map(|path| [format!("-I{path}"), format!("-L{path}")]));
    let libraries = [&flags[..], &["-lm".to_owned()]].concat();
    flags.extend(match layout.build {
        Some(_) => vec!["-c".to_owned()],
        None => vec![main.to_string_lossy().into_owned(), "-lm".to_owned()],
    });
    let recipe = |text: &str| Recipe {
        flags: flags.clone(),
        file: place_of(text, if is_c { "c" } else { "cpp" }),
        ..harness.clone()
    };
    let find = |text: String| compile::find(&recipe(&text));
    let compiled = |text: String| {
        let recipe = recipe(&text);
        write(&text, &recipe.file)?;
        compile::build(&recipe)
    };
    let built = read_as(Parts::of_snippet(snippet), is_c, find, compiled)?;
    let objects = Objects {
        compiler,
        files: vec![built.clone(), main],
        flags: &libraries,
        directory: &harness.directory,
        environment: &variant.environment,
    };
    objects.program_of(layout.build, built)
}

/// Compiles the text in the first interpretation that the compiler accepts.
fn read_as(
    parts: Parts,
    is_c: bool,
    find: impl Fn(String) -> Option<PathBuf>,
    compiled: impl Fn(String) -> Result<PathBuf, Failed>,
) -> Result<PathBuf, Failed> {
    if is_c {
        return parts.compiled(|parts| find(source(parts)), |parts| compiled(source(parts)));
    }
    parts.compiled(
        |parts| find(source_of_cpp(parts, false)).or_else(|| find(source_of_cpp(parts, true))),
        |parts| {
            compiled(source_of_cpp(parts, false)).or_else(|failed| match failed.cause {
                Cause::Invalid { .. } => compiled(source_of_cpp(parts, true)),
                _ => Err(failed),
            })
        },
    )
}

/// Path in the cache folder for a file with that content.
fn place_of(text: &str, ending: &str) -> PathBuf {
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    let folder = cache_folder().join("code");
    folder.join(format!("code-{:016x}.{ending}", hash.finish()))
}

/// Writes a file in the cache folder.
fn write(text: &str, file: &Path) -> Result<(), Failed> {
    let ending = file.extension().unwrap_or_default().to_string_lossy();
    let draft = file.with_extension(format!("{}-{ending}", std::process::id()));
    let write = || {
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
        fs::write(&draft, text)?;
        fs::rename(&draft, file)
    };
    write().map_err(|error| {
        let reason = format!("cannot write '{}': {error}", file.display());
        Failed::start(reason)
    })
}

/// Generates the C source.
fn source(parts: &Parts) -> String {
    let mut file = SourceFile::new("code.c", Marks::Hash);
    let template = include_str!("languages/c.txt");
    file.fill(
        template,
        parts,
        |file, directive, part, words| match directive {
            "changed" if part.has_text() => file.own(words),
            "changed" => {}
            // Drops the last `return`, so that the value is that of the last expression.
            _ => {
                let block = format!("{}{}", part.text.before(), part.text.value().0);
                file.user(part.name, &block, 1, words);
            }
        },
    );
    file.text
}

/// Generates the C++ source: the code in four functions whose types the compiler deduces
/// (`code.hpp`). Headers take far longer to compile than most code, so only those that seem
/// necessary are included first, and `all` only if that fails.
fn source_of_cpp(parts: &Parts, all: bool) -> String {
    let mut file = SourceFile::new("code.cpp", Marks::Hash);
    let template = include_str!("languages/cpp.txt");
    file.fill(
        template,
        parts,
        |file, directive, part, words| match directive {
            "headers" => {
                for header in HEADERS.lines().filter_map(|line| needed(line, parts, all)) {
                    file.own(&format!("#include <{header}>"));
                }
            }
            // An expression may be a reference to something expensive to copy.
            "result" if part.text.before().trim().is_empty() && part.has_value() => {
                file.own(&words.replace("RESULT", "decltype(auto)"));
            }
            "result" => file.own(&words.replace("RESULT", "auto")),
            _ => hook(file, part),
        },
    );
    file.text
}

/// Returns the header of a line such as `vector: vector`, if the code seems to need it.
fn needed<'a>(line: &'a str, parts: &Parts, all: bool) -> Option<&'a str> {
    let (header, words) = line.split_once(':')?;
    let is_named = |word: &str| parts.in_order().iter().any(|part| part.text.names(word));
    let mut words = words.split_whitespace().peekable();
    (all || words.peek().is_none() || words.any(is_named)).then_some(header)
}

/// Writes a function body. Text with `return` anywhere is used unchanged.
fn hook(file: &mut SourceFile, part: &Part) {
    let text = &part.text;
    let is_single = text.before().trim().is_empty();
    if !part.has_value() || (text.returns() && !is_single) {
        file.user(part.name, &text.body, 1, ";\n}");
        return;
    }
    let (value, line) = text.value();
    if !is_single {
        file.user(part.name, text.before(), 1, "");
    }
    file.own("return (");
    file.user(part.name, value, line, ");\n}");
}
