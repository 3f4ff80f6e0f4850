//! Code in a language that is compiled: a program of its own, which speaks the protocol.
//!
//! The program consists of the code, in a loop that is generated around it, and of a harness that is compiled once
//! for each compiler and set of flags. Each language has a file that generates, out of a template and lists in `languages/`;
//! `compile.rs` calls compilers. Start at [`build`].

use crate::compile::{self, Failed, Recipe, unpacked, words_of};
use crate::{cache_folder, sources};
use parts::{Part, Parts};
use speedwell_model::{Cause, Code, Language, Variant};
use speedwell_process::Spec;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

mod c;
mod cpp;
mod go;
mod java;
mod parts;
mod rust;
mod text;

/// What code in C and C++ is compiled with unless its variant says otherwise; later flags win. A function that
/// nobody has declared, and a `return` that would leave the loop, are errors in every version of the language.
const USUAL_FLAGS: [&str; 2] = ["-O2", "-pthread"];
const FLAGS_OF_C: [&str; 2] = [
    "-Werror=implicit-function-declaration",
    "-Werror=return-type",
];

/// The compiler that is used when a variant names no program.
pub fn usual_compiler(language: Language) -> PathBuf {
    let of_variable = |name| words_of(name, &[]).into_iter().next();
    let chosen = match language {
        Language::C => of_variable("CC").unwrap_or_else(|| first_in_path(&["cc", "gcc", "clang"])),
        Language::Cpp => {
            of_variable("CXX").unwrap_or_else(|| first_in_path(&["c++", "g++", "clang++"]))
        }
        Language::Rust => "rustc".to_owned(),
        Language::Java => "java".to_owned(),
        other => other.word().to_owned(),
    };
    PathBuf::from(chosen)
}

fn first_in_path(names: &[&str]) -> String {
    let found = names
        .iter()
        .find(|name| compile::which(Path::new(name)).is_absolute());
    (*found.unwrap_or(&names[0])).to_owned()
}

/// Compiles `code`, and says how its program is started.
///
/// # Errors
/// The compiler is missing or refuses the code.
pub(super) fn build(code: &Code, compiler: &Path, variant: &Variant) -> Result<Spec, Failed> {
    let built = match code.language {
        Language::Rust => rust::build(code, compiler, variant).map(Spec::new),
        Language::Go => go::build(code, compiler, variant).map(Spec::new),
        Language::Java => java::build(code, compiler, variant),
        _ => of_c(code, compiler, variant).map(Spec::new),
    };
    built.map_err(|failed| with_hint(failed, code.language))
}

/// The program of code in C or C++.
fn of_c(code: &Code, compiler: &Path, variant: &Variant) -> Result<PathBuf, Failed> {
    let is_c = code.language == Language::C;
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
    let harness = Recipe {
        compiler: compiler.to_owned(),
        flags: [&flags[..], &["-c".to_owned()]].concat(),
        file: folder.join(if is_c { "main.c" } else { "main.cpp" }),
        directory: folder.clone(),
        header: folder,
        environment: variant.environment.clone(),
    };
    let object = compile::build(&harness)?.to_string_lossy().into_owned();
    if is_c {
        flags.extend(FLAGS_OF_C.map(str::to_owned));
    }
    let paths = code.paths.iter().map(|path| path.to_string_lossy());
    flags.extend(paths.flat_map(|path| [format!("-I{path}"), format!("-L{path}")]));
    flags.extend([object, "-lm".to_owned()]);
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
    let parts = Parts::of(code);
    if is_c {
        return parts.compiled(
            |parts| find(c::source(parts)),
            |parts| compiled(c::source(parts)),
        );
    }
    parts.compiled(
        |parts| find(cpp::source(parts, false)).or_else(|| find(cpp::source(parts, true))),
        |parts| {
            compiled(cpp::source(parts, false)).or_else(|failed| match failed.cause {
                Cause::Invalid { .. } => compiled(cpp::source(parts, true)),
                _ => Err(failed),
            })
        },
    )
}

/// Where a file with that content lies in the cache folder.
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

/// What helps when a compiler cannot be started.
fn with_hint(mut failed: Failed, language: Language) -> Failed {
    let hint = match language {
        Language::C => {
            "install gcc or clang, or name a compiler with --variant 'NAME=PROGRAM' or CC"
        }
        Language::Cpp => {
            "install g++ or clang++, or name a compiler with --variant 'NAME=PROGRAM' or CXX"
        }
        Language::Rust => {
            "install Rust (https://rustup.rs), or name rustc with --variant 'NAME=PROGRAM'"
        }
        Language::Go => "install Go (https://go.dev/dl), or name it with --variant 'NAME=PROGRAM'",
        _ => "install a JDK: 'java' is needed, and 'javac' beside it",
    };
    if let Cause::Start { reason } = &mut failed.cause
        && reason.starts_with("the compiler")
    {
        *reason = format!("{reason}\nhint: {hint}");
    }
    failed
}

/// How a language is told which line of which file follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// `#line 3 "runner"`
    Hash,
    /// `//line runner:3`
    Slashes,
    /// It cannot be told: [`SourceFile::places`] says where the texts are.
    None,
}

/// Where some lines of the user's text are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The text: `runner`, `init`, `init-worker` or `done`.
    pub name: &'static str,
    /// Its first line in the user's text.
    pub line: usize,
    /// Its first and last line in the generated one.
    pub first: usize,
    pub last: usize,
}

/// A generated source file, in which the user's text has the lines that he counts.
#[derive(Debug, Clone)]
pub struct SourceFile {
    pub text: String,
    pub places: Vec<Place>,
    name: &'static str,
    marks: Marks,
}

impl SourceFile {
    /// An empty file of that name.
    pub fn new(name: &'static str, marks: Marks) -> SourceFile {
        SourceFile {
            text: String::new(),
            places: Vec::new(),
            name,
            marks,
        }
    }

    /// Fills a template: its lines stand as they are, but for directives, which begin with `@`. `@top` is what belongs to the top of
    /// a file; any other, `@NAME PART WORDS`, is for `write`, which gets the text that is named.
    pub fn fill(
        &mut self,
        template: &str,
        parts: &Parts,
        write: impl Fn(&mut SourceFile, &str, &Part, &str),
    ) {
        for line in template.lines() {
            let Some(directive) = line.strip_prefix('@') else {
                self.own(line);
                continue;
            };
            if directive == "top" {
                for part in parts.all() {
                    for (line, number) in &part.text.top {
                        self.user(part.name, line, *number, "");
                    }
                }
                continue;
            }
            let mut words = directive.splitn(3, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (name, part) = (word(), parts.named(word()));
            write(self, name, part, word());
        }
    }

    /// Adds our own lines.
    pub fn own(&mut self, lines: &str) {
        self.text.push_str(lines);
        if !lines.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Adds lines of the text `name`, of which the first one is its line `line`; `end` follows on a line of its
    /// own, because the text may end with a comment.
    pub fn user(&mut self, name: &'static str, text: &str, line: usize, end: &str) {
        self.mark(name, line);
        let first = self.next_line();
        self.own(text);
        let last = self.next_line() - 1;
        self.places.push(Place {
            name,
            line,
            first,
            last,
        });
        // What the compiler misses at the end of the text it misses at the first of our words behind it.
        self.mark(name, line + last - first);
        let (at_the_end, after) = end.split_once('\n').unwrap_or((end, ""));
        self.own(at_the_end);
        self.mark(
            self.name,
            self.next_line() + usize::from(self.marks != Marks::None),
        );
        if !after.is_empty() {
            self.own(after);
        }
    }

    fn next_line(&self) -> usize {
        self.text.matches('\n').count() + 1
    }

    fn mark(&mut self, name: &str, line: usize) {
        match self.marks {
            Marks::Hash => self.own(&format!("#line {line} \"{name}\"")),
            Marks::Slashes => self.own(&format!("//line {name}:{line}")),
            Marks::None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_lines_are_counted_as_he_counts_them() {
        let mut file = SourceFile::new("code.c", Marks::Hash);
        file.own("int f() {");
        file.user("runner", "a\n+ b", 3, "}");
        assert_eq!(
            file.text,
            "int f() {\n#line 3 \"runner\"\na\n+ b\n#line 4 \"runner\"\n}\n#line 8 \"code.c\"\n"
        );
        let mut file = SourceFile::new("Main.java", Marks::None);
        file.own("class Main {");
        file.user("init", "a\nb", 2, "}");
        let place = &file.places[0];
        assert_eq!((place.line, place.first, place.last), (2, 2, 3));
    }
}
