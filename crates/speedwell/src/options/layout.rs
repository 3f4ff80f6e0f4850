//! Defines the options that vary the memory layout of a program between runs.

use super::parse;
use anyhow::ensure;
use clap::{Args, ValueEnum};
use speedwell_model::LayoutVariation;

/// Layout options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Execution")]
pub struct LayoutArgs {
    /// Link each variant in N different layouts (C, C++, Rust, Go)
    ///
    /// Each build orders functions and data differently, and run i executes build i. With fewer builds than runs,
    /// builds are compared instead of runs.
    #[arg(long, value_name = "N", value_parser = builds, conflicts_with = "resume")]
    pub builds: Option<u32>,
    /// Vary the memory layout: sections, env, stack, align or none
    ///
    /// 'sections' orders functions and data differently in each build. 'env' varies the size of the environment in each
    /// run, 'stack' the length of the program's path. 'align' aligns functions to 64 bytes [default: none; with
    /// --builds: sections,env,stack].
    #[arg(long, value_name = "PART[,PART...]", value_delimiter = ',', conflicts_with = "resume")]
    pub layout: Vec<LayoutPart>,
}

/// Parts of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutPart {
    /// Order of functions and data.
    Sections,
    /// Size of the environment.
    Env,
    /// Length of the program's path.
    Stack,
    /// Functions aligned to 64 bytes.
    Align,
    /// The usual layout.
    None,
}

impl LayoutArgs {
    /// Converts the options to the requested variation of the layout.
    ///
    /// # Errors
    /// Fails if options conflict.
    pub fn build_layout(&self) -> anyhow::Result<LayoutVariation> {
        use LayoutPart::*;
        let has_part = |part| self.layout.contains(&part);
        let uses_defaults = self.layout.is_empty() && self.builds.is_some();
        ensure!(
            !has_part(None) || (self.layout.len() == 1 && self.builds.is_none()),
            "'--layout none' cannot be combined with --builds or other parts\nhint: leave out 'none', or the rest"
        );
        ensure!(
            !has_part(Sections) || self.builds.is_some(),
            "'--layout sections' needs several builds\nhint: add --builds 32"
        );
        ensure!(
            self.builds.is_none() || uses_defaults || has_part(Sections),
            "--builds varies the order of sections, but '--layout' leaves 'sections' out\nhint: use --layout sections,env,stack"
        );
        Ok(LayoutVariation {
            builds: self.builds.unwrap_or(0),
            env: uses_defaults || has_part(Env),
            stack: uses_defaults || has_part(Stack),
            align: has_part(Align),
        })
    }
}

/// Parses a number of builds, at least 2.
fn builds(text: &str) -> Result<u32, String> {
    match parse::count(text)? {
        1 => Err("expected 2 builds or more: a single build has a single layout".to_owned()),
        builds => Ok(builds),
    }
}
