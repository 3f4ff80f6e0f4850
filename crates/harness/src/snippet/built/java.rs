//! Java: places the texts in nested lambda expressions, so that each sees the types of those before
//! it.

use super::parts::{Part, Parts};
use super::source_file::{Marks, Place, SourceFile};
use super::text::Kind;
use crate::compile::{Compilation, Failed, state_of, unpacked, version, which};
use crate::sources;
use speedwell_model::{Snippet, Variant};
use speedwell_process::Spec;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes the JIT compiler treat `Keep.keep` as a use without cost (JDK-8259316).
const KEEP: [&str; 3] = [
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:CompileCommand=quiet",
    "-XX:CompileCommand=blackhole,speedwell.Keep::keep",
];

/// Compiler options. Indy string concatenation would delay startup. The compiler runs for a second,
/// too short to profit from optimization or parallel garbage collection.
const COMPILER: [&str; 6] = [
    "-J-XX:TieredStopAtLevel=1",
    "-J-XX:+UseSerialGC",
    "-nowarn",
    "-XDstringConcat=inline",
    "-d",
    ".",
];

/// Compiles the code and returns the process that performs it. `program` is `java`; its compiler is
/// expected next to it.
pub fn build(snippet: &Snippet, program: &Path, variant: &Variant) -> Result<Spec, Failed> {
    let found = fs::canonicalize(which(program)).unwrap_or_else(|_| program.to_owned());
    let beside = found.with_file_name("javac");
    let compiler = if beside.is_file() {
        beside
    } else {
        PathBuf::from("javac")
    };
    let identity = identity(&compiler)? + &state_of(&snippet.paths);
    let harness = unpacked(&sources::JAVA)?.join("speedwell");
    let mut own: Vec<PathBuf> = fs::read_dir(&harness)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    own.sort();
    let compilation = |stem, files: Vec<(String, String)>, arguments: Vec<String>| Compilation {
        stem,
        files,
        compiler: compiler.clone(),
        arguments: [&COMPILER.map(str::to_owned)[..], &arguments[..]].concat(),
        environment: Vec::new(),
        identity: identity.clone(),
    };
    let own = own.iter().map(|file| file.to_string_lossy().into_owned());
    let classes = compilation("java-harness", Vec::new(), own.collect()).compile()?;
    let mut path = vec![classes];
    path.extend(snippet.paths.iter().cloned());
    let compilation_of = |file: &SourceFile| {
        let output = ["-cp".to_owned(), joined(&path), "Main.java".to_owned()];
        let file = ("Main.java".to_owned(), file.text.clone());
        compilation("java", vec![file], output.to_vec())
    };
    let classes_of_snippet = Parts::of_snippet(snippet).compiled(
        |parts| compilation_of(&source(parts)).find(),
        |parts| {
            let file = source(parts);
            let compiled = compilation_of(&file).compile();
            compiled.map_err(|failed| translated(failed, &file.places))
        },
    )?;
    path.insert(0, classes_of_snippet);
    let mut spec = Spec::new(program)
        .args(KEEP)
        .args(variant.arguments.iter().cloned());
    spec = spec.args(["-cp".to_owned(), joined(&path), "Main".to_owned()]);
    Ok(spec)
}

/// Identifies the JDK by its release file, because running the compiler takes as long as the rest
/// of a cached build.
fn identity(compiler: &Path) -> Result<String, Failed> {
    let compiler = fs::canonicalize(which(compiler)).unwrap_or_else(|_| compiler.to_owned());
    let home = compiler.parent().and_then(Path::parent);
    match home.map(|home| fs::read_to_string(home.join("release"))) {
        Some(Ok(version)) => Ok(version),
        _ => version(&compiler, &["-version"]),
    }
}

/// Builds a class path.
fn joined(folders: &[PathBuf]) -> String {
    let folders: Vec<_> = folders
        .iter()
        .map(|folder| folder.to_string_lossy())
        .collect();
    folders.join(":")
}

/// Maps lines of the generated file in compiler messages to the user's texts.
fn translated(mut failed: Failed, places: &[Place]) -> Failed {
    let lines = failed.output.lines().map(|line| {
        let counted = line
            .strip_prefix("Main.java:")
            .and_then(|rest| rest.split_once(':'));
        let found = counted.and_then(|(number, rest)| {
            let number: usize = number.parse().ok()?;
            let place = place_of(number, places)?;
            let line = number.clamp(place.first, place.last) - place.first + place.line;
            Some(format!("{}:{line}:{rest}", place.name))
        });
        found.unwrap_or_else(|| line.to_owned())
    });
    failed.output = lines.collect::<Vec<_>>().join("\n");
    failed
}

/// Finds the text to which a line of the generated file belongs. Adjacent lines count as well: they
/// are the call or `return` around its value.
fn place_of(line: usize, places: &[Place]) -> Option<&Place> {
    let within = |margin: usize| {
        let range =
            move |place: &&Place| place.first - margin <= line && line <= place.last + margin;
        places.iter().find(range)
    };
    within(0).or_else(|| within(1))
}

/// Generates the program around the texts.
fn source(parts: &Parts) -> SourceFile {
    let mut file = SourceFile::new("Main.java", Marks::None);
    let template = include_str!("languages/java.txt");
    file.fill(
        template,
        parts,
        |file, directive, part, _| match directive {
            "hook" => hook(file, part),
            "batch" => batch(file, part),
            _ => file.user(part.name, &part.text.body, 1, end_of(part)),
        },
    );
    // Places are known only once everything is written, so their numbers follow on one line at the
    // end.
    let places = file.places.iter();
    let places = places.map(|place| format!("{}, {}, {}", place.first, place.last, place.line));
    let places = places.collect::<Vec<_>>().join(", ");
    file.own(&format!("}}).serve({places});\n}}\n}}"));
    file
}

/// Writes a lambda body that returns the value of a text.
fn hook(file: &mut SourceFile, part: &Part) {
    let text = &part.text;
    if !part.has_value() || (text.returns() && !text.before().trim().is_empty()) {
        // The condition keeps the `return` reachable after texts that throw or loop forever.
        let may_end = !text.returns();
        file.own(if may_end { "if (true) {" } else { "" });
        file.user(part.name, &text.body, 1, end_of(part));
        file.own(if may_end { "}\nreturn null;" } else { "" });
        return;
    }
    let (value, line) = text.value();
    file.user(part.name, text.before(), 1, "return (");
    file.user(part.name, value, line, ");");
}

/// Returns the terminator of statements. A semicolon after a block would be an empty statement,
/// which the compiler rejects where it is unreachable.
fn end_of(part: &Part) -> &'static str {
    if part.text.kind == Kind::Plain && part.text.body.ends_with('}') {
        ""
    } else {
        ";"
    }
}

/// Writes the loop. Values the code only reads are read anew in each iteration; otherwise the JIT
/// compiler would hoist what depends on them. A state that the code changes is a local variable.
/// The shared value is always read: without it, iterations of an empty body could be merged.
fn batch(file: &mut SourceFile, runner: &Part) {
    let changes = runner.text.assigns("state");
    if changes {
        file.own("var state = Keep.unbox(speedwellState.get());");
    }
    file.own("for (int speedwellLeft = speedwellCount; speedwellLeft > 0; speedwellLeft--) {");
    file.own("var shared = Keep.unbox(speedwellShared.get());\nKeep.keep(shared);");
    if runner.text.names("state") && !changes {
        file.own("var state = Keep.unbox(speedwellState.get());");
    }
    if runner.has_value() {
        let (value, line) = runner.text.value();
        file.user(runner.name, runner.text.before(), 1, "Keep.keep(");
        file.user(runner.name, value, line, ");");
    } else {
        file.user(runner.name, &runner.text.body, 1, end_of(runner));
    }
    file.own("}");
    if changes {
        file.own("speedwellState.set(state);");
    }
}
