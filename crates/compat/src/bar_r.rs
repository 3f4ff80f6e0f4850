//! Drop-in for `bar.R`: a chart of mean rates from the CSV of `compare.js`.
//!
//! Without `--plot` it reads its input and prints nothing, as the original does. Start at [`run`].

use super::compare_r::{Table, read_groups};
use super::console::Console;
use super::r_collation::Collation;
use super::r_options::ROptions;
use super::r_script::RScript;
use crate::plot_r::{self, ComparedMeans, Picture};
use anyhow::Result;

const SCRIPT: RScript = RScript {
    tool: "bar.R",
    usage: include_str!("usage/bar.R.txt"),
    options: &[],
};

/// Reads standard input and draws; returns the exit status.
///
/// # Errors
/// The input is no output of `compare.js`, or the picture cannot be written.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    SCRIPT.carry_out(arguments, console, draw)
}

fn draw(options: &ROptions, console: &mut Console<'_>) -> Result<i32> {
    let picture = options.value("plot").map(Picture::at).transpose()?;
    let groups = read_groups(SCRIPT.tool, console)?;
    if let Some(picture) = picture {
        let table = Table::of(&groups, Collation::of_environment(console.variable));
        let means: Vec<ComparedMeans<'_>> = table
            .rows()
            .iter()
            .map(|row| ComparedMeans {
                name: &row.name,
                old: row.row.mean_old,
                new: row.row.mean_new,
            })
            .collect();
        writeln!(console.stderr, "{}", picture.save(&plot_r::bars(&means))?)?;
    }
    Ok(0)
}
