//! Compiles Go snippets. All code of a snippet is in one function, where `:=` infers the types of
//! variables.

use super::parts::{GeneratedSource, LineMarkers, SnippetBuild, SnippetPart, SnippetParts};
use crate::compile::{GeneratedBuild, hash_folders, program_version};
use crate::failure::HarnessFailure;
use crate::layout::{LinkRecord, LinkedBuild, LinkedProgram, build_folder, time_build};
use crate::sources;
use std::path::{Path, PathBuf};

/// Environment in which Go neither downloads anything nor selects a different toolchain.
const ISOLATED_ENVIRONMENT: [(&str, &str); 5] = [
    ("GOFLAGS", "-mod=mod"),
    ("GOTOOLCHAIN", "local"),
    ("GOPROXY", "off"),
    ("GOWORK", "off"),
    ("GO111MODULE", "on"),
];

/// Compiles the code and returns the program.
pub fn build_program(build: SnippetBuild) -> Result<LinkedProgram, HarnessFailure> {
    let SnippetBuild { snippet, compiler, variant, layout } = build;
    let identity = program_version(compiler, &["version"])?;
    let harness = sources::GO.folder()?;
    let module = write_module(&identity, &harness, &snippet.paths);
    let isolated = ISOLATED_ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = [&isolated[..], &variant.environment].concat();
    let identity = format!("{identity}{}", hash_folders(&snippet.paths));
    let compilation = |parts: &SnippetParts, extra_argument: Option<String>| {
        let files = [("go.mod", module.clone()), ("main.go", go_source(parts))];
        let mut arguments = vec!["build".to_owned()];
        arguments.extend(variant.arguments.iter().cloned());
        arguments.extend(extra_argument);
        arguments.extend(["-o", "program", "."].map(str::to_owned));
        GeneratedBuild {
            stem: "go",
            files: files.map(|(name, text)| (name.to_owned(), text)).to_vec(),
            compiler: compiler.to_owned(),
            arguments,
            environment: environment.clone(),
            identity: identity.clone(),
        }
    };
    let with_parts = |parts: &SnippetParts, folder: PathBuf| (parts.clone(), folder);
    let (parts, folder) = SnippetParts::of_snippet(snippet).compile_first(
        |parts| Some(with_parts(parts, compilation(parts, None).find_compiled()?)),
        |parts| Ok(with_parts(parts, compilation(parts, None).compile()?)),
    )?;
    let Some(build) = layout.build else { return Ok((folder.join("program"), None)) };
    // Go caches compiled packages, so only linking is repeated.
    let shuffled = compilation(&parts, Some(link_flags(&variant.arguments, build)));
    let folder = time_build(|| shuffled.compile_below(&build_folder()?))?;
    let linking = LinkRecord::by_compiler(build, &shuffled.compiler_command(&folder), None);
    Ok((folder.join("program"), Some(linking)))
}

/// Returns the option `-ldflags` that shuffles functions. Merges the user's `-ldflags` into it,
/// because go honors only the last `-ldflags`.
fn link_flags(arguments: &[String], build: LinkedBuild) -> String {
    let ldflags_value = |(index, argument): (usize, &String)| {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        let is_ldflags = matches!(name, "-ldflags" | "--ldflags");
        let next = || arguments.get(index + 1).cloned().unwrap_or_default();
        let value = if argument.contains('=') { value.to_owned() } else { next() };
        is_ldflags.then_some(value)
    };
    let user_flags = arguments.iter().enumerate().filter_map(ldflags_value).next_back();
    let flags = format!("{} -randlayout={}", user_flags.unwrap_or_default(), build.seed);
    format!("-ldflags={}", flags.trim_start())
}

/// Generates go.mod, which requires our module and the modules in the folders that the user named.
fn write_module(version: &str, harness: &Path, paths: &[PathBuf]) -> String {
    // From 'go version go1.26.8 linux/amd64', `number` is 1.26.8. Its first two parts are the
    // newest language version that the toolchain supports.
    let number = version.split_whitespace().nth(2).unwrap_or("go1.21").trim_start_matches("go");
    let language: Vec<&str> = number.split('.').take(2).collect();
    let mut text = format!("module code\n\ngo {}\n", language.join("."));
    let mut add = |name: &str, folder: &Path| {
        text += &format!(
            "\nrequire {name} v0.0.0\n\nreplace {name} => {:?}\n",
            folder.display().to_string()
        );
    };
    add("speedwell", harness);
    for path in paths {
        let manifest = std::fs::read_to_string(path.join("go.mod")).unwrap_or_default();
        let name = manifest.lines().find_map(|line| line.trim().strip_prefix("module "));
        if let Some(name) = name {
            add(name.trim().trim_matches('"'), path);
        }
    }
    text
}

/// Generates the program that wraps the snippet code.
fn go_source(parts: &SnippetParts) -> String {
    let mut file = GeneratedSource::new("main.go", LineMarkers::Slashes);
    let template = include_str!("languages/go.txt");
    file.fill_template(template, parts, |file, directive, part, words| match directive {
        "imports" => missing_imports(parts)
            .iter()
            .for_each(|path| file.add_generated(&format!("import \"{path}\""))),
        "hook" => write_hook(file, part, words),
        "batch" => write_loop(file, part),
        _ => write_statements(file, part),
    });
    file.text
}

/// Writes code that executes a part and assigns its value to the variable `name`.
fn write_hook(file: &mut GeneratedSource, part: &SnippetPart, name: &str) {
    if part.has_value() {
        write_value(file, part, &format!("{name} :="));
    } else {
        file.add_generated("{");
        write_statements(file, part);
        file.add_generated(&format!("}}\n{name} := struct{{}}{{}}"));
    }
    file.add_generated(&format!("_ = {name}"));
}

/// Writes the loop. If the code has a value, the first iteration precedes the loop, because a `:=`
/// before the loop must declare the variable for the value. The last value is kept alive after the
/// loop, so that the compiler cannot eliminate iterations.
fn write_loop(file: &mut GeneratedSource, runner: &SnippetPart) {
    if !runner.has_value() {
        file.add_generated("for ; speedwellLeft > 0; speedwellLeft-- {");
        write_statements(file, runner);
        file.add_generated("}");
        return;
    }
    write_value(file, runner, "speedwellLast :=");
    file.add_generated("for speedwellLeft--; speedwellLeft > 0; speedwellLeft-- {");
    write_value(file, runner, "speedwellLast =");
    file.add_generated("}\nspeedwell.Keep(speedwellLast)");
}

fn write_value(file: &mut GeneratedSource, part: &SnippetPart, target: &str) {
    let (value, line) = part.text.last_value();
    if !part.text.text_before().trim().is_empty() {
        file.add_user_text(part.name, part.text.text_before().trim_end(), 1, "");
    }
    file.add_generated(target);
    file.add_user_text(part.name, value, line, "");
}

fn write_statements(file: &mut GeneratedSource, part: &SnippetPart) {
    if part.has_text() {
        file.add_user_text(part.name, &part.text.body, 1, "");
    }
}

/// Paths of Go's standard packages; a package's name is the last part of its path.
const STANDARD_PACKAGES: &str = include_str!("languages/go-packages.txt");

/// Returns the paths of standard packages that the code uses without importing them.
pub fn missing_imports(parts: &SnippetParts) -> Vec<&'static str> {
    let lines = parts.all_parts().iter().flat_map(|part| &part.text.top);
    let imports: String = lines.map(|(line, _)| line.as_str()).collect();
    let needs_import = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        // `math/rand/v2` is called `rand` as well.
        let imported =
            imports.contains(&format!("{name}\"")) || imports.contains(&format!("{name}/v"));
        !imported && parts.all_parts().iter().any(|part| uses_package(&part.text.body, name))
    };
    STANDARD_PACKAGES.lines().filter(needs_import).collect()
}

/// Whether the code contains `name.` followed by a capital letter.
fn uses_package(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(index, _)| {
        let before = code[..index].chars().next_back();
        let stands_alone =
            !before.is_some_and(|letter| letter.is_alphanumeric() || "_.\"".contains(letter));
        let mut after = code[index + name.len()..].chars();
        stands_alone && after.next() == Some('.') && after.next().is_some_and(char::is_uppercase)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{Snippet, SnippetLanguage};

    #[test]
    fn packages_are_found_by_their_names() {
        let imports_of = |text: &str| {
            missing_imports(&SnippetParts::of_snippet(&Snippet::new(SnippetLanguage::Go, text)))
        };
        assert_eq!(
            imports_of("strings.Repeat(\"x\", 3) + strconv.Itoa(utf8.RuneLen('x'))"),
            ["strconv", "strings", "unicode/utf8"]
        );
        assert_eq!(imports_of("x.strings.Y(mystrings.X)"), [] as [&str; 0]);
        assert_eq!(imports_of("import \"math/rand/v2\"\nrand.IntN(3)"), [] as [&str; 0]);
        assert_eq!(imports_of("import \"crypto/rand\"\nrand.Int(3)"), [] as [&str; 0]);
    }
}
