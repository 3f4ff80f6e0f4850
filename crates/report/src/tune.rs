//! The reports of `tune`: what each knob of the machine would change or has changed, what is changed now, and what was
//! put back. Start at [`knobs`], [`tuned`] and [`restored`].

use crate::document::{Block, Document};
use crate::figure::{count, duration};
use crate::output::Output;
use crate::table::{Cell, Column, Columns, Emphasis, Kind, Row};
use serde_json::json;
use speedwell_model::quote;

/// A knob.
#[derive(Debug, Clone)]
pub struct KnobLine {
    /// Its name.
    pub name: &'static str,
    /// Where it stands.
    pub state: &'static str,
    /// What it is good for.
    pub effect: &'static str,
    /// What is to be known besides; may be empty.
    pub note: String,
    /// Its settings.
    pub settings: Vec<SettingLine>,
}

/// A setting of the machine.
#[derive(Debug, Clone)]
pub struct SettingLine {
    /// Its file.
    pub path: String,
    /// Where it stands.
    pub state: String,
    /// What it held, or holds.
    pub before: String,
    /// What it should hold, or holds.
    pub after: String,
}

/// A machine with settings that were changed.
#[derive(Debug, Clone)]
pub struct TunedMachine {
    /// Who holds it, in words.
    pub holder: String,
    /// Time until the settings are put back at the latest, in milliseconds.
    pub left_ms: Option<u64>,
    /// The knobs that are as they should be.
    pub knobs: Vec<String>,
    /// The settings that were changed.
    pub settings: Vec<SettingLine>,
}

/// The report of all knobs; before anything is changed it says what each is good for.
pub fn knobs(knobs: &[KnobLine], is_plan: bool, output: &Output) -> Document {
    let table = |has_remarks: bool| {
        let columns = knob_columns();
        let mut rows = Vec::new();
        for knob in knobs {
            rows.push(columns.row(knob));
            let remark = remark(knob, is_plan);
            if has_remarks && !remark.is_empty() {
                rows.push(Row::Remark(format!("→ {remark}")));
            }
        }
        Block::Table(columns.table_of_rows("knobs", rows))
    };
    let mut document = Document::new("knobs");
    output.add_shortened(
        &mut document,
        || vec![table(false)],
        |_, document| document.push(table(true)),
    );
    let settings = knobs
        .iter()
        .flat_map(|knob| knob.settings.iter().map(move |one| (knob, one)));
    let settings = settings.map(|(knob, one)| {
        json!({
            "knob": knob.name, "path": one.path, "state": one.state,
            "before": one.before, "after": one.after,
        })
    });
    document.attach("settings", settings.collect());
    document
}

fn knob_columns() -> Columns<KnobLine> {
    let mut columns = Columns::new();
    columns.add(Column::words("state", "state"), |knob: &KnobLine| {
        let (symbol, emphasis) = symbol(knob.state);
        Cell::value(knob.state)
            .shown(format!("{symbol} {}", knob.state))
            .emphasised(emphasis)
    });
    columns.add(Column::new("knob", "knob", Kind::Identifier), |knob| {
        Cell::words(knob.name)
    });
    columns.add(Column::new("before", "before", Kind::Label), |knob| {
        Cell::words(in_one(knob.settings.iter().map(|one| &one.before)))
    });
    columns.add(Column::new("after", "after", Kind::Label), |knob| {
        Cell::words(in_one(knob.settings.iter().map(|one| &one.after)))
    });
    columns.add_value("effect", |knob| knob.effect);
    columns.add_value("note", |knob| knob.note.clone());
    columns
}

fn symbol(state: &str) -> (char, Emphasis) {
    match state {
        "set" | "already" => ('✓', Emphasis::Good),
        "would set" => ('○', Emphasis::None),
        "cannot" => ('✗', Emphasis::Caution),
        _ => ('-', Emphasis::Muted),
    }
}

fn remark(knob: &KnobLine, is_plan: bool) -> String {
    if !is_plan {
        return knob.note.clone();
    }
    let files = match &knob.settings[..] {
        [] => String::new(),
        [one] => one.path.clone(),
        [first, others @ ..] => format!("{} and {} more", first.path, others.len()),
    };
    let parts = [files, knob.effect.to_owned(), knob.note.clone()];
    let said: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    said.join("; ")
}

/// Values of several files in one cell: `powersave`, or `1 × performance, 3 × powersave`.
fn in_one<'a>(values: impl Iterator<Item = &'a String>) -> String {
    let mut counted: Vec<(&String, usize)> = Vec::new();
    for value in values {
        match counted.iter_mut().find(|(known, _)| *known == value) {
            Some((_, times)) => *times += 1,
            None => counted.push((value, 1)),
        }
    }
    match &counted[..] {
        [(value, _)] => (*value).clone(),
        several => {
            let words = several
                .iter()
                .map(|(value, times)| format!("{times} × {value}"));
            words.collect::<Vec<_>>().join(", ")
        }
    }
}

/// The report of a machine as it is now.
pub fn tuned(machine: Option<&TunedMachine>) -> Document {
    let mut document = Document::new("tuned");
    let Some(machine) = machine else {
        document.push(Block::Headline("this machine is not tuned".into()));
        return document;
    };
    let settings = count(machine.settings.len(), "setting is", "settings are");
    let left = machine
        .left_ms
        .map(|left| format!(", for {} at most", duration(left)));
    document.push(Block::Headline(format!(
        "{settings} changed by {}{}",
        machine.holder,
        left.unwrap_or_default()
    )));
    document.push(Block::Facts(vec![(
        "knobs".to_owned(),
        machine.knobs.join(", "),
    )]));
    let mut columns = Columns::new();
    columns.add(
        Column::new("path", "setting", Kind::Identifier),
        |one: &SettingLine| Cell::words(one.path.clone()),
    );
    columns.add(Column::new("before", "before", Kind::Label), |one| {
        Cell::words(one.before.clone())
    });
    columns.add(Column::new("now", "now", Kind::Label), |one| {
        Cell::words(one.after.clone())
    });
    columns.add(Column::words("state", "state"), |one| {
        Cell::words(one.state.clone())
    });
    document.push(Block::Table(
        columns.table("tuned_settings", &machine.settings),
    ));
    document.attach(
        "tuned",
        json!({"holder": machine.holder, "left_ms": machine.left_ms, "knobs": machine.knobs}),
    );
    document
}

/// The report of what was put back: how many settings, and each that is not as it was before.
pub fn restored(done: usize, others: &[SettingLine]) -> Document {
    let mut document = Document::new("restored");
    document.push(Block::Headline(format!(
        "put back: {}",
        count(done, "setting", "settings")
    )));
    document.push_warnings(&others.iter().map(not_restored).collect::<Vec<_>>());
    let others = others.iter().map(
        |one| json!({"path": one.path, "before": one.before, "now": one.after, "state": one.state}),
    );
    document.attach(
        "restored",
        json!({"done": done, "others": others.collect::<Vec<_>>()}),
    );
    document
}

/// Why a setting is not as it was before, in a sentence.
pub fn not_restored(one: &SettingLine) -> String {
    let SettingLine {
        path,
        before,
        after,
        state,
    } = one;
    match state.as_str() {
        "left alone" => format!("'{path}' is left alone: somebody changed it to '{after}'."),
        "gone" => format!("'{path}' is gone; it held '{before}'."),
        why => format!(
            "'{path}' could not be put back: {why}. Mend it with: {}",
            by_hand(path, before)
        ),
    }
}

/// The line that puts a setting back.
fn by_hand(path: &str, before: &str) -> String {
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
            in_one(values.iter())
        };
        assert_eq!(shown(&["a", "a"]), "a");
        assert_eq!(shown(&["a", "b", "a"]), "2 × a, 1 × b");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn what_cannot_be_put_back_is_said_with_the_line_that_does_it() {
        let line = |path: &str| {
            not_restored(&SettingLine {
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
