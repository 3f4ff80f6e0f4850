//! Options for varying the memory layout of a program between runs.

use super::parse;
use anyhow::ensure;
use clap::{Args, ValueEnum};
use speedwell_model::LayoutVariation;

/// Layout options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Execution")]
pub struct LayoutArgs {
    /// Link each variant N times in different layouts (C, C++, Rust, Go)
    ///
    /// Functions and data are in another order in each build, and run i executes build i. With fewer builds than runs,
    /// builds are what is compared.
    #[arg(long, value_name = "N", value_parser = builds, conflicts_with = "resume")]
    pub builds: Option<u32>,
    /// Vary the memory layout: sections, env, stack, align or none
    ///
    /// In every run differ: the sections of each build, the size of the environment (env), the length of the path
    /// (stack). 'align' puts functions at multiples of 64 bytes [default: none; with --builds sections,env,stack].
    #[arg(
        long,
        value_name = "PART[,PART...]",
        value_delimiter = ',',
        conflicts_with = "resume"
    )]
    pub layout: Vec<LayoutPart>,
}

/// Parts of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutPart {
    /// Order of functions and data.
    Sections,
    /// Size of the environment.
    Env,
    /// Length of the path that a program is started under.
    Stack,
    /// Functions at multiples of 64 bytes.
    Align,
    /// As always.
    None,
}

impl LayoutArgs {
    /// Converts the options to a layout.
    ///
    /// # Errors
    /// Fails if options conflict.
    pub fn build_layout(&self) -> anyhow::Result<LayoutVariation> {
        use LayoutPart::*;
        let has = |part| self.layout.contains(&part);
        let by_default = self.layout.is_empty() && self.builds.is_some();
        ensure!(
            !has(None) || (self.layout.len() == 1 && self.builds.is_none()),
            "'--layout none' leaves everything where it is\nhint: leave out 'none', or the rest"
        );
        ensure!(
            !has(Sections) || self.builds.is_some(),
            "'--layout sections' needs builds that differ in them\nhint: --builds 32"
        );
        ensure!(
            self.builds.is_none() || by_default || has(Sections),
            "builds differ in the order of their sections, which '--layout' leaves out\nhint: --layout sections,env,stack"
        );
        Ok(LayoutVariation {
            builds: self.builds.unwrap_or(0),
            env: by_default || has(Env),
            stack: by_default || has(Stack),
            align: has(Align),
        })
    }
}

/// Parses a number of builds, at least 2.
fn builds(text: &str) -> Result<u32, String> {
    match parse::count(text)? {
        1 => Err("one build has one layout, as without --builds; 2 or more differ".to_owned()),
        builds => Ok(builds),
    }
}
