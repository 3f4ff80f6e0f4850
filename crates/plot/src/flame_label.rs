//! What of a function's name fits into its box: the end of the name says most, what it is inside of can go.

use crate::text::{elide, room_for};

/// Empty pixels beside the letters.
pub(crate) const PADDING_PX: f64 = 3.0;
/// Fewer letters say nothing.
const FEWEST_LETTERS: usize = 3;

/// The name, or its end from a `::`, `/` or `.` on, or the beginning of that with an ellipsis; `None` where not
/// even that has room.
pub(crate) fn fitting(name: &str, width_px: f64, size_px: f64) -> Option<String> {
    let room = width_px - 2.0 * PADDING_PX;
    // Most boxes are too narrow for anything; they are many.
    if room < room_for("iii", size_px) {
        return None;
    }
    if room_for(name, size_px) <= room {
        return Some(name.to_owned());
    }
    let short = without_scope(name);
    let label = elide(short, room, size_px);
    (label.chars().count() > FEWEST_LETTERS || label == short).then_some(label)
}

/// The name without the namespaces in front, those in brackets aside: `a::b<c::d>::e` is `e`.
fn without_scope(name: &str) -> &str {
    let mut open = 0_i32;
    let mut start = 0;
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' => open += 1,
            b'>' | b')' => open -= 1,
            b':' if open == 0 && at > 0 && bytes[at - 1] == b':' => start = at + 1,
            _ => {}
        }
    }
    match &name[start..] {
        "" => name,
        rest => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_go_before_letters_do() {
        let room = |text: &str| room_for(text, 11.0) + 2.0 * PADDING_PX + 0.1;
        let name = "v8::internal::(anonymous namespace)::Invoke";
        assert_eq!(fitting(name, room(name), 11.0).as_deref(), Some(name));
        assert_eq!(
            fitting(name, room("Invoke"), 11.0).as_deref(),
            Some("Invoke")
        );
        assert_eq!(fitting(name, room("Invo…"), 11.0).as_deref(), Some("Invo…"));
        assert_eq!(fitting(name, 4.0, 11.0), None);
        assert_eq!(fitting("ab", room("abc"), 11.0).as_deref(), Some("ab"));
    }

    #[test]
    fn what_stands_in_brackets_is_no_scope() {
        for (name, short) in [
            ("a::b<c::d>::e", "e"),
            ("f<c::d>", "f<c::d>"),
            ("JS:fib lib/w.js:1:13", "JS:fib lib/w.js:1:13"),
            ("odd::", "odd::"),
        ] {
            assert_eq!(without_scope(name), short);
        }
    }
}
