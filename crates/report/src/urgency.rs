//! What is told first where there is no room for all.

use super::document::Emphasis;

/// What is told first where there is no room for all: bad news, then good, then what is open.
pub fn urgency(emphasis: Emphasis) -> u8 {
    match emphasis {
        Emphasis::Bad => 0,
        Emphasis::Good => 1,
        Emphasis::Caution => 2,
        Emphasis::None | Emphasis::Strong | Emphasis::Muted => 3,
    }
}

/// Positions of the at most `most` most urgent items, in their own order.
pub fn most_urgent(emphases: &[Emphasis], most: usize) -> Vec<usize> {
    let mut kept = by_urgency(emphases);
    kept.truncate(most);
    kept.sort_unstable();
    kept
}

/// All positions, the most urgent ones first, else in their own order.
pub fn by_urgency(emphases: &[Emphasis]) -> Vec<usize> {
    let mut all: Vec<usize> = (0..emphases.len()).collect();
    all.sort_by_key(|&at| urgency(emphases[at]));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_news_is_never_left_out_for_good_news() {
        use Emphasis::{Bad, Caution, Good, None};
        let all = [None, Good, Caution, Bad, None, Good];
        assert_eq!(most_urgent(&all, 3), [1, 3, 5]);
        assert_eq!(most_urgent(&all, 99), [0, 1, 2, 3, 4, 5]);
        assert_eq!(by_urgency(&all), [3, 1, 5, 2, 0, 4]);
    }
}
