//! The line of a gate.
//!
//! Decides where a gate says its answer; the answer is found in `analysis::gate`. Start at [`gate`].

use crate::document::{Block, Document};
use serde_json::json;
use speedwell_analysis::gate::GateOutcome;

/// The answer of a gate, for people and for machines.
pub fn gate(outcome: &GateOutcome) -> Document {
    let mut document = Document::new("gate");
    document.push(Block::Paragraph(format!("{}.", outcome.line())));
    document.attach(
        "gate",
        json!({
            "answer": outcome.answer().name(),
            "line": outcome.line(),
            "failing": outcome.failing,
            "obstacles": outcome.obstacles,
            "remarks": outcome.remarks,
        }),
    );
    document
}
