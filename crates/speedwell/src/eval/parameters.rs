//! From words to the parameters of snippets: ranges and lists, each name once. Start at [`read`].

use crate::options::ParameterArgs;
use anyhow::{Context, bail, ensure};
use speedwell_measure::eval::parameters::{list, range, values};
use speedwell_model::{Case, Value};

/// The parameters in the order of their kinds and, within one, as typed.
///
/// # Errors
/// Names that cannot be parameters or are given twice, numbers that are none, empty ranges.
pub fn read(args: &ParameterArgs) -> anyhow::Result<Vec<(String, Vec<Value>)>> {
    let mut parameters: Vec<(String, Vec<Value>)> = Vec::new();
    let mut add = |name: &str, values: Vec<Value>| -> anyhow::Result<()> {
        let refused = match name {
            "code" | "concurrency" => Some("every snippet has a parameter of this name already"),
            name => Case::refuses_name(name),
        };
        if let Some(why) = refused {
            bail!("'{name}' cannot be the name of a parameter: {why}");
        }
        ensure!(
            parameters.iter().all(|(known, _)| known != name),
            "the parameter '{name}' is given twice"
        );
        parameters.push((name.to_owned(), values));
        Ok(())
    };
    let scans = args.parameter_scan.chunks_exact(3);
    let steps = &args.parameter_step_size;
    ensure!(
        steps.len() <= 1 || steps.len() == scans.len(),
        "--parameter-step-size is given {} times for {} scan(s)\nhint: once for all scans, or once for each, in their order",
        steps.len(),
        scans.len()
    );
    for (at, scan) in scans.enumerate() {
        let step = steps.get(at).or(steps.first()).map(String::as_str);
        let numbers = range(&scan[1], &scan[2], step);
        let numbers = numbers.with_context(|| format!("in --parameter-scan '{}'", scan[0]))?;
        let numbers = numbers.iter().filter_map(|text| text.parse().ok());
        add(&scan[0], numbers.map(Value::Number).collect()).context("in --parameter-scan")?;
    }
    for pair in args.parameter_list.chunks_exact(2) {
        add(&pair[0], values(&list(&pair[1]))).context("in --parameter-list")?;
    }
    Ok(parameters)
}
