//! What R makes of the texts of a CSV column: whole numbers, numbers, or words.
//!
//! Decides by all texts of a column together how they sort and print, as `read.csv` does. Whole
//! numbers print with all their digits, other numbers with seven significant ones.

use super::r_collation::Collation;
use super::r_number;
use speedwell_results::formats::node_csv::number;
use std::cmp::Ordering;

/// The different texts of a column, understood.
#[derive(Debug, Clone, PartialEq)]
pub enum RTexts {
    /// Every text is a whole number of at most 32 bits.
    Integers(Vec<f64>),
    /// Every text is a number.
    Reals(Vec<f64>),
    /// Some text is a word.
    Words(Vec<String>),
}

impl RTexts {
    /// Understands `texts`.
    pub fn of(texts: &[String]) -> RTexts {
        let parsed: Option<Vec<f64>> = texts.iter().map(|text| real(text)).collect();
        match parsed {
            None => RTexts::Words(texts.to_vec()),
            Some(numbers) if texts.iter().all(|text| is_integer(text)) => RTexts::Integers(numbers),
            Some(numbers) => RTexts::Reals(numbers),
        }
    }

    /// The numbers, if the texts are some.
    pub fn numbers(&self) -> Option<&[f64]> {
        match self {
            RTexts::Integers(numbers) | RTexts::Reals(numbers) => Some(numbers),
            RTexts::Words(_) => None,
        }
    }

    /// The order of the texts at two places.
    pub fn compare(&self, a: usize, b: usize, collation: Collation) -> Ordering {
        match self {
            RTexts::Integers(numbers) | RTexts::Reals(numbers) => numbers[a].total_cmp(&numbers[b]),
            RTexts::Words(words) => collation.compare(&words[a], &words[b]),
        }
    }

    /// The cells of a printed column that has these texts in this order.
    pub fn printed(&self, places: &[usize]) -> Vec<String> {
        match self {
            RTexts::Integers(numbers) => places
                .iter()
                .map(|&place| number::text(numbers[place]))
                .collect(),
            RTexts::Reals(numbers) => {
                let numbers: Vec<_> = places.iter().map(|&place| Some(numbers[place])).collect();
                r_number::column(&numbers)
            }
            RTexts::Words(words) => places.iter().map(|&place| words[place].clone()).collect(),
        }
    }
}

fn real(text: &str) -> Option<f64> {
    // `null` and `undefined` are words to R.
    let word = matches!(text, "null" | "undefined");
    if word {
        None
    } else {
        number::parse(text.trim().as_bytes())
    }
}

/// R's whole numbers have 32 bits, and the smallest of them means "not available".
fn is_integer(text: &str) -> bool {
    text.trim()
        .parse::<i32>()
        .is_ok_and(|number| number != i32::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> RTexts {
        RTexts::of(
            &texts
                .iter()
                .map(|&text| text.to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn whole_numbers_print_in_full_and_others_as_r_prints_them() {
        assert_eq!(
            texts(&["100000", "1"]).printed(&[0, 1, 0]),
            ["100000", "1", "100000"]
        );
        assert_eq!(
            texts(&["100000", "0.5"]).printed(&[0, 1]),
            ["1e+05", "5e-01"]
        );
        assert_eq!(texts(&["3000000000"]).printed(&[0]), ["3e+09"]);
    }

    #[test]
    fn numbers_sort_by_value_and_words_by_letters() {
        let order = |column: RTexts| column.compare(0, 1, Collation::Root);
        assert_eq!(order(texts(&["16", "9"])), Ordering::Greater);
        assert_eq!(order(texts(&["16", "9a"])), Ordering::Less);
        assert_eq!(order(texts(&["utf8", "UTF"])), Ordering::Greater);
    }
}
