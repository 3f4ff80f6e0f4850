//! Builds the reports of `tune`: the effect of each knob, the current changes, and the restored
//! settings. Start at [`report_knobs`], [`report_tuned`] and [`report_restored`].

use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::figure::{format_count, format_duration};
use crate::output::OutputOptions;
use crate::table::{ReportCell, ReportRow, TextEmphasis};
use serde_json::json;
use speedwell_model::quote;

/// A knob, which is a group of settings.
#[derive(Debug, Clone)]
pub struct KnobLine {
    /// The knob's name.
    pub name: &'static str,
    /// The knob's state.
    pub state: &'static str,
    /// The knob's benefit.
    pub effect: &'static str,
    /// A further remark; may be empty.
    pub note: String,
    /// The knob's settings.
    pub settings: Vec<SettingLine>,
}

/// A setting of the machine.
#[derive(Debug, Clone)]
pub struct SettingLine {
    /// The setting's file, or `service:` and a name for the state of a system service.
    pub path: String,
    /// The setting's state.
    pub state: String,
    /// The value before the change.
    pub before: String,
    /// The value after the change: the desired value in a plan, otherwise the current value.
    pub after: String,
}

/// A machine with changed settings.
#[derive(Debug, Clone)]
pub struct TunedMachine {
    /// Who changed the settings, in words.
    pub holder: String,
    /// Maximum time until the settings are restored, in milliseconds.
    pub left_ms: Option<u64>,
    /// The names of the knobs that are in their desired state.
    pub knobs: Vec<String>,
    /// The changed settings.
    pub settings: Vec<SettingLine>,
}

/// Reports all knobs. A plan also explains the benefit of each knob.
pub fn report_knobs(knobs: &[KnobLine], is_plan: bool, output: &OutputOptions) -> Document {
    let table = |has_remarks: bool| {
        let columns = knob_columns();
        let mut rows = Vec::new();
        for knob in knobs {
            rows.push(columns.build_row(knob));
            let remark = knob_remark(knob, is_plan);
            if has_remarks && !remark.is_empty() {
                rows.push(ReportRow::Remark(format!("→ {remark}")));
            }
        }
        ReportBlock::Table(columns.table_of_rows("knobs", rows))
    };
    let mut document = Document::new("knobs");
    output.add_shortened(
        &mut document,
        || vec![table(false)],
        |_, document| document.push(table(true)),
    );
    let settings = knobs
        .iter()
        .flat_map(|knob| knob.settings.iter().map(move |setting| (knob, setting)))
        .map(|(knob, setting)| {
            json!({
                "knob": knob.name, "path": setting.path, "state": setting.state,
                "before": setting.before, "after": setting.after,
            })
        });
    document.attach_data("settings", settings.collect());
    document
}

fn knob_columns() -> ColumnSet<KnobLine> {
    column_set! { knob: KnobLine;
        words("state", "state") => state_cell(knob.state),
        identifier("knob", "knob") => knob.name,
        label("before", "before") =>
            summarize_values(knob.settings.iter().map(|setting| &setting.before)),
        label("after", "after") =>
            summarize_values(knob.settings.iter().map(|setting| &setting.after)),
        machine("effect") => knob.effect,
        machine("note") => &knob.note,
    }
}

fn state_cell(state: &str) -> ReportCell {
    let (symbol, emphasis) = match state {
        "set" | "already" => ('✓', TextEmphasis::Good),
        "would set" => ('○', TextEmphasis::None),
        "cannot" => ('✗', TextEmphasis::Caution),
        _ => ('-', TextEmphasis::Muted),
    };
    ReportCell::marked(state, symbol, emphasis)
}

fn knob_remark(knob: &KnobLine, is_plan: bool) -> String {
    if !is_plan {
        return knob.note.clone();
    }
    let files = match &knob.settings[..] {
        [] => String::new(),
        [setting] => setting.path.clone(),
        [first, others @ ..] => format!("{} and {} more", first.path, others.len()),
    };
    let parts = [files, knob.effect.to_owned(), knob.note.clone()];
    let present: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    present.join("; ")
}

/// Summarizes the values of several files, as in `powersave` or `1 × performance, 3 × powersave`.
fn summarize_values<'a>(values: impl Iterator<Item = &'a String>) -> String {
    let mut counts: Vec<(&String, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(counted_value, _)| *counted_value == value) {
            Some((_, times)) => *times += 1,
            None => counts.push((value, 1)),
        }
    }
    match &counts[..] {
        [(value, _)] => (*value).clone(),
        several => {
            let phrases = several.iter().map(|(value, times)| format!("{times} × {value}"));
            phrases.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Reports the current state of a machine.
pub fn report_tuned(machine: Option<&TunedMachine>) -> Document {
    let mut document = Document::new("tuned");
    let Some(machine) = machine else {
        document.push(ReportBlock::Headline("this machine is not tuned".into()));
        return document;
    };
    let settings = format_count(machine.settings.len(), "setting is", "settings are");
    let time_left =
        machine.left_ms.map(|time_left| format!(", for at most {}", format_duration(time_left)));
    document.push(ReportBlock::Headline(format!(
        "{settings} changed by {}{}",
        machine.holder,
        time_left.unwrap_or_default()
    )));
    document.push(ReportBlock::Facts(vec![("knobs".to_owned(), machine.knobs.join(", "))]));
    let columns = column_set! { setting: SettingLine;
        identifier("path", "setting") => &setting.path,
        label("before", "before") => &setting.before,
        label("now", "now") => &setting.after,
        words("state", "state") => &setting.state,
    };
    document.push(ReportBlock::Table(columns.build_table("tuned_settings", &machine.settings)));
    document.attach_data(
        "tuned",
        json!({"holder": machine.holder, "left_ms": machine.left_ms, "knobs": machine.knobs}),
    );
    document
}

/// Reports the number of restored settings, `done`. Each setting in `others` was not restored.
pub fn report_restored(done: usize, others: &[SettingLine]) -> Document {
    let mut document = Document::new("restored");
    document.push(ReportBlock::Headline(format!(
        "restored: {}",
        format_count(done, "setting", "settings")
    )));
    document.push_warnings(&others.iter().map(not_restored_sentence).collect::<Vec<_>>());
    let not_restored: Vec<_> = others
        .iter()
        .map(|setting| {
            json!({
                "path": setting.path, "before": setting.before, "now": setting.after,
                "state": setting.state,
            })
        })
        .collect();
    document.attach_data("restored", json!({"done": done, "not_restored": not_restored}));
    document
}

/// Explains in a sentence why a setting was not restored.
pub fn not_restored_sentence(setting: &SettingLine) -> String {
    let SettingLine { path, before, after, state } = setting;
    match state.as_str() {
        "left alone" => format!("'{path}' is left alone: it has since been changed to '{after}'."),
        "gone" => format!("'{path}' is gone; it held '{before}'."),
        reason => format!(
            "'{path}' could not be restored: {reason}. Restore it with: {}",
            restore_command(path, before)
        ),
    }
}

/// Returns the shell command that restores a setting.
fn restore_command(path: &str, before: &str) -> String {
    match path.strip_prefix("service:") {
        Some(service) => format!("sudo systemctl start {service}"),
        None => format!("echo {} | sudo tee {path}", quote(before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_many_files_are_counted() {
        let shown = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            summarize_values(values.iter())
        };
        assert_eq!(shown(&["a", "a"]), "a");
        assert_eq!(shown(&["a", "b", "a"]), "2 × a, 1 × b");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn settings_that_cannot_be_restored_are_shown_with_a_restore_command() {
        let line = |path: &str| {
            not_restored_sentence(&SettingLine {
                path: path.into(),
                state: "the device cannot do it".into(),
                before: "a b".into(),
                after: String::new(),
            })
        };
        assert!(line("/proc/x").ends_with("echo 'a b' | sudo tee /proc/x"));
        assert!(line("service:irqbalance").ends_with("sudo systemctl start irqbalance"));
    }
}
