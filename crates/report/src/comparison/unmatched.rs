//! Cases that only one side has. They are named, because a case that silently drops out of a
//! comparison looks like one without a change.

use crate::document::Block;
use crate::metric_words::count;
use crate::output::Verbosity;
use speedwell_analysis::Comparison;

/// Cases named unless all are asked for.
const NAMED: usize = 8;

/// A list for each side that has cases of its own.
pub fn unmatched(comparisons: &[&Comparison], verbosity: Verbosity) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut sides: Vec<(&String, &Vec<String>)> = Vec::new();
    for comparison in comparisons {
        let both = [
            (&comparison.baseline, &comparison.only_baseline),
            (&comparison.candidate, &comparison.only_candidate),
        ];
        for side in both {
            if !side.1.is_empty() && !sides.contains(&side) {
                sides.push(side);
            }
        }
    }
    for (variant, ids) in sides {
        let cases = count(ids.len(), "case", "cases");
        blocks.push(Block::Paragraph(format!(
            "Not compared, only in {variant} ({cases}):"
        )));
        let named = if verbosity == Verbosity::Verbose {
            ids.len()
        } else {
            NAMED.min(ids.len())
        };
        let mut items = ids[..named].to_vec();
        if named < ids.len() {
            items.push(format!("and {} more", ids.len() - named));
        }
        blocks.push(Block::List(items));
    }
    blocks
}
