//! What is shown of a session whose runs were HTTP loads.
//!
//! Decides when the loads speak for themselves: a single one has more to say than the medians of one
//! value each; repeated ones are runs like any others, and their details stand behind them.

use speedwell_analysis::load::LoadFindings;
use speedwell_analysis::load::gate::Condition;
use speedwell_analysis::{self as analysis, Settings};
use speedwell_model::Session;
use speedwell_report::{self as report, Document, Output};

/// The report of a session with these loads.
///
/// # Errors
/// A unit or chart that does not fit.
pub fn document(
    session: &Session,
    loads: &[LoadFindings<'_>],
    settings: &Settings,
    output: &Output,
) -> anyhow::Result<Document> {
    let conditions = conditions(session);
    let levels = analysis::load::levels(loads);
    let rates = analysis::load::rates(loads, &conditions);
    if !levels.is_empty() || !rates.is_empty() {
        return Ok(report::load::search(loads, &levels, &rates, output));
    }
    let details = report::load::document(loads, output);
    let is_repeated = loads.iter().any(|load| load.run.round > 0);
    if !is_repeated || session.runs.is_empty() {
        return Ok(details);
    }
    let mut document = report::findings(&analysis::analyse(session, settings), output)?;
    document.append(details);
    Ok(document)
}

/// The limits that were set when the session was measured: the search for a rate was held against them.
fn conditions(session: &Session) -> Vec<Condition> {
    let parsed = |text: &String| text.parse().ok();
    if !session.design.conditions.is_empty() {
        return session
            .design
            .conditions
            .iter()
            .filter_map(parsed)
            .collect();
    }
    // Sessions of earlier versions hold them only among the words typed.
    let mut words = session.command.iter();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let text = match word.strip_prefix("--fail-on") {
            Some("") => words.next().map(String::as_str),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        found.extend(text.and_then(|text| text.parse().ok()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_results::formats;

    #[test]
    fn limits_are_those_of_the_design_or_in_older_sessions_those_typed() {
        let words = [
            "speedwell",
            "load",
            "--fail-on",
            "p99>20ms",
            "--fail-on=errors>1%",
        ];
        let rows = "\"filename\",\"configuration\",\"rate\",\"time\"\n\"a/b.js\",\"n=1\",10,1\n";
        let mut session = formats::read("x", rows.as_bytes()).unwrap().remove(0);
        session.command = words.map(str::to_owned).to_vec();
        let texts = |session: &Session| -> Vec<String> {
            conditions(session)
                .into_iter()
                .map(|limit| limit.text)
                .collect()
        };
        assert_eq!(texts(&session), ["p99>20ms", "errors>1%"]);
        session.design.conditions = vec!["p50>1ms".to_owned()];
        assert_eq!(texts(&session), ["p50>1ms"]);
    }
}
