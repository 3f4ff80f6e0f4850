//! Fills templates (`@NAME@`), escapes text for TOML, and writes the resulting files.

use anyhow::{Context, Result, bail};
use clap::Args;
use speedwell_config::escape_text;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where files are written.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
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

    pub fn definition_folder(&self, default_name: &str) -> PathBuf {
        self.definition_file(default_name).parent().unwrap_or(Path::new("")).to_owned()
    }

    /// Returns the line of the definition file that runs commands in the current folder; `None` if
    /// the file lies there, because commands run in its folder by default.
    pub fn cwd_line(&self, default_name: &str) -> std::io::Result<Option<String>> {
        let current_folder = std::env::current_dir()?;
        let folder = current_folder.join(self.definition_folder(default_name));
        let is_current = std::path::absolute(folder)? == current_folder;
        let quoted_folder = quote_toml(&escape_text(&current_folder.to_string_lossy()));
        Ok((!is_current).then(|| format!("cwd = {quoted_folder}\n")))
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
pub fn write_files(starter_files: &StarterFiles, force: bool) -> Result<()> {
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

/// Replaces every `@NAME@` in a template with its value.
pub fn fill_template(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    text
}

/// Quotes a string for TOML. Placeholders in braces stay as they are. The escapes of JSON are also
/// valid in TOML.
pub fn quote_toml(text: &str) -> String {
    let is_simple = !text.contains(['\'']) && !text.chars().any(char::is_control);
    if text.contains(['"', '\\']) && is_simple {
        format!("'{text}'")
    } else {
        serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
    }
}

/// Formats strings as a TOML array. Escapes braces, so that they are not placeholders.
pub fn toml_array(arguments: &[String]) -> String {
    let quoted: Vec<String> =
        arguments.iter().map(|argument| quote_toml(&escape_text(argument))).collect();
    format!("[{}]", quoted.join(", "))
}

/// Returns the `[requires]` table, or an empty string if there are no requirements.
pub fn requires_table(requirements: &[String]) -> String {
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
pub fn program_requirement(command: &[String]) -> Option<String> {
    let program = command.first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let programs = ["node", "nodejs", "python", "python3", "deno", "bun", "ruby", "php"];
    if !programs.contains(&name) {
        return None;
    }
    let version_command = toml_array(&[program.clone(), "--version".to_owned()]);
    Some(format!("{name} = {{ command = {version_command}, match = '(?P<version>\\d+\\.\\S*)' }}"))
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
