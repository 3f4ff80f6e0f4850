//! Drop-in for `bar.R`: a chart of mean rates from the CSV of `compare.js`.
//!
//! Without `--plot` it reads its input and prints nothing, as the original does. Start at [`run`].

use super::compare_r::Table;
use super::console::Console;
use super::r_collation::Collation;
use super::r_options::ROptions;
use crate::exchange::node_csv::Groups;
use crate::report::plot_r::{self, ComparedMeans, Picture};
use anyhow::Result;

const TOOL: &str = "bar.R";
const USAGE: &str = include_str!("usage/bar.R.txt");

/// Reads standard input and draws; returns the exit status.
///
/// # Errors
/// The input is no output of `compare.js`, or the picture cannot be written.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    let options = match ROptions::parse(arguments, &["help", "plot"]) {
        Ok(options) => options,
        Err(word) => {
            return Ok(console.refuse(TOOL, &format!("unknown option '{word}'"), USAGE)?);
        }
    };
    if options.has("help") {
        return Ok(console.help(USAGE)?);
    }
    if options.lacks_value("plot") {
        return Ok(console.refuse(TOOL, "", USAGE)?);
    }
    let picture = options.value("plot").map(Picture::at).transpose()?;
    let groups = Groups::read(&mut *console.stdin)?;
    for warning in groups.warnings() {
        console.warn(TOOL, &warning)?;
    }
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
