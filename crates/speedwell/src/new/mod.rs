//! `speedwell new`: creates starter files that work as they are and explain themselves in comments.
//!
//! The module measures nothing. Start at [`run`]. Each kind of file has a function that fills the
//! templates (`@NAME@`) in `templates/`. `--schema` prints the JSON Schema of definition files.

use crate::status;
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use speedwell_config::escape_text;
use speedwell_machine::process::resolve_program;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Create starter files: an experiment, benchmarks, or an adapter for a suite
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct NewArgs {
    /// Print the JSON Schema of definition files, for editors
    #[arg(long)]
    schema: bool,
    #[command(subcommand)]
    what: Option<StarterKind>,
}

#[derive(Debug, Subcommand)]
enum StarterKind {
    Overhead(OverheadArgs),
    Topology(TopologyArgs),
    Servers(ServersArgs),
    Suite(SuiteArgs),
    Adapter(AdapterArgs),
}

/// Writes the files. Returns them if a first measurement is to follow. Otherwise, suggests the next
/// step.
///
/// # Errors
/// Fails if a file exists or cannot be written.
pub fn run(args: NewArgs) -> anyhow::Result<Option<StarterFiles>> {
    let Some(what) = args.what.filter(|_| !args.schema) else {
        status::write_stdout(speedwell_config::experiment::definition_schema())?;
        return Ok(None);
    };
    let (starter_files, force, no_look) = match &what {
        StarterKind::Overhead(args) => {
            (overhead_files(args)?, args.place.force, args.place.no_look)
        }
        StarterKind::Topology(args) => (topology_files(args), args.place.force, args.place.no_look),
        StarterKind::Servers(args) => (server_files(args)?, args.place.force, args.place.no_look),
        StarterKind::Suite(args) => (suite_files(args)?, args.force, true),
        StarterKind::Adapter(args) => {
            (adapter_files(args)?, args.force, args.no_look || args.target.is_none())
        }
    };
    write_files(&starter_files, force)?;
    for (path, _) in &starter_files.files {
        status::write_stdout(format!("{}\n", path.display()))?;
    }
    if !no_look {
        return Ok(Some(starter_files));
    }
    let target = starter_files.quoted_target();
    status::print_note(&format!("next: speedwell run {target} --test   # does everything work?"));
    status::print_note(&format!("then: speedwell run {target}          # measure"));
    Ok(None)
}

/// Where files are written.
#[derive(Debug, Clone, Args)]
struct PlaceArgs {
    /// Definition file [default: the subcommand's name, with .toml]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    /// Only write the files; skip the first, one-minute measurement
    #[arg(long)]
    pub no_look: bool,
}

impl PlaceArgs {
    pub fn definition_file(&self, default_name: &str) -> PathBuf {
        self.output.clone().unwrap_or_else(|| PathBuf::from(default_name))
    }
}

#[derive(Debug, Clone, Default)]
pub struct StarterFiles {
    /// Files with their texts.
    pub files: Vec<(PathBuf, String)>,
    /// Definition file of the target's suite. On the command line, it precedes the target.
    pub beside: Option<PathBuf>,
    /// What to measure: one of the files, their folder, or a target of the new suite.
    pub target: PathBuf,
    /// Options that keep the first measurement short.
    pub shortened: &'static [&'static str],
}

impl StarterFiles {
    /// The arguments that select the target.
    fn target_arguments(&self) -> impl Iterator<Item = &PathBuf> {
        self.beside.iter().chain([&self.target])
    }

    pub fn quoted_target(&self) -> String {
        shell_words::join(self.target_arguments().map(|path| path.to_string_lossy()))
    }

    /// Returns the command line that measures the target with these options.
    pub fn run_words(&self, options: &[&str]) -> Vec<OsString> {
        let command = ["speedwell", "run"].map(OsString::from).into_iter();
        let targets = self.target_arguments().map(OsString::from);
        command.chain(targets).chain(options.iter().map(OsString::from)).collect()
    }
}

/// Writes the files and creates their folders.
///
/// # Errors
/// Fails if a file cannot be written. Without `force`, also fails if a file exists, and then writes
/// nothing.
fn write_files(starter_files: &StarterFiles, force: bool) -> Result<()> {
    let existing = starter_files.files.iter().find(|(path, _)| path.exists());
    if let Some((path, _)) = existing.filter(|_| !force) {
        bail!("the file '{}' already exists\nhint: --force overwrites it", path.display());
    }
    for (path, text) in &starter_files.files {
        let displayed = path.display();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create the folder of '{displayed}'"))?;
        }
        std::fs::write(path, text)
            .with_context(|| format!("cannot write the file '{displayed}'"))?;
    }
    Ok(())
}

/// Returns the line with which the definition file `file` makes commands run in the current folder.
/// Returns `None` if `file` is in the current folder: by default, commands run in the folder of
/// their definition file.
fn cwd_line(file: &Path) -> std::io::Result<Option<String>> {
    let current_folder = std::env::current_dir()?;
    let folder = current_folder.join(file.parent().unwrap_or(Path::new("")));
    let is_current = std::path::absolute(folder)? == current_folder;
    let quoted_folder = quote_toml(&escape_text(&current_folder.to_string_lossy()));
    Ok((!is_current).then(|| format!("cwd = {quoted_folder}\n")))
}

/// Replaces every `@NAME@` in a template with its value.
fn fill_template(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    text
}

/// Quotes a string for TOML. Placeholders in braces stay as they are. The escapes of JSON are also
/// valid in TOML.
fn quote_toml(text: &str) -> String {
    let is_simple = !text.contains(['\'']) && !text.chars().any(char::is_control);
    if text.contains(['"', '\\']) && is_simple {
        format!("'{text}'")
    } else {
        serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
    }
}

/// Formats strings as a TOML array. Escapes braces, so that they are not placeholders.
fn toml_array(arguments: &[String]) -> String {
    let quoted: Vec<String> =
        arguments.iter().map(|argument| quote_toml(&escape_text(argument))).collect();
    format!("[{}]", quoted.join(", "))
}

/// Returns the `[requires]` table, or an empty string if there are no requirements.
fn requires_table(requirements: &[String]) -> String {
    if requirements.is_empty() {
        String::new()
    } else {
        format!(
            "# Requirements, checked before anything starts.\n[requires]\n{}\n\n",
            requirements.join("\n")
        )
    }
}

/// Returns a line of the `[requires]` table for a command's program, or `None` if it is not known
/// how the program reports its version.
fn program_requirement(command: &[String]) -> Option<String> {
    let program = command.first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    if !["node", "nodejs", "python", "python3", "deno", "bun", "ruby", "php"].contains(&name) {
        return None;
    }
    let version_command = toml_array(&[program.clone(), "--version".to_owned()]);
    Some(format!("{name} = {{ command = {version_command}, match = '(?P<version>\\d+\\.\\S*)' }}"))
}

const OVERHEAD_TEMPLATE: &str = include_str!("templates/overhead.toml");
const SITECUSTOMIZE: &str = include_str!("templates/sitecustomize.py");

/// Folder from which Python preloads modules, next to the definition file.
const PRELOAD: &str = "preload";

/// Write an experiment: what does loading a module cost a program?
#[derive(Debug, Clone, Args)]
struct OverheadArgs {
    /// Module to load: a .js, .cjs, .mjs, .py or .so file, or a package
    ///
    /// A package is given by its Node.js package name.
    #[arg(long, value_name = "MODULE")]
    pub require: String,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// After '--': the program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// How to load a module into a program.
struct ModuleLoading {
    /// The line that sets the variant's environment variables.
    env: String,
    /// Additional files, with paths relative to the folder of the definition file.
    files: Vec<(PathBuf, String)>,
    /// Explanation for the comment in the definition file.
    explanation: &'static str,
}

/// Builds the files.
///
/// # Errors
/// Fails if the module cannot be found, or its type is unknown.
fn overhead_files(args: &OverheadArgs) -> Result<StarterFiles> {
    let file = args.place.definition_file("overhead.toml");
    let current_folder = std::env::current_dir()?;
    let cwd = cwd_line(&file)?;
    let root = cwd.is_none().then_some("{root}");
    let loading = module_loading(&args.require, root, &current_folder)?;
    let module = args.require.rsplit('/').next().unwrap_or(&args.require);
    let program = args.command.join(" ");
    let question = format!("How much slower is '{program}' with {module} loaded?");
    let requirements: Vec<String> = program_requirement(&args.command).into_iter().collect();
    let text = fill_template(
        OVERHEAD_TEMPLATE,
        &[
            ("FILE", &shell_words::quote(&file.to_string_lossy())),
            ("QUESTION", &quote_toml(&question)),
            ("REQUIRES", &requires_table(&requirements)),
            ("LABEL", &quote_toml(&format!("with {module}"))),
            ("HOW", loading.explanation),
            ("ENV", &loading.env),
            ("COMMAND", &toml_array(&args.command)),
            ("CWD", &cwd.unwrap_or_default()),
        ],
    );
    let mut files = vec![(file.clone(), text)];
    files.extend(loading.files.into_iter().map(|(path, text)| (file.with_file_name(path), text)));
    Ok(StarterFiles { files, target: file, ..StarterFiles::default() })
}

/// Decides how to load a module. `root` is the placeholder by which the definition file refers to
/// `current_folder`, or `None` if the file lies elsewhere.
fn module_loading(
    module: &str,
    root: Option<&str>,
    current_folder: &Path,
) -> Result<ModuleLoading> {
    let is_file = current_folder.join(module).is_file();
    let root = match root {
        Some(root) if Path::new(module).is_relative() => root.to_owned(),
        _ => escape_text(&current_folder.to_string_lossy()),
    };
    let relative_module = module.trim_start_matches("./");
    let module_path = if Path::new(module).is_absolute() {
        escape_text(module)
    } else {
        format!("{root}/{}", escape_text(relative_module))
    };
    let extension = Path::new(module).extension().and_then(OsStr::to_str).unwrap_or_default();
    match extension {
        "js" | "cjs" | "mjs" | "so" | "py" if !is_file => {
            bail!("cannot find the module '{module}'")
        }
        "so" => Ok(ModuleLoading {
            env: format!("env = {{ LD_PRELOAD = {{ append = {} }} }}", quote_toml(&module_path)),
            files: Vec::new(),
            explanation: "The dynamic loader loads the library before the program starts.",
        }),
        "py" => Ok(load_in_python(&module_path, module)),
        "js" | "cjs" | "mjs" => Ok(load_in_node(&module_path, extension == "mjs")),
        _ if is_file || module.starts_with(['.', '/']) => bail!(
            "cannot load the module '{module}': unknown type\n\
             hint: supported types are .js .cjs .mjs .py .so; for others, write the variant's env or args by hand"
        ),
        _ => Ok(load_in_node(&escape_text(module), false)),
    }
}

fn load_in_node(module: &str, is_import: bool) -> ModuleLoading {
    let option = if is_import { "--import" } else { "--require" };
    // Node.js splits `NODE_OPTIONS` at spaces outside double quotes.
    let argument = if module.contains(' ') || module.contains("{root}") {
        format!("{option}=\"{module}\"")
    } else {
        format!("{option}={module}")
    };
    ModuleLoading {
        env: format!("env = {{ NODE_OPTIONS = {{ append = {} }} }}", quote_toml(&argument)),
        files: Vec::new(),
        explanation: "Node.js loads the module before the program. Existing NODE_OPTIONS are kept.",
    }
}

/// Loads the module through `sitecustomize`, a module that Python imports at startup
/// (docs.python.org, "site").
fn load_in_python(module_path: &str, module: &str) -> ModuleLoading {
    let stem = Path::new(module).file_stem().unwrap_or_default().to_string_lossy();
    let parent = Path::new(module_path).parent().unwrap_or(Path::new("."));
    ModuleLoading {
        env: format!(
            "env = {{ PYTHONPATH = {{ prepend = \"{{root}}/{PRELOAD}\" }}, SPEEDWELL_PRELOAD = {} }}",
            quote_toml(&format!("{}/{stem}", parent.display()))
        ),
        files: vec![(PathBuf::from(PRELOAD).join("sitecustomize.py"), SITECUSTOMIZE.to_owned())],
        explanation: "At startup, Python imports sitecustomize.py from the folder 'preload', which \
              imports the module.",
    }
}

const SERVERS_TEMPLATE: &str = include_str!("templates/servers.toml");

/// Write an experiment: which HTTP server answers faster?
#[derive(Debug, Clone, Args)]
struct ServersArgs {
    /// Server and the command that starts it (repeatable)
    ///
    /// The port is passed as '{port}' and in the variable PORT. The first server is the baseline.
    #[arg(long = "server", value_name = "NAME=COMMAND", required = true)]
    pub servers: Vec<String>,
    /// Path to request
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub path: String,
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// Builds the file.
///
/// # Errors
/// Fails if a server is not of the form NAME=COMMAND, if there is only one server, if two servers
/// have the same name, or if the path is invalid.
fn server_files(args: &ServersArgs) -> Result<StarterFiles> {
    let file = args.place.definition_file("servers.toml");
    let mut servers: Vec<(String, Vec<String>)> = Vec::new();
    for text in &args.servers {
        let (name, command) = parse_server(text)?;
        let is_new = servers.iter().all(|(existing, _)| *existing != name);
        ensure!(is_new, "two servers are named '{name}'");
        servers.push((name, command));
    }
    if servers.len() < 2 {
        bail!("a single server cannot be compared\nhint: give --server NAME=COMMAND once more");
    }
    let is_path = args.path.starts_with('/') && !args.path.contains(char::is_whitespace);
    ensure!(is_path, "invalid path '{}': expected a path such as '/'", args.path);
    let requirements = servers.iter().filter_map(|(_, command)| program_requirement(command));
    let mut requirements: Vec<String> = requirements.collect();
    requirements.sort();
    requirements.dedup_by(|first, second| first.split(' ').next() == second.split(' ').next());
    let cwd = cwd_line(&file)?;
    let variants: Vec<String> = servers.iter().map(variant_table).collect();
    let names: Vec<&str> = servers.iter().map(|(name, _)| name.as_str()).collect();
    let text = fill_template(
        SERVERS_TEMPLATE,
        &[
            ("FILE", &shell_words::quote(&file.to_string_lossy())),
            ("QUESTION", &quote_toml(&format!("Which answers faster: {}?", names.join(", ")))),
            ("REQUIRES", &requires_table(&requirements)),
            ("VARIANTS", &variants.join("\n")),
            ("CWD", cwd.as_deref().unwrap_or("# cwd = \".\"\n")),
            ("PATH", &quote_toml(&escape_text(&args.path))),
            ("FIRST", &quote_toml(names[0])),
        ],
    );
    Ok(StarterFiles { files: vec![(file.clone(), text)], target: file, ..StarterFiles::default() })
}

fn parse_server(text: &str) -> Result<(String, Vec<String>)> {
    let (name, command) = text
        .split_once('=')
        .with_context(|| format!("cannot parse server '{text}': expected NAME=COMMAND"))?;
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
    ensure!(is_name, "invalid server name '{name}'\nhint: use letters, digits, '.', '_', '-'");
    let arguments =
        shell_words::split(command).with_context(|| format!("cannot parse command '{command}'"))?;
    ensure!(!arguments.is_empty(), "the server '{name}' has no command");
    Ok((name.to_owned(), arguments))
}

/// Formats a variant as TOML. The only placeholder in a command is `{port}`; other braces are
/// literal.
fn variant_table((name, command): &(String, Vec<String>)) -> String {
    let command = toml_array(command).replace("{{port}}", "{port}");
    format!("[[variant]]\nname = {}\ncommand = {command}\n", quote_toml(name))
}

const TOPOLOGY: &str = include_str!("templates/topology.toml");
const SERVER: &str = include_str!("templates/server.js");

/// Write an experiment: six ways to split a Node.js HTTP server into processes
#[derive(Debug, Clone, Args)]
struct TopologyArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// Builds the definition file and `server.js`.
fn topology_files(args: &TopologyArgs) -> StarterFiles {
    let file = args.place.definition_file("topology.toml");
    let name = shell_words::quote(&file.to_string_lossy()).into_owned();
    StarterFiles {
        files: vec![
            (file.clone(), fill_template(TOPOLOGY, &[("FILE", &name)])),
            (file.with_file_name("server.js"), SERVER.to_owned()),
        ],
        target: file,
        // Few requests suffice for a first look at six variants.
        shortened: &["--set", "requests=500"],
        ..StarterFiles::default()
    }
}

/// Write a folder with a small benchmark for each language found on this machine
#[derive(Debug, Clone, Args)]
struct SuiteArgs {
    /// Folder to write to
    #[arg(value_name = "FOLDER", default_value = "bench")]
    pub folder: PathBuf,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
}

/// For each language: its programs, and the name and the text of its benchmark file. A language is
/// available if one of the programs is installed.
const LANGUAGES: [(&[&str], &str, &str); 3] = [
    (&["node"], "split.js", include_str!("templates/suite/split.js")),
    (&["python3"], "words.py", include_str!("templates/suite/words.py")),
    (&["c++", "g++", "clang++"], "text.cpp", include_str!("templates/suite/text.cpp")),
];

/// Builds the files.
///
/// # Errors
/// Fails if no language for benchmarks is installed.
fn suite_files(args: &SuiteArgs) -> Result<StarterFiles> {
    let is_installed = |name: &&str| resolve_program(Path::new(name)).is_ok();
    let installed = LANGUAGES.iter().filter(|(programs, ..)| programs.iter().any(is_installed));
    let files: Vec<(PathBuf, String)> =
        installed.map(|(_, file, text)| (args.folder.join(file), (*text).to_owned())).collect();
    if files.is_empty() {
        bail!("found none of node, python3, c++, g++, clang++ in PATH");
    }
    Ok(StarterFiles { files, target: args.folder.clone(), ..StarterFiles::default() })
}

/// Write a commented table `[suite.NAME]` for your own benchmark tool, and try it
///
/// The table describes how the tool lists its cases, executes one, and writes results (docs/reference/suites.md). With
/// TARGET, the table is tried at once and problems are reported.
#[derive(Debug, Clone, Args)]
struct AdapterArgs {
    /// Name of the suite
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Benchmark program of the suite, on which to try the table
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    /// File to write [default: NAME.toml]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
    /// Only write the table, without trying it
    #[arg(long)]
    pub no_look: bool,
}

/// Builds the file of an adapter.
///
/// # Errors
/// Fails if the name is empty or contains anything but letters, digits and hyphens.
fn adapter_files(args: &AdapterArgs) -> Result<StarterFiles> {
    let is_key_character = |c: char| c.is_ascii_alphanumeric() || c == '-';
    ensure!(
        !args.name.is_empty() && args.name.chars().all(is_key_character),
        "invalid suite name '{}': expected letters, digits and hyphens",
        args.name
    );
    let file = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.toml", args.name)));
    let target = args.target.as_deref().unwrap_or("./bench-tool");
    let file_name = file.to_string_lossy();
    let values = [("NAME", args.name.as_str()), ("FILE", &file_name), ("TARGET", target)];
    let text = fill_template(include_str!("templates/adapter.toml"), &values);
    Ok(StarterFiles {
        files: vec![(file.clone(), text)],
        beside: Some(file.clone()),
        target: PathBuf::from(format!("{}:{target}", args.name)),
        ..StarterFiles::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_survives_parsing_as_toml() {
        for text in
            ["a b", "a\"b", "it's", "back\\slash", "'\"\\", "new\nline", "ä😀", "\u{7f}\u{1}"]
        {
            let parsed: toml::Table = format!("x = {}", quote_toml(text)).parse().unwrap();
            assert_eq!(parsed["x"].as_str(), Some(text), "{text:?}");
        }
    }
}
