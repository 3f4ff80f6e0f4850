//! Explains the terms of reports to newcomers, in one table. Pages link the headings of columns to
//! the definitions at their end. Start at [`term_of_column`].

/// A term with its definition.
#[derive(Debug, PartialEq, Eq)]
pub struct GlossaryTerm {
    /// The anchor of the definition on a page, without a prefix.
    pub id: &'static str,
    /// The term.
    pub name: &'static str,
    /// The definition, in one or two sentences.
    pub definition: &'static str,
    /// The keys of the columns that show the term.
    columns: &'static [&'static str],
}

/// All terms, in the order in which pages list them.
static TERMS: [GlossaryTerm; 10] = [
    GlossaryTerm {
        id: "change",
        name: "change",
        definition: "The estimated change from the baseline to the candidate.",
        columns: &["change_shown"],
    },
    GlossaryTerm {
        id: "interval",
        name: "95% interval",
        definition: "The range in which the true value lies with this confidence: of 100 such \
                     intervals, about 95 contain it.",
        columns: &["interval_shown", "interval"],
    },
    GlossaryTerm {
        id: "p",
        name: "p",
        definition: "The probability that two equal programs would differ at least as much.",
        columns: &["p", "step_p"],
    },
    GlossaryTerm {
        id: "q",
        name: "q",
        definition: "p corrected for the number of cases. The verdict depends on this value.",
        columns: &["q"],
    },
    GlossaryTerm {
        id: "p5",
        name: "p5",
        definition: "The 5th percentile: 5% of the values are smaller.",
        columns: &["time_p5_ns"],
    },
    GlossaryTerm {
        id: "detectable",
        name: "detectable",
        definition: "The smallest change that this many runs would find four times out of five.",
        columns: &["detectable"],
    },
    GlossaryTerm {
        id: "more-runs",
        name: "more runs",
        definition: "How many more runs per side would probably decide this case.",
        columns: &["more_runs"],
    },
    GlossaryTerm {
        id: "disturbed",
        name: "disturbed",
        definition: "The fraction of runs during which other work on the machine took the \
                     processor, according to the kernel's counters.",
        columns: &["disturbed_shown"],
    },
    GlossaryTerm {
        id: "pairs",
        name: "pairs",
        definition: "Runs of both sides at the same time, so that a disturbance affects both. \
                     The difference within each pair is compared.",
        columns: &["pairs"],
    },
    GlossaryTerm {
        id: "blocks",
        name: "blocks",
        definition: "Groups of runs in random order in which each side of each case runs equally \
                     often, so that slow drift of the machine affects all sides.",
        columns: &["blocks"],
    },
];

/// Returns the term that a column shows, if it is explained.
pub fn term_of_column(key: &str) -> Option<&'static GlossaryTerm> {
    TERMS.iter().find(|term| term.columns.contains(&key))
}

/// Returns the `shown` terms and the terms that a sentence of the page mentions, in the order of
/// the table. Sentences are searched only for words that mean nothing else in reports.
pub fn terms_of_page<'s>(
    shown: &[&'static GlossaryTerm],
    sentences: impl Iterator<Item = &'s str> + Clone,
) -> Vec<&'static GlossaryTerm> {
    let is_mentioned = |term: &GlossaryTerm| {
        ["pairs", "blocks", "disturbed", "detectable"].contains(&term.name)
            && sentences.clone().any(|sentence| has_word(sentence, term.name))
    };
    TERMS.iter().filter(|term| shown.contains(term) || is_mentioned(term)).collect()
}

fn has_word(sentence: &str, word: &str) -> bool {
    sentence.split(|character: char| !character.is_alphanumeric()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_definitions_are_sentences() {
        for (index, term) in TERMS.iter().enumerate() {
            assert!(TERMS[..index].iter().all(|earlier| earlier.id != term.id), "{}", term.id);
            assert!(term.definition.ends_with('.'), "{}", term.definition);
            assert!(!term.definition.contains("  "), "{}", term.definition);
        }
    }

    #[test]
    fn a_page_lists_the_terms_of_its_columns_and_sentences() {
        let shown = [term_of_column("q").unwrap()];
        let sentences = ["Compared in pairs.", "The roadblocks are new."];
        let found = terms_of_page(&shown, sentences.into_iter());
        assert_eq!(found.iter().map(|term| term.name).collect::<Vec<_>>(), ["q", "pairs"]);
        assert_eq!(term_of_column("median"), None);
    }
}
