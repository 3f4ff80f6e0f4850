//! The gates of an experiment: which are broken.

use crate::document::{Block, Document};
use crate::quantity::change_with_interval;
use serde_json::{Value, json};
use speedwell_analysis::experiment::Found;

/// A sentence for every broken gate, and for machines all of them.
pub fn gates(found: &Found) -> Document {
    let mut document = Document::new("gates");
    if found.gates.is_empty() {
        return document;
    }
    let broken: Vec<String> = found
        .gates
        .iter()
        .filter(|gate| gate.is_broken)
        .map(|gate| {
            let change = gate
                .change
                .as_ref()
                .map(change_with_interval)
                .unwrap_or_default();
            format!(
                "'{}' does not keep '{}' in {}: {change}",
                gate.candidate, gate.text, gate.case
            )
        })
        .collect();
    let kept = found.gates.iter().filter(|gate| gate.is_kept).count();
    let open = found.gates.len() - kept - broken.len();
    let sentence = format!(
        "Gates: {kept} of {} kept, {} broken, {open} not decided by the data.",
        found.gates.len(),
        broken.len()
    );
    document.push(Block::Paragraph(sentence));
    if !broken.is_empty() {
        document.push(Block::List(broken));
    }
    let data: Vec<Value> = found
        .gates
        .iter()
        .map(|gate| {
            json!({
                "gate": gate.text,
                "group": gate.group,
                "case": gate.case,
                "candidate": gate.candidate,
                "change": gate.change.map(|change| change.value),
                "change_low": gate.change.map(|change| change.low),
                "change_high": gate.change.map(|change| change.high),
                "kept": gate.is_kept,
                "broken": gate.is_broken,
            })
        })
        .collect();
    document.attach("gates", Value::Array(data));
    document
}
