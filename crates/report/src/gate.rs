//! Reports the result of a gate (a pass/fail check) in one line.
//!
//! `analysis::gate` computes the result. Start at [`report_gate`].

use crate::document::{Document, ReportBlock};
use serde_json::json;
use speedwell_analysis::gate::GateOutcome;

/// Reports the result of a gate, for people and for programs.
pub fn report_gate(outcome: &GateOutcome) -> Document {
    let mut document = Document::new("gate");
    document.push(ReportBlock::Paragraph(format!("{}.", outcome.to_line())));
    document.attach_data(
        "gate",
        json!({
            "answer": outcome.to_answer().name(),
            "line": outcome.to_line(),
            "failing": outcome.failing,
            "obstacles": outcome.obstacles,
            "notes": outcome.remarks,
        }),
    );
    document
}
