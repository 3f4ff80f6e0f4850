//! C++: the code in four functions whose types the compiler finds (`code.hpp`).

use super::parts::{Part, Parts};
use super::{Marks, SourceFile};

/// Every header that code may want without naming it, with the words that need it; one without words is always taken.
const HEADERS: &str = include_str!("languages/cpp-headers.txt");

/// The source that holds the code. Headers take far longer to compile than most code, so those that it seems to
/// need are taken first, and `all` of them only when that was not enough.
pub fn source(parts: &Parts, all: bool) -> String {
    let mut file = SourceFile::new("code.cpp", Marks::Hash);
    let template = include_str!("languages/cpp.txt");
    file.fill(
        template,
        parts,
        |file, directive, part, words| match directive {
            "headers" => {
                for header in HEADERS.lines().filter_map(|line| needed(line, parts, all)) {
                    file.own(&format!("#include <{header}>"));
                }
            }
            // An expression may be a reference to something that would be dear to copy.
            "result" if part.text.before().trim().is_empty() && part.has_value() => {
                file.own(&words.replace("RESULT", "decltype(auto)"));
            }
            "result" => file.own(&words.replace("RESULT", "auto")),
            _ => hook(file, part),
        },
    );
    file.text
}

/// The header of a line, `vector: vector`, if the code seems to need it.
fn needed<'a>(line: &'a str, parts: &Parts, all: bool) -> Option<&'a str> {
    let (header, words) = line.split_once(':')?;
    let is_named = |word: &str| parts.all().iter().any(|part| part.text.names(word));
    let mut words = words.split_whitespace().peekable();
    (all || words.peek().is_none() || words.any(is_named)).then_some(header)
}

/// A function's body. A text that says `return` somewhere is taken as it is.
fn hook(file: &mut SourceFile, part: &Part) {
    let text = &part.text;
    let is_single = text.before().trim().is_empty();
    if !part.has_value() || (text.returns() && !is_single) {
        file.user(part.name, &text.body, 1, ";\n}");
        return;
    }
    let (value, line) = text.value();
    if !is_single {
        file.user(part.name, text.before(), 1, "");
    }
    file.own("return (");
    file.user(part.name, value, line, ");\n}");
}
