//! The result line of a gate.
//!
//! Decides where a report shows it; `analysis::gate` computes it. Start at [`gate`].

use crate::document::{Block, Document};
use serde_json::json;
use speedwell_analysis::gate::GateOutcome;

/// Reports the result of a gate, for people and for machines.
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
