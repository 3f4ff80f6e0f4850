//! Compiles C and C++ snippets and generates the source around them. Start at [`build_program`].
//!
//! All C code of a snippet is in one function, because gcc and clang can determine the type of
//! statements only inside functions. The template `languages/c.txt` contains each part of a snippet
//! several times: to determine its type, and to execute it with or without a value. Each copy is a
//! GNU C statement expression, whose value is the value of its last statement. The function that
//! calls `setjmp` does not contain the user's code, because compilers keep few variables in
//! registers where `setjmp` may return twice.

use super::parts::{GeneratedSource, LineMarkers, SnippetBuild, SnippetPart, SnippetParts};
use crate::cache::{cache_folder, hash_name, write_file};
use crate::compile::{self, BuildRecipe, variable_words};
use crate::failure::HarnessFailure;
use crate::layout::{LinkedProgram, ObjectFiles, write_failure};
use crate::sources;
use speedwell_model::{FailureCause, SnippetLanguage};

/// Default flags for C and C++. Flags of the variant follow them and take precedence.
const DEFAULT_FLAGS: [&str; 2] = ["-O2", "-pthread"];
/// Flags for C only. In every version of C, they reject undeclared functions, and a `return` that
/// would leave the loop.
const C_FLAGS: [&str; 2] = ["-Werror=implicit-function-declaration", "-Werror=return-type"];

/// Headers that the code need not include itself. Each line has the form `HEADER: WORD WORD`. The
/// header is included if the code uses one of the words, or if the line has no words.
const HEADERS: &str = include_str!("languages/cpp-headers.txt");

/// Returns the flags for both the harness and the code.
fn common_flags(build: SnippetBuild) -> Result<Vec<String>, HarnessFailure> {
    let SnippetBuild { snippet, variant, layout, .. } = build;
    let is_c = snippet.language == SnippetLanguage::C;
    let mut flags = DEFAULT_FLAGS.map(str::to_owned).to_vec();
    if !is_c {
        flags.extend(["-std=c++17", "-w"].map(str::to_owned));
        flags.push(format!("-I{}", sources::CPP.folder()?.display()));
    }
    flags.extend(variable_words(if is_c { "CFLAGS" } else { "CXXFLAGS" }, &variant.environment));
    flags.extend(variant.arguments.iter().cloned());
    flags.extend(layout.compiler_flags());
    Ok(flags)
}

/// Builds the program of a C or C++ snippet.
pub fn build_program(build: SnippetBuild) -> Result<LinkedProgram, HarnessFailure> {
    let SnippetBuild { snippet, compiler, variant, layout } = build;
    let is_c = snippet.language == SnippetLanguage::C;
    let folder = sources::C.folder()?;
    let mut flags = common_flags(build)?;
    let harness = BuildRecipe {
        compiler: compiler.to_owned(),
        flags: [&flags[..], &["-c".to_owned()]].concat(),
        file: folder.join(if is_c { "main.c" } else { "main.cpp" }),
        directory: folder.clone(),
        header: folder,
        environment: variant.environment.clone(),
    };
    let main = compile::build_program(&harness)?;
    if is_c {
        flags.extend(C_FLAGS.map(str::to_owned));
    }
    let paths = snippet.paths.iter().map(|path| path.to_string_lossy());
    flags.extend(paths.flat_map(|path| [format!("-I{path}"), format!("-L{path}")]));
    let libraries = [&flags[..], &["-lm".to_owned()]].concat();
    flags.extend(match layout.build {
        Some(_) => vec!["-c".to_owned()],
        None => vec![main.to_string_lossy().into_owned(), "-lm".to_owned()],
    });
    let ending = if is_c { "c" } else { "cpp" };
    let recipe = |text: &str| BuildRecipe {
        flags: flags.clone(),
        file: cache_folder().join("code").join(format!("code-{}.{ending}", hash_name(&text))),
        ..harness.clone()
    };
    let find_built = |text: String| compile::find_program(&recipe(&text));
    let compile_text = |text: String| {
        let build = recipe(&text);
        let written = write_file(&build.file, text, false);
        written.map_err(|error| write_failure(&build.file, &error))?;
        compile::build_program(&build)
    };
    let built = SnippetParts::of_snippet(snippet).compile_first(
        |parts| source_texts(parts, is_c).into_iter().find_map(&find_built),
        |parts| {
            let mut texts = source_texts(parts, is_c).into_iter();
            compile_text(texts.next().unwrap_or_default()).or_else(|failure| {
                let is_rejected = matches!(failure.cause, FailureCause::Invalid { .. });
                let may_differ = is_rejected && !has_only_syntax_errors(&failure.output);
                texts.next().filter(|_| may_differ).map_or(Err(failure), &compile_text)
            })
        },
    )?;
    let objects = ObjectFiles { recipe: &harness, files: vec![built, main], flags: &libraries };
    objects.program_of(layout.build)
}

/// Generates the texts to try in turn: in C++, the second one includes all headers.
fn source_texts(parts: &SnippetParts, is_c: bool) -> Vec<String> {
    if is_c {
        return vec![c_source(parts)];
    }
    [false, true].map(|all_headers| cpp_source(parts, all_headers)).to_vec()
}

/// Whether another header cannot help: every error is about punctuation where something else was
/// expected. A name that nothing declares mostly has an error of its own; otherwise a type or a class
/// was expected, or the name is what was found, such as a macro after a string.
fn has_only_syntax_errors(output: &str) -> bool {
    let is_of_syntax = |message: &str| {
        message.starts_with("expected")
            && (message.ends_with(" token") || message.ends_with("at end of input"))
            && !["type-specifier", "class-name"].iter().any(|kind| message.contains(kind))
    };
    let mut errors = output.lines().filter_map(|line| line.split_once("error: ")).peekable();
    errors.peek().is_some() && errors.all(|(_, message)| is_of_syntax(message))
}

/// Generates the C source.
fn c_source(parts: &SnippetParts) -> String {
    let mut file = GeneratedSource::new("code.c", LineMarkers::Hash);
    let template = include_str!("languages/c.txt");
    file.fill_template(template, parts, |file, directive, part, words| match directive {
        "changed" if part.has_text() => file.add_generated(words),
        "changed" => {}
        // Drops the last `return`, so that the last expression is the value.
        _ => {
            let block = format!("{}{}", part.text.text_before(), part.text.last_value().0);
            file.add_user_text(part.name, &block, 1, words);
        }
    });
    file.text
}

/// Generates the C++ source. The user's code is in four functions, and the compiler deduces their
/// return types (`code.hpp`). Headers take far longer to compile than most code, so the first
/// attempt includes only the headers that seem necessary. The second attempt, unless the code has
/// syntax errors, includes all of them (`all_headers`).
fn cpp_source(parts: &SnippetParts, all_headers: bool) -> String {
    let mut file = GeneratedSource::new("code.cpp", LineMarkers::Hash);
    let template = include_str!("languages/cpp.txt");
    file.fill_template(template, parts, |file, directive, part, words| match directive {
        "headers" => {
            for header in HEADERS.lines().filter_map(|line| needed_header(line, parts, all_headers))
            {
                file.add_generated(&format!("#include <{header}>"));
            }
        }
        // Unlike `auto`, `decltype(auto)` avoids an expensive copy of a reference's target.
        "result" if part.text.text_before().trim().is_empty() && part.has_value() => {
            file.add_generated(&words.replace("RESULT", "decltype(auto)"));
        }
        "result" => file.add_generated(&words.replace("RESULT", "auto")),
        _ => write_hook(file, part),
    });
    file.text
}

/// Returns the header of a line such as `vector: vector`, if the code seems to need it.
fn needed_header<'a>(line: &'a str, parts: &SnippetParts, all_headers: bool) -> Option<&'a str> {
    let (header, words) = line.split_once(':')?;
    let is_used = |word: &str| parts.all_parts().iter().any(|part| part.text.contains_name(word));
    let mut names = words.split_whitespace().peekable();
    (all_headers || names.peek().is_none() || names.any(is_used)).then_some(header)
}

/// Writes a function body. If the part has no value, or has several statements and a `return`, its
/// text is used unchanged.
fn write_hook(file: &mut GeneratedSource, part: &SnippetPart) {
    let text = &part.text;
    let is_single = text.text_before().trim().is_empty();
    if !part.has_value() || (text.contains_name("return") && !is_single) {
        file.add_user_text(part.name, &text.body, 1, ";\n}");
        return;
    }
    let (value, line) = text.last_value();
    if !is_single {
        file.add_user_text(part.name, text.text_before(), 1, "");
    }
    file.add_generated("return (");
    file.add_user_text(part.name, value, line, ");\n}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_added_unless_all_errors_are_of_syntax() {
        let expected = "runner:2:9: error: expected primary-expression before ';' token\n";
        let undeclared = "runner:1:1: error: 'optional' was not declared in this scope\n";
        assert!(has_only_syntax_errors(&format!("runner: In function 'f':\n{expected}")));
        assert!(!has_only_syntax_errors(&[undeclared, expected].concat()));
        assert!(!has_only_syntax_errors("runner:1:1: Fehler\n"));
        for found in [
            "expected type-specifier before 'timed_mutex'",
            "expected class-name before '{' token",
            "expected ')' before 'PRIu64'",
        ] {
            assert!(!has_only_syntax_errors(&format!("runner:1:1: error: {found}\n")), "{found}");
        }
    }
}
