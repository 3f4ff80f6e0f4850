//! Expands command lines with parameters into one command for each combination of values, in
//! hyperfine's order. Start at [`expand_commands`].

use clap::{ArgAction, Args};
use speedwell_engine::eval::{parse_list, parse_range};
use speedwell_model::{Case, ParameterValue, format_fixed};

/// A command with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredCommand {
    name: Option<String>,
    template: String,
    /// Names and values, in the order typed.
    pub parameters: Vec<(String, String)>,
}

impl MeasuredCommand {
    /// Creates a command without parameters.
    pub fn without_parameters(name: Option<&str>, line: &str) -> MeasuredCommand {
        MeasuredCommand {
            name: name.map(str::to_owned),
            template: line.to_owned(),
            parameters: Vec::new(),
        }
    }

    /// Replaces `{name}` placeholders in a string with this command's values.
    pub fn fill_parameters(&self, text: &str) -> String {
        let parameters = self.parameters.iter();
        let pairs: Vec<(String, String)> =
            parameters.map(|(name, value)| (format!("{{{name}}}"), value.clone())).collect();
        format_fixed(text, &pairs)
    }

    /// Returns the command line to execute.
    pub fn command_line(&self) -> String {
        self.fill_parameters(&self.template)
    }

    /// Returns the name in exports.
    pub fn name(&self) -> String {
        self.fill_parameters(self.name.as_deref().unwrap_or(&self.template))
    }

    /// Returns the name in tables: the name in exports, followed by the parameters that the command
    /// line does not mention.
    pub fn table_title(&self) -> String {
        let is_unused = |name: &String| !self.template.contains(&format!("{{{name}}}"));
        let unused = self.parameters.iter().filter(|(name, _)| is_unused(name));
        let unused: Vec<String> = unused.map(|(name, value)| format!("{name} = {value}")).collect();
        if unused.is_empty() {
            self.name()
        } else {
            format!("{} ({})", self.name(), unused.join(", "))
        }
    }
}

/// Parameters as typed.
#[derive(Debug, Clone, Default, Args)]
pub struct TypedParameters {
    /// Replace '{VAR}' in commands and in CMD with every number from MIN to MAX
    #[arg(
        short = 'P',
        long = "parameter-scan",
        value_names = ["VAR", "MIN", "MAX"],
        num_args = 3,
        action = ArgAction::Set,
        allow_hyphen_values = true
    )]
    pub scan: Vec<String>,
    /// Step between these numbers [default: 1]
    #[arg(short = 'D', long = "parameter-step-size", value_name = "STEP", requires = "scan")]
    pub step: Option<String>,
    /// Replace '{VAR}' in commands and in CMD with each of the values V,V... (repeatable)
    #[arg(
        short = 'L',
        long = "parameter-list",
        value_names = ["VAR", "V,V..."],
        num_args = 2,
        conflicts_with_all = ["scan", "step"],
        allow_hyphen_values = true
    )]
    pub lists: Vec<String>,
}

/// Creates a command for every combination of a command line and parameter values. In the result,
/// the command line changes fastest, and then the value of the first parameter.
///
/// # Errors
/// Fails if a range is invalid, a parameter is given twice, or the number of names does not match
/// the number of commands.
pub fn expand_commands(
    lines: &[String],
    names: &[String],
    parameters: &TypedParameters,
) -> Result<Vec<MeasuredCommand>, String> {
    let rows = parameter_rows(parameters)?;
    let count = rows.len() * lines.len();
    let has_parameters = !rows.iter().all(Vec::is_empty);
    if !has_parameters && names.len() > count {
        return Err(format!("--command-name was given {} times for {count} commands", names.len()));
    }
    if has_parameters && names.len() > 1 && names.len() != count {
        return Err(format!(
            "--command-name was given {} times for {count} commands\nhint: give it once for all, \
             or once for each",
            names.len()
        ));
    }
    let mut commands = Vec::new();
    for row in &rows {
        for line in lines {
            let shared_name = names.first().filter(|_| has_parameters);
            let name = names.get(commands.len()).or(shared_name).map(String::as_str);
            commands.push(MeasuredCommand {
                parameters: row.clone(),
                ..MeasuredCommand::without_parameters(name, line)
            });
        }
    }
    Ok(commands)
}

/// Names and values of one command.
type ParameterRow = Vec<(String, String)>;

/// Returns every combination of values. From row to row, the value of the first parameter changes
/// fastest. Without parameters, there is a single empty row.
fn parameter_rows(parameters: &TypedParameters) -> Result<Vec<ParameterRow>, String> {
    if let [name, first, last] = &parameters.scan[..] {
        let is_whole = |text: &str| text.parse::<i32>().is_ok();
        if parameters.step.is_none() && !(is_whole(first) && is_whole(last)) {
            let reason = "fractional numbers need a step\nhint: add one, such as \
                       --parameter-step-size 0.1";
            return Err(reason.to_owned());
        }
        let numbers = parse_range(first, last, parameters.step.as_deref())
            .map_err(|error| error.to_string())?;
        return Ok(numbers.into_iter().map(|number| vec![(name.clone(), number)]).collect());
    }
    let mut lists: Vec<(String, Vec<ParameterValue>)> = Vec::new();
    for pair in parameters.lists.chunks_exact(2) {
        if lists.iter().any(|(name_before, _)| *name_before == pair[0]) {
            return Err(format!("the parameter '{}' was given more than once", pair[0]));
        }
        lists.push((
            pair[0].clone(),
            parse_list(&pair[1]).into_iter().map(ParameterValue::Text).collect(),
        ));
    }
    lists.reverse();
    let rows = Case::cartesian_product(&lists).map_err(|error| error.to_string())?;
    let to_row = |row: Vec<(String, ParameterValue)>| -> ParameterRow {
        let values = row.into_iter().rev();
        values.map(|(name, value)| (name, value.plain())).collect()
    };
    Ok(rows.into_iter().map(to_row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn expanded_titles(
        lines: &[&str],
        names: &[&str],
        parameters: &TypedParameters,
    ) -> Vec<String> {
        expand_commands(&texts(lines), &texts(names), parameters)
            .unwrap()
            .iter()
            .map(MeasuredCommand::table_title)
            .collect()
    }

    #[test]
    fn commands_come_in_the_order_of_the_original() {
        let lists = TypedParameters { lists: texts(&["x", "1,2", "y", "a"]), ..Default::default() };
        assert_eq!(
            expanded_titles(&["f {x}", "g"], &[], &lists),
            ["f 1 (y = a)", "g (x = 1, y = a)", "f 2 (y = a)", "g (x = 2, y = a)"]
        );
        let scan = TypedParameters {
            scan: texts(&["d", "0.3", "0.5"]),
            step: Some("0.1".to_owned()),
            ..TypedParameters::default()
        };
        assert_eq!(expanded_titles(&["s {d}"], &["n{d}"], &scan), ["n0.3", "n0.4", "n0.5"]);
    }

    #[test]
    fn placeholders_inside_values_are_not_replaced() {
        let lists = TypedParameters {
            lists: texts(&["foo", "{bar} baz", "bar", "quux"]),
            ..TypedParameters::default()
        };
        assert_eq!(expanded_titles(&["echo {foo} {bar}"], &[], &lists), ["echo {bar} baz quux"]);
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let cases: [(&[&str], &[&str]); 4] = [
            (&["d", "0.3", "0.5"], &[]),
            (&["d", "5", "3"], &[]),
            (&["d", "a", "3"], &[]),
            (&[], &["x", "1", "x", "2"]),
        ];
        for (scan, lists) in cases {
            let parameters = TypedParameters { scan: texts(scan), lists: texts(lists), step: None };
            let expanded = expand_commands(&texts(&["a"]), &[], &parameters);
            assert!(expanded.is_err(), "{parameters:?}");
        }
        let names = texts(&["x", "y"]);
        assert!(expand_commands(&texts(&["a"]), &names, &TypedParameters::default()).is_err());
    }
}
