//! C: the code in one function, because only inside of functions gcc and clang tell the type of statements.
//!
//! In `languages/c.txt` every text stands several times: to ask for its type, and to be executed with or without a value, as an
//! expression of GNU C, whose value is that of its last statement. `setjmp` stands in no function that has the code in it, because
//! a function that may return twice keeps little in registers.

use super::parts::Parts;
use super::{Marks, SourceFile};

/// The source that holds the code.
pub fn source(parts: &Parts) -> String {
    let mut file = SourceFile::new("code.c", Marks::Hash);
    let template = include_str!("languages/c.txt");
    file.fill(
        template,
        parts,
        |file, directive, part, words| match directive {
            "changed" if part.has_text() => file.own(words),
            "changed" => {}
            // A text whose last `return` is left out, so that the value is that of the last expression.
            _ => {
                let block = format!("{}{}", part.text.before(), part.text.value().0);
                file.user(part.name, &block, 1, words);
            }
        },
    );
    file.text
}
