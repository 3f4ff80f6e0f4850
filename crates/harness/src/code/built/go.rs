//! Go: the texts in one function, where `:=` finds their types.

use super::super::super::compile::Failed;
use super::super::super::compile::unpacked;
use super::super::super::sources;
use super::super::made::{Making, state_of, version};
use super::go_imports::imports;
use super::parts::{Part, Parts};
use super::sheet::{Marks, Sheet};
use speedwell_model::{Code, Variant};
use std::path::{Path, PathBuf};

/// Nothing is fetched from anywhere, and no other toolchain is taken than the one that was asked for.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("GOFLAGS", "-mod=mod"),
    ("GOTOOLCHAIN", "local"),
    ("GOPROXY", "off"),
    ("GOWORK", "off"),
    ("GO111MODULE", "on"),
];

/// Compiles the code; gives the program.
pub fn build(code: &Code, compiler: &Path, variant: &Variant) -> Result<PathBuf, Failed> {
    let identity = version(compiler, &["version"])?;
    let harness = unpacked(&sources::GO)?;
    let module = module(&identity, &harness, &code.paths);
    let usual = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = [&usual[..], &variant.environment].concat();
    let mut arguments = vec!["build".to_owned()];
    arguments.extend(variant.arguments.iter().cloned());
    arguments.extend(["-o", "program", "."].map(str::to_owned));
    let identity = format!("{identity}{}", state_of(&code.paths));
    let making = |parts: &Parts| {
        let files = [("go.mod", module.clone()), ("main.go", source(parts))];
        Making {
            stem: "go",
            files: files.map(|(name, text)| (name.to_owned(), text)).to_vec(),
            compiler: compiler.to_owned(),
            arguments: arguments.clone(),
            environment: environment.clone(),
            identity: identity.clone(),
        }
    };
    let made = Parts::of(code).compiled(|parts| making(parts).find(), |parts| making(parts).make());
    made.map(|folder| folder.join("program"))
}

/// The module of the program: with our own, and those in folders that the user named.
fn module(version: &str, harness: &Path, paths: &[PathBuf]) -> String {
    // 'go version go1.26.8 linux/amd64': the language is the newest that the toolchain knows.
    let number = version
        .split_whitespace()
        .nth(2)
        .unwrap_or("go1.21")
        .trim_start_matches("go");
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
        let said = std::fs::read_to_string(path.join("go.mod")).unwrap_or_default();
        let name = said
            .lines()
            .find_map(|line| line.trim().strip_prefix("module "));
        if let Some(name) = name {
            add(name.trim().trim_matches('"'), path);
        }
    }
    text
}

/// The program around the texts.
fn source(parts: &Parts) -> String {
    let mut sheet = Sheet::new("main.go", Marks::Slashes);
    sheet.own("package main\n\nimport \"speedwell\"");
    for part in parts.all() {
        for (line, number) in &part.text.top {
            sheet.user(part.name, line, *number, "");
        }
    }
    for path in imports(parts) {
        sheet.own(&format!("import \"{path}\""));
    }
    sheet.own("\nfunc main() {\nspeedwell.Main(func(speedwellJob *speedwell.Job) {");
    hook(&mut sheet, &parts.init, "shared");
    sheet.own("speedwellJob.Serve(func(speedwellWorker *speedwell.Worker) speedwell.Finished {");
    hook(&mut sheet, &parts.init_worker, "state");
    sheet.own("for speedwellWorker.Next() {\nspeedwellLeft := speedwellWorker.Left");
    batch(&mut sheet, &parts.runner);
    // Otherwise a state that the code computes and nobody reads would not be computed.
    sheet.own("speedwell.Keep(state)\n}\nreturn speedwell.Finished{}\n}, func() {");
    plain(&mut sheet, &parts.done);
    sheet.own("})\n})\n}");
    sheet.text
}

/// Executes a text, whose value becomes the variable `name`.
fn hook(sheet: &mut Sheet, part: &Part, name: &str) {
    if part.has_value() {
        value(sheet, part, &format!("{name} :="));
    } else {
        sheet.own("{");
        plain(sheet, part);
        sheet.own(&format!("}}\n{name} := struct{{}}{{}}"));
    }
    sheet.own(&format!("_ = {name}"));
}

/// The loop. With a value, the first iteration stands before it, because a variable gets its type where it is
/// declared; what the last iteration gave is needed afterwards, so all are performed.
fn batch(sheet: &mut Sheet, runner: &Part) {
    if !runner.has_value() {
        sheet.own("for ; speedwellLeft > 0; speedwellLeft-- {");
        plain(sheet, runner);
        sheet.own("}");
        return;
    }
    value(sheet, runner, "speedwellLast :=");
    sheet.own("for speedwellLeft--; speedwellLeft > 0; speedwellLeft-- {");
    value(sheet, runner, "speedwellLast =");
    sheet.own("}\nspeedwell.Keep(speedwellLast)");
}

fn value(sheet: &mut Sheet, part: &Part, place: &str) {
    let (value, line) = part.text.value();
    if !part.text.before().trim().is_empty() {
        sheet.user(part.name, part.text.before().trim_end(), 1, "");
    }
    sheet.own(place);
    sheet.user(part.name, value, line, "");
}

fn plain(sheet: &mut Sheet, part: &Part) {
    if part.has_text() {
        sheet.user(part.name, &part.text.body, 1, "");
    }
}
