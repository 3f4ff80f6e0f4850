//! Compiles Java snippets. The parts of a snippet are nested in lambda expressions, so that each
//! part sees the types of the parts before it.

use super::parts::{
    GeneratedSource, LineMarkers, SnippetBuild, SnippetPart, SnippetParts, TextPosition,
};
use super::text::StatementKind;
use crate::cache::sorted_entries;
use crate::compile::{
    GeneratedBuild, adjacent_program, hash_folders, program_version, resolve_links,
};
use crate::failure::HarnessFailure;
use crate::sources;
use speedwell_machine::process::ProcessSpec;
use std::fs;
use std::path::{Path, PathBuf};

/// Options that make the JIT compiler treat a call of `Keep.keep` as a use of the argument, at no
/// cost (JDK-8259316).
const KEEP_OPTIONS: [&str; 3] = [
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:CompileCommand=quiet",
    "-XX:CompileCommand=blackhole,speedwell.Keep::keep",
];

/// Compiler options. String concatenation is compiled inline, because `invokedynamic` would delay
/// startup. The compiler runs for only a second, so optimization and parallel garbage collection
/// would not pay off.
const COMPILER_OPTIONS: [&str; 6] = [
    "-J-XX:TieredStopAtLevel=1",
    "-J-XX:+UseSerialGC",
    "-nowarn",
    "-XDstringConcat=inline",
    "-d",
    ".",
];

/// Compiles the code and returns the command that runs it. The program is `java`; the compiler
/// `javac` is taken from the same folder if it is there.
pub fn build_program(build: SnippetBuild) -> Result<ProcessSpec, HarnessFailure> {
    let SnippetBuild { snippet, compiler: program, variant, .. } = build;
    let compiler = adjacent_program(program, "javac");
    let identity = jdk_identity(&compiler)? + &hash_folders(&snippet.paths);
    let harness = sources::JAVA.folder()?.join("speedwell");
    let sources = sorted_entries(&harness);
    let compilation = |stem, files: Vec<(String, String)>, arguments: Vec<String>| GeneratedBuild {
        stem,
        files,
        compiler: compiler.clone(),
        arguments: [&COMPILER_OPTIONS.map(str::to_owned)[..], &arguments[..]].concat(),
        identity: identity.clone(),
        ..GeneratedBuild::default()
    };
    let arguments = sources.iter().map(|file| file.to_string_lossy().into_owned());
    let classes = compilation("java-harness", Vec::new(), arguments.collect()).compile()?;
    let mut path = vec![classes];
    path.extend(snippet.paths.iter().cloned());
    let compilation_of = |file: &GeneratedSource| {
        let output = ["-cp".to_owned(), class_path(&path), "Main.java".to_owned()];
        let file = ("Main.java".to_owned(), file.text.clone());
        compilation("java", vec![file], output.to_vec())
    };
    let classes_of_snippet = SnippetParts::of_snippet(snippet).compile_first(
        |parts| compilation_of(&java_source(parts)).find_compiled(),
        |parts| {
            let file = java_source(parts);
            let compiled = compilation_of(&file).compile();
            compiled.map_err(|failure| map_to_user_text(failure, &file.positions))
        },
    )?;
    path.insert(0, classes_of_snippet);
    let spec = ProcessSpec::new(program).args(KEEP_OPTIONS).args(&variant.arguments);
    Ok(spec.args(["-cp", &class_path(&path), "Main"]))
}

/// Identifies the JDK by its release file. If there is no such file, asks the compiler for its
/// version, which takes as long as the rest of a cached build.
fn jdk_identity(compiler: &Path) -> Result<String, HarnessFailure> {
    let compiler = resolve_links(compiler);
    let home = compiler.parent().and_then(Path::parent);
    match home.map(|home| fs::read_to_string(home.join("release"))) {
        Some(Ok(version)) => Ok(version),
        _ => program_version(&compiler, &["-version"]),
    }
}

/// Builds a class path.
fn class_path(folders: &[PathBuf]) -> String {
    let folders: Vec<_> = folders.iter().map(|folder| folder.to_string_lossy()).collect();
    folders.join(":")
}

/// Replaces line numbers of the generated file in compiler messages with those of the user's code.
fn map_to_user_text(mut failure: HarnessFailure, positions: &[TextPosition]) -> HarnessFailure {
    let lines = failure.output.lines().map(|line| {
        let counted = line.strip_prefix("Main.java:").and_then(|rest| rest.split_once(':'));
        let found = counted.and_then(|(number, rest)| {
            let number: usize = number.parse().ok()?;
            let position = find_position(number, positions)?;
            let line = number.clamp(position.first, position.last) - position.first + position.line;
            Some(format!("{}:{line}:{rest}", position.name))
        });
        found.unwrap_or_else(|| line.to_owned())
    });
    failure.output = lines.collect::<Vec<_>>().join("\n");
    failure
}

/// Finds the part to which a line of the generated file belongs. The lines directly before and
/// after a part belong to it as well: they hold the call or the `return` around its value.
fn find_position(line: usize, positions: &[TextPosition]) -> Option<&TextPosition> {
    let find_within = |margin: usize| {
        let range = move |position: &&TextPosition| {
            position.first - margin <= line && line <= position.last + margin
        };
        positions.iter().find(range)
    };
    find_within(0).or_else(|| find_within(1))
}

/// Generates the program that wraps the snippet code.
fn java_source(parts: &SnippetParts) -> GeneratedSource {
    let mut file = GeneratedSource::new("Main.java", LineMarkers::None);
    let template = include_str!("languages/java.txt");
    file.fill_template(template, parts, |file, directive, part, _| match directive {
        "hook" => write_hook(file, part),
        "batch" => write_loop(file, part),
        _ => file.add_user_text(part.name, &part.text.body, 1, statement_end(part)),
    });
    // The positions of the user's code are known only after all of it has been written, so the line
    // that passes them to the harness comes last.
    let positions = file
        .positions
        .iter()
        .map(|position| format!("{}, {}, {}", position.first, position.last, position.line))
        .collect::<Vec<_>>()
        .join(", ");
    file.add_generated(&format!("}}).serve({positions});\n}}\n}}"));
    file
}

/// Writes a lambda body that returns the value of a part.
fn write_hook(file: &mut GeneratedSource, part: &SnippetPart) {
    let text = &part.text;
    if !part.has_value() || (text.contains_name("return") && !text.text_before().trim().is_empty())
    {
        // Without `if (true)`, the compiler would reject `return null` as unreachable after code
        // that throws or loops forever.
        let may_end = !text.contains_name("return");
        file.add_generated(if may_end { "if (true) {" } else { "" });
        file.add_user_text(part.name, &text.body, 1, statement_end(part));
        file.add_generated(if may_end { "}\nreturn null;" } else { "" });
        return;
    }
    let (value, line) = text.last_value();
    file.add_user_text(part.name, text.text_before(), 1, "return (");
    file.add_user_text(part.name, value, line, ");");
}

/// Returns what follows the statements of a part: a semicolon, or nothing after a block. After a
/// block, a semicolon would be an empty statement, and the compiler rejects unreachable ones.
fn statement_end(part: &SnippetPart) -> &'static str {
    if part.text.kind == StatementKind::Plain && part.text.body.ends_with('}') { "" } else { ";" }
}

/// Writes the loop. A value that the code only reads is read anew in each iteration; otherwise the
/// JIT compiler would move computations with the value out of the loop. If the code assigns
/// `state`, the loop keeps `state` in a local variable. `shared` is read even if the code does not
/// use it; otherwise the JIT compiler could merge the iterations of an empty body.
fn write_loop(file: &mut GeneratedSource, runner: &SnippetPart) {
    let changes = runner.text.assigns("state");
    if changes {
        file.add_generated("var state = Keep.unbox(speedwellState.get());");
    }
    file.add_generated(
        "for (int speedwellLeft = speedwellCount; speedwellLeft > 0; speedwellLeft--) {",
    );
    file.add_generated("var shared = Keep.unbox(speedwellShared.get());\nKeep.keep(shared);");
    if runner.text.contains_name("state") && !changes {
        file.add_generated("var state = Keep.unbox(speedwellState.get());");
    }
    if runner.has_value() {
        let (value, line) = runner.text.last_value();
        file.add_user_text(runner.name, runner.text.text_before(), 1, "Keep.keep(");
        file.add_user_text(runner.name, value, line, ");");
    } else {
        file.add_user_text(runner.name, &runner.text.body, 1, statement_end(runner));
    }
    file.add_generated("}");
    if changes {
        file.add_generated("speedwellState.set(state);");
    }
}
