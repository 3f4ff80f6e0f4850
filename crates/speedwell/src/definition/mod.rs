//! Definition files: benchmarks and variants that are described in TOML instead of code.
//!
//! It decides what such a file may say and checks it whole before anything is started: an unknown key
//! is an error with its line and the nearest known one. It must not know how benchmarks are performed.
//! [`source`] reads the text; start at [`of`] for files with `[benchmark.NAME]` (docs/definition-files.md), at
//! [`experiment::Experiment::of`] for those with `[[group]]` (docs/experiments.md).

mod blanks;
pub mod experiment;
pub mod expression;
mod keys;
mod load;
mod tree;
mod unit;
mod variant;

pub use blanks::{escape, fill, names as blanks_of};
pub use load::LoadBenchmark;
pub use variant::Patch;

use crate::model::DefinitionFile;
use anyhow::{Context, Result, bail, ensure};
use keys::Keys;
use std::path::{Path, PathBuf};

/// Everything a file says.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The group of its benchmarks: what it calls itself, else the file's name without ending.
    pub name: String,
    /// What `{program}` means where a variant does not say.
    pub program: Option<PathBuf>,
    /// Its benchmarks, in order.
    pub loads: Vec<LoadBenchmark>,
    /// What is compared, in order; the first is the baseline.
    pub variants: Vec<Patch>,
}

/// Whether the file is a definition file: TOML with a table of benchmarks. Other TOML is left alone.
pub fn is_one(file: &Path) -> bool {
    let is_toml = file.extension().is_some_and(|ending| ending == "toml");
    is_toml
        && std::fs::read_to_string(file).is_ok_and(|text| {
            let mut lines = text.lines().map(str::trim_start);
            lines.any(|line| line.starts_with("[benchmark"))
        })
}

/// The text of a definition file. `set` are names with values that take the place of what the file says of
/// `[params]` and of parameters of groups; several pairs of one name are several values.
///
/// # Errors
/// It cannot be read.
pub fn source(file: &Path, set: &[(String, String)]) -> Result<DefinitionFile> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the definition file '{shown}'"))?;
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
    Ok(DefinitionFile {
        file: std::path::absolute(file)?,
        text,
        set: set.to_vec(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
    })
}

/// What a definition file with benchmarks means.
///
/// # Errors
/// It is no TOML, or says something that has no meaning.
pub fn of(written: &DefinitionFile) -> Result<Definition> {
    let file = &written.file;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let folder = file.parent().unwrap_or(Path::new("."));
    parse(&written.text, &stem, folder)
        .with_context(|| format!("in the definition file '{}'", file.display()))
}

fn parse(text: &str, stem: &str, folder: &Path) -> Result<Definition> {
    let tree = tree::of_toml(text)?;
    let top = Keys::top(&tree)?;
    let name = top.text("name")?.unwrap_or_else(|| stem.to_owned());
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(top.error("name", format!("the name '{name}' is empty or has blanks")));
    }
    let program = top.text("program")?.map(PathBuf::from);
    let mut variants = Vec::new();
    for inner in top.tables("variant")? {
        variants.push(variant::read(&inner)?);
    }
    let mut loads = Vec::new();
    for inner in top.tables("benchmark")? {
        let load = load::read(&inner, &name, folder)?;
        complete(&load, &variants)?;
        loads.push(load);
    }
    top.finish()?;
    ensure!(
        !loads.is_empty(),
        "there is no benchmark in it\nhint: each begins with a line [benchmark.NAME]"
    );
    Ok(Definition {
        name,
        program,
        loads,
        variants,
    })
}

/// Every variant must know where requests go, and variables need a server that gets them.
fn complete(load: &LoadBenchmark, variants: &[Patch]) -> Result<()> {
    let has_all = variants.iter().all(|patch| patch.url.is_some());
    if load.spec.url.is_empty() && (variants.is_empty() || !has_all) {
        bail!("[benchmark.{}] has no key 'url'", load.short);
    }
    for patch in variants {
        let is_served = patch.serve.is_some() || load.spec.serve.is_some();
        if !patch.variant.environment.is_empty() && !is_served {
            bail!(
                "[variant.{}] sets variables, but there is no server for them in [benchmark.{}]\n\
                 hint: 'serve' is the command that starts it",
                patch.variant.name,
                load.short
            );
        }
        for text in [&patch.serve, &patch.url].into_iter().flatten() {
            load.check_blanks(text, &format!("[variant.{}]", patch.variant.name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;

    fn read(text: &str) -> Result<Definition> {
        parse(text, "servers", Path::new("/x"))
    }

    fn told(text: &str) -> String {
        format!("{:#}", read(text).unwrap_err())
    }

    const GOOD: &str = r#"
        program = "node"
        [variant.plain]
        [variant.slow]
        env = { SLOW = "1" }
        [benchmark.hello]
        kind = "load"
        serve = "{program} server.js --port={port} --size={size}"
        url = "http://127.0.0.1:{port}/?size={size}"
        concurrency = [1, 10]
        duration = "500ms"
        headers = { accept = "text/plain" }
        expect = { status = 200, body = "hello" }
        parameters = { size = [1, 1000] }
    "#;

    #[test]
    fn a_definition_is_benchmarks_with_parameters_and_variants() {
        let found = read(GOOD).unwrap();
        assert_eq!(found.name, "servers");
        let load = &found.loads[0];
        assert_eq!(load.name, "servers/hello");
        let names: Vec<&str> = load.parameters.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["size", "concurrency"]);
        assert_eq!(load.parameters[1].1, [1.0, 10.0].map(Value::Number));
        assert_eq!(
            load.spec.to_args()[1..],
            [
                "--time=500ms",
                "--header=accept: text/plain",
                "--expect-status=200",
                "--expect-body=hello",
                "--serve={program} server.js --port={port} --size={size}"
            ]
        );
        let slow = &found.variants[1].variant;
        assert_eq!(slow.environment, [("SLOW".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn an_unknown_key_is_an_error_with_the_nearest_known_one() {
        let wrong = GOOD.replace("concurrency", "concurency");
        assert_eq!(
            told(&wrong),
            "line 10: [benchmark.hello] has a key 'concurency' that is not known\nhint: did you mean \
             'concurrency'?"
        );
        assert!(told(&GOOD.replace("env =", "environ =")).contains("[variant.slow] has a key"));
        assert!(told(&format!("colour = 1\n{GOOD}")).contains("the file has a key 'colour'"));
        let inner = GOOD.replace("body =", "bodi =");
        assert!(told(&inner).contains("[benchmark.hello.expect]"));
    }

    #[test]
    fn a_blank_that_nobody_fills_is_an_error() {
        let wrong = GOOD.replace("?size={size}", "?size={siez}");
        let told = told(&wrong);
        assert!(
            told.contains("'{siez}'") && told.contains("did you mean 'size'?"),
            "{told}"
        );
        assert!(read(&GOOD.replace("{program} ", "PORT=${PORT} {program} ")).is_ok());
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let one = |wrong: &str| told(&GOOD.replace("duration = \"500ms\"", wrong));
        assert!(one("duration = \"5 parsecs\"").contains("not a duration"));
        assert!(one("duration = \"1s\"\nrequests = 5").contains("either"));
        assert!(one("rate = true").contains("'rate'"));
        assert!(told(&GOOD.replace("\"load\"", "\"laod\"")).contains("did you mean 'load'?"));
        assert!(told("name = \"x\"").contains("there is no benchmark"));
        assert!(told("[benchmark.a]\nkind = \"load\"").contains("no key 'url'"));
    }
}
