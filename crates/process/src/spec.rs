//! What to start, and how long to wait for it.

use super::{Channel, CpuSet};
use speedwell_model::quote;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program to start once.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program: a path, or a name to be found in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables added to our own environment.
    pub environment: Vec<(String, String)>,
    /// Variables taken out of our own environment.
    pub unset: Vec<String>,
    /// The working directory; ours when `None`.
    pub directory: Option<PathBuf>,
    /// Processors it may use; all when `None`.
    pub pin: Option<CpuSet>,
    /// After this time it is ended.
    pub limit: Duration,
    /// Its private line.
    pub channel: Channel,
    /// How it is asked to end, where somebody decides that it has to.
    pub farewell: Farewell,
}

/// How a child is asked to end before it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Farewell {
    /// The number of the signal that its group gets.
    pub signal: i32,
    /// How long its end may take.
    pub grace: Duration,
}

impl Default for Farewell {
    fn default() -> Farewell {
        Farewell {
            signal: libc::SIGTERM,
            grace: Duration::from_secs(3),
        }
    }
}

impl Spec {
    /// Starts `program` without arguments, with a limit of one minute.
    pub fn new(program: impl AsRef<Path>) -> Spec {
        Spec {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            unset: Vec::new(),
            directory: None,
            pin: None,
            limit: Duration::from_secs(60),
            channel: Channel::None,
            farewell: Farewell::default(),
        }
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item = S>, S: Into<String>>(mut self, arguments: I) -> Spec {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Spec {
        self.environment.push((name.into(), value.into()));
        self
    }
}

/// The shell line that starts what `spec` describes: folder, variables, program, arguments.
pub fn replay(spec: &Spec) -> String {
    let mut words = Vec::new();
    if let Some(folder) = &spec.directory {
        words.push(format!("cd {} &&", quote(&folder.to_string_lossy())));
    }
    for (name, value) in &spec.environment {
        words.push(format!("{name}={}", quote(value)));
    }
    words.push(quote(&spec.program.to_string_lossy()));
    words.extend(spec.arguments.iter().map(|argument| quote(argument)));
    words.join(" ")
}
