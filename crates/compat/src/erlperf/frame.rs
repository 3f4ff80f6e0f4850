//! The module that is executed, between two lines of arrows, as `-v` shows it.

use super::label::{on_one_line, width};
use std::io::{self, Write};

/// Columns of the code above a source.
const ROOM: usize = 32;

/// Writes the source of a code.
///
/// # Errors
/// `out` is closed.
pub fn write(code: &str, source: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut title = String::new();
    for letter in on_one_line(code).chars() {
        title.push(letter);
        if width(&title) > ROOM {
            title.pop();
            break;
        }
    }
    let padding = ROOM - width(&title);
    writeln!(out, "{} {title}{:padding$} ", ">".repeat(15), "")?;
    writeln!(out, "{}\n", source.trim_end())?;
    writeln!(out, "{} ", "<".repeat(15))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(code: &str) -> String {
        let mut out = Vec::new();
        write(code, "-module(benchmark).\n", &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn arrows_and_padding_are_those_of_the_original() {
        let golden = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../speedwell/tests/golden/erlperf"
        );
        for (name, code) in [
            ("verbose", "timer:sleep(1)."),
            ("verbose_state2", "r(I, S) -> timer:sleep(I), S + 1."),
        ] {
            let recorded = std::fs::read_to_string(format!("{golden}/{name}.out")).unwrap();
            let own = framed(code);
            assert_eq!(own.lines().next(), recorded.lines().next());
            let end = recorded.lines().find(|line| line.starts_with('<'));
            assert_eq!(own.lines().last(), end);
        }
    }

    #[test]
    fn wide_letters_are_not_cut_in_half() {
        let own = framed(&"日".repeat(40));
        assert_eq!(width(own.lines().next().unwrap()), 16 + ROOM + 1);
    }
}
