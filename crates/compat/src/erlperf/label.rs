//! What a code is called in a cell: on one line, by display width, and told apart from others when cut.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Stands where something was left out.
const CUT: &str = "…";

/// Columns of a terminal that `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` on one line: a code may have several.
pub fn on_one_line(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let lines = text.trim_matches(['\n', '\r']);
    lines.chars().map(plain).collect()
}

/// The labels in cells of `room` columns. One that does not fit keeps its beginning and, because it often ends in what
/// makes the difference, its end. Labels that differ still differ: by a number, if it must be.
pub fn fitted(labels: &[String], room: usize) -> Vec<String> {
    let mut cells: Vec<String> = labels.iter().map(|label| cut(label, room)).collect();
    for at in 0..cells.len() {
        if cells[at] == labels[at] {
            continue;
        }
        let alike = (0..at).filter(|other| cells_alike(labels, room, *other, at));
        let before = alike.count();
        let is_first = !(0..labels.len()).any(|other| {
            other != at && labels[other] != labels[at] && cells_alike(labels, room, other, at)
        });
        if before > 0 || !is_first {
            let mark = format!("#{}", before + 1);
            let left = room.saturating_sub(mark.len());
            cells[at] = format!("{}{mark}", cut(&labels[at], left));
        }
    }
    cells
}

fn cells_alike(labels: &[String], room: usize, one: usize, other: usize) -> bool {
    cut(&labels[one], room) == cut(&labels[other], room)
}

fn cut(label: &str, room: usize) -> String {
    if width(label) <= room {
        return label.to_owned();
    }
    let kept = room.saturating_sub(width(CUT));
    let head = kept / 2;
    let letters: Vec<char> = label.chars().collect();
    let begin = taken(letters.iter(), head);
    let end = taken(letters.iter().rev(), kept - head);
    let begin: String = letters[..begin].iter().collect();
    let end: String = letters[letters.len() - end..].iter().collect();
    format!("{begin}{CUT}{end}")
}

/// How many letters fit into `room` columns.
fn taken<'a>(letters: impl Iterator<Item = &'a char>, room: usize) -> usize {
    let mut used = 0;
    let fits = |letter: &&char| {
        used += letter.width().unwrap_or(0);
        used <= room
    };
    letters.take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(labels: &[&str], room: usize) -> Vec<String> {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        fitted(&labels, room)
    }

    #[test]
    fn labels_that_fit_stay_as_they_are_even_twice() {
        let twice = ["runner(X)->timer:sleep(X)."; 2];
        assert_eq!(cells(&twice, 26), twice);
    }

    #[test]
    fn codes_that_end_differently_do_so_in_the_cell() {
        let cells = cells(&["timer:sleep(1).", "timer:sleep(2)."], 8);
        assert_eq!(cells, ["tim…(1).", "tim…(2)."]);
    }

    #[test]
    fn codes_that_differ_in_the_middle_are_numbered() {
        let cells = cells(&["lists:seq(1, 9999).", "lists:seq(2, 9999)."], 8);
        assert_eq!(cells, ["li…9).#1", "li…9).#2"]);
    }

    #[test]
    fn wide_letters_take_two_columns() {
        let cells = cells(&["日本語のコードです。"], 9);
        assert_eq!(width(&cells[0]), 9, "{cells:?}");
        assert!(cells[0].ends_with("す。"));
    }

    #[test]
    fn lines_of_a_code_become_one() {
        assert_eq!(on_one_line("f() ->\n\tok.\n"), "f() ->  ok.");
    }
}
