//! Compiles Rust snippets. Each part is in a separate file, and the generated program includes
//! these files.

use super::parts::{SnippetBuild, SnippetPart, SnippetParts, rewrite_for_user};
use crate::cache::sorted_entries;
use crate::compile::{GeneratedBuild, hash_folders, program_version};
use crate::failure::HarnessFailure;
use crate::layout::{
    LinkRecord, LinkedBuild, LinkedProgram, ShuffleMethod, build_folder, gap_bytes,
    link_with_first, names_linker, time_build,
};
use crate::sources;
use speedwell_model::Variant;
use std::path::{Path, PathBuf};

/// Default flags for both the harness and the code. Flags of the variant follow them and take
/// precedence.
const DEFAULT_FLAGS: [&str; 4] =
    ["--edition=2021", "-Copt-level=3", "-Ccodegen-units=1", "-Awarnings"];

/// Aligns functions to 2^6 bytes.
const ALIGN_FLAG: &str = "-Cllvm-args=-align-all-functions=6";

/// Program that wraps the snippet code. In it, `state` is a variable of the loop, and `shared` is a
/// reference.
const PROGRAM_TEMPLATE: &str = include_str!("languages/rust.txt");

/// Compiles the code and returns the program.
pub fn build_program(build: SnippetBuild) -> Result<LinkedProgram, HarnessFailure> {
    let SnippetBuild { snippet, compiler, variant, layout } = build;
    // A toolchain, as in `rustc +nightly`, must be the first argument.
    let (toolchain, flags): (Vec<_>, Vec<_>) =
        variant.arguments.iter().cloned().partition(|flag| flag.starts_with('+'));
    let mut version_arguments: Vec<&str> = toolchain.iter().map(String::as_str).collect();
    version_arguments.push("-vV");
    let identity = program_version(compiler, &version_arguments)?;
    let mut default_flags = DEFAULT_FLAGS.map(str::to_owned).to_vec();
    default_flags.extend(layout.align.then(|| ALIGN_FLAG.to_owned()));
    let mut arguments = [&toolchain[..], &default_flags, &flags].concat();
    let library = build_library(compiler, &arguments, variant, &identity)?;
    arguments.extend(["main.rs", "-o", "program", "--extern"].map(str::to_owned));
    arguments.push(format!("speedwell={}", library.display()));
    arguments.extend(snippet.paths.iter().flat_map(|path| crate_arguments(path)));
    let parts = SnippetParts::of_snippet(snippet);
    let mut compilation = GeneratedBuild {
        stem: "rust",
        files: source_files(&parts),
        compiler: compiler.to_owned(),
        arguments,
        environment: variant.environment.clone(),
        identity: identity + &hash_folders(&snippet.paths),
    };
    // A block is valid Rust with or without a value, so the compiler need not try both
    // interpretations.
    let (folder, linking) = match layout.build {
        None => (compilation.compile().map_err(rewrite_for_user)?, None),
        Some(build) => {
            let flags = variant.arguments.clone();
            // rustc is called again, because it does not expose its linker command.
            let linked = link_with_first(compiler, &flags, |method| {
                let mut linked = compilation.clone();
                linked.arguments.extend(link_arguments(&flags, method, build));
                if let (ShuffleMethod::Coarse, Some((_, main))) = (method, linked.files.last_mut())
                {
                    let bytes = gap_bytes(build, 0);
                    *main += &format!("core::arch::global_asm!(\".text\\n.skip {bytes}\");\n");
                }
                let cache = build_folder()?;
                time_build(|| linked.compile_below(&cache))
            });
            let (method, folder) = linked.map_err(rewrite_for_user)?;
            compilation.arguments.extend(link_arguments(&flags, method, build));
            let coarse = (method == ShuffleMethod::Coarse).then_some(1);
            let linking =
                LinkRecord::by_compiler(build, &compilation.compiler_command(&folder), coarse);
            (folder, Some(linking))
        }
    };
    Ok((folder.join("program"), linking))
}

fn link_arguments(flags: &[String], method: ShuffleMethod, build: LinkedBuild) -> Vec<String> {
    let arguments = method.linker_arguments(build, names_linker(flags)).into_iter();
    arguments.map(|argument| format!("-Clink-arg={argument}")).collect()
}

/// Compiles the harness library once.
fn build_library(
    compiler: &Path,
    flags: &[String],
    variant: &Variant,
    identity: &str,
) -> Result<PathBuf, HarnessFailure> {
    let folder = sources::RUST.folder()?;
    let mut arguments = flags.to_vec();
    arguments.extend(["--crate-name=speedwell", "--crate-type=rlib"].map(str::to_owned));
    arguments.push(folder.join("speedwell.rs").to_string_lossy().into_owned());
    let first_line = identity.lines().next().unwrap_or_default();
    let mut environment = variant.environment.clone();
    environment.push(("SPEEDWELL_RUSTC".to_owned(), first_line.to_owned()));
    let compilation = GeneratedBuild {
        stem: "rust-harness",
        compiler: compiler.to_owned(),
        arguments,
        environment,
        identity: identity.to_owned(),
        ..GeneratedBuild::default()
    };
    Ok(compilation.compile()?.join("libspeedwell.rlib"))
}

/// Returns one file per part of the snippet, and the program that includes them.
fn source_files(parts: &SnippetParts) -> Vec<(String, String)> {
    let mut top = String::new();
    let mut files = Vec::new();
    for part in parts.all_parts() {
        for (line, _) in &part.text.top {
            top += line;
            top.push('\n');
        }
        files.push((part.name.to_owned(), write_block(part)));
    }
    // If the code does not use `shared`, the loop does not touch it: keeping the unused value in a
    // register would cost a move in every iteration.
    let change = if parts.find_part("runner").text.contains_name("shared") {
        "let shared = speedwell::change_shared(shared);"
    } else {
        ""
    };
    let program = PROGRAM_TEMPLATE.replace("CHANGE_SHARED", change);
    let (attribute, program) = program.split_at(program.find('\n').unwrap_or(0) + 1);
    files.push(("main.rs".to_owned(), format!("{attribute}{top}{program}")));
    files
}

fn write_block(part: &SnippetPart) -> String {
    // The code is copied unchanged, because a semicolon after the last statement decides whether
    // the block has a value. The closing brace goes on a new line only if a trailing comment would
    // otherwise swallow the brace.
    let text = &part.text.statements;
    let has_comment = text.lines().next_back().is_some_and(|line| line.contains("//"));
    format!("{{{text}{}}}", if has_comment { "\n" } else { "" })
}

/// Returns the options that add a folder to the search path and name each crate in it.
fn crate_arguments(path: &Path) -> Vec<String> {
    let mut words = vec!["-L".to_owned(), path.to_string_lossy().into_owned()];
    for file in sorted_entries(path) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(name) = name.strip_prefix("lib").and_then(|name| name.strip_suffix(".rlib")) {
            words.extend(["--extern".to_owned(), format!("{name}={}", file.display())]);
        }
    }
    words
}
