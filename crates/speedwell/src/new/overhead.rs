//! `speedwell new overhead`: writes an experiment that measures the cost of loading a module.

use super::templates::{PlaceArgs, StarterFiles};
use super::templates::{
    fill_template, program_requirement, quote_toml, requires_table, toml_array,
};
use anyhow::{Result, bail};
use clap::Args;
use speedwell_config::escape_text;
use std::path::{Path, PathBuf};

const TEMPLATE: &str = include_str!("templates/overhead.toml");
const SITECUSTOMIZE: &str = include_str!("templates/sitecustomize.py");

/// Folder from which Python preloads modules, next to the definition file.
const PRELOAD: &str = "preload";

/// Write an experiment: what does loading a module cost a program?
#[derive(Debug, Clone, Args)]
pub struct OverheadArgs {
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
pub fn overhead_files(args: &OverheadArgs) -> Result<StarterFiles> {
    let file = args.place.definition_file("overhead.toml");
    let folder = args.place.definition_folder("overhead.toml");
    let current_folder = std::env::current_dir()?;
    let cwd = args.place.cwd_line("overhead.toml")?;
    let root = cwd.is_none().then_some("{root}");
    let loading = module_loading(&args.require, root, &current_folder)?;
    let module = args.require.rsplit('/').next().unwrap_or(&args.require);
    let program = args.command.join(" ");
    let question = format!("How much slower is '{program}' with {module} loaded?");
    let requirements: Vec<String> = program_requirement(&args.command).into_iter().collect();
    let text = fill_template(
        TEMPLATE,
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
    let additional_files = loading.files.into_iter();
    files.extend(additional_files.map(|(path, text)| (folder.join(path), text)));
    Ok(StarterFiles { files, target: file, ..StarterFiles::default() })
}

/// Decides how to load a module. `root` is the placeholder by which the definition file refers to
/// `current_folder`, or `None` if the file lies elsewhere.
fn module_loading(
    module: &str,
    root: Option<&str>,
    current_folder: &Path,
) -> Result<ModuleLoading> {
    let path = current_folder.join(module);
    let is_file = path.is_file();
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
    let extension =
        Path::new(module).extension().unwrap_or_default().to_string_lossy().into_owned();
    match extension.as_str() {
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
    let env_line = format!(
        "env = {{ PYTHONPATH = {{ prepend = \"{{root}}/{PRELOAD}\" }}, SPEEDWELL_PRELOAD = {} }}",
        quote_toml(&format!("{}/{stem}", parent.display()))
    );
    ModuleLoading {
        env: env_line,
        files: vec![(PathBuf::from(PRELOAD).join("sitecustomize.py"), SITECUSTOMIZE.to_owned())],
        explanation: "At startup, Python imports sitecustomize.py from the folder 'preload', which \
              imports the module.",
    }
}
