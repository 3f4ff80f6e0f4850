//! What `calibrate-n.js` prints, line by line.
//!
//! Labels and figures are where the original has them, for those who read them by a program; sentences are our own.

use super::options::Options;
use speedwell_analysis::iterations::{Level, Spread};
use std::io::{self, Write};

/// What is going to be done.
pub fn heading(out: &mut dyn Write, options: &Options) -> io::Result<()> {
    let rule = "-".repeat(56);
    writeln!(out, "\n{rule}\nBenchmark: {}\n{rule}", options.path)?;
    writeln!(
        out,
        "Looks for the least number of iterations (n) with which results are steady: the mean of the\n\
         coefficients of variation (CV) is below {}% and none is above {}%.\n",
        percent(options.enough.mean),
        options.enough.single * 100.0
    )?;
    writeln!(
        out,
        "Configuration:\n- Starting n: {} iterations\n- Runs per n value: {}\n- Target CV threshold: {}%\n\
         - Max increases: {}\n- Increase factor: {}x",
        options.start,
        options.runs,
        percent(options.enough.mean),
        options.increases,
        options.factor
    )
}

/// Every configuration with its coefficient of variation.
pub fn cases(out: &mut dyn Write, level: &Level, options: &Options) -> io::Result<()> {
    for (name, variation) in level.cases() {
        let mark = if variation <= options.enough.mean {
            "✓ Stable"
        } else {
            "✗ Unstable"
        };
        writeln!(out, "\nConfiguration: {name}")?;
        writeln!(
            out,
            "  CV: {}% (the lower, the steadier)",
            percent(variation)
        )?;
        writeln!(out, "  Stability: {mark}")?;
    }
    Ok(())
}

/// All configurations together.
pub fn overall(out: &mut dyn Write, spread: &Spread, options: &Options) -> io::Result<()> {
    let (mean, target) = (percent(spread.mean), percent(options.enough.mean));
    let single = options.enough.single * 100.0;
    let unsteady = spread.unsteady(options.enough);
    writeln!(out, "\nOverall average CV: {mean}%")?;
    if spread.is_steady(options.enough) {
        return writeln!(
            out,
            "  ✓ Overall CV is below {target}%, that of each configuration at most {single}%"
        );
    }
    if spread.mean.is_nan() || spread.mean >= options.enough.mean {
        writeln!(out, "  ✗ Overall CV ({mean}%) is not below {target}%")?;
    }
    if unsteady > 0 {
        writeln!(
            out,
            "  ✗ {unsteady} configuration(s) have CV above {single}%"
        )?;
    }
    Ok(())
}

/// The best number until now.
pub fn best(out: &mut dyn Write, is_new: bool, level: &Level) -> io::Result<()> {
    let begin = if is_new {
        "New best n:"
    } else {
        "Current best n remains:"
    };
    writeln!(
        out,
        "  → {begin} {} with average CV: {}%",
        level.n,
        percent(level.spread.mean)
    )
}

/// A number that is enough.
pub fn found(out: &mut dyn Write, level: &Level, options: &Options) -> io::Result<()> {
    writeln!(
        out,
        "\n✓ Found optimal n={} (Overall CV={}% < {}% and no configuration has CV > {}%)",
        level.n,
        percent(level.spread.mean),
        percent(options.enough.mean),
        options.enough.single * 100.0
    )?;
    writeln!(out, "\nFinal CV for each configuration:")?;
    variations(out, level, None)
}

/// No number was enough: the best of them.
pub fn given_up(out: &mut dyn Write, level: &Level, options: &Options) -> io::Result<()> {
    writeln!(
        out,
        "Maximum number of increases ({}) reached",
        options.increases
    )?;
    writeln!(
        out,
        "Best n found: {} with average CV={}%",
        level.n,
        percent(level.spread.mean)
    )?;
    writeln!(out, "\nCV by configuration at best n:")?;
    variations(out, level, Some(options.enough.mean))?;
    writeln!(
        out,
        "\nRecommendation: let n grow further with --max-increases, accept more variation with --cv-threshold, or\n\
         look at the configurations that vary most. A busy machine varies whatever n is."
    )
}

/// The variation of every configuration; those above `target` are marked.
fn variations(out: &mut dyn Write, level: &Level, target: Option<f64>) -> io::Result<()> {
    for (name, variation) in level.cases() {
        writeln!(out, "  {name}: {}%", percent(variation))?;
        if let Some(target) = target
            && (variation.is_nan() || variation > target)
        {
            writeln!(out, "    ⚠️ above the target of {}%", percent(target))?;
        }
    }
    Ok(())
}

fn percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}
