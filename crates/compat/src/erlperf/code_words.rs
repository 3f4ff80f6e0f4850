//! From a word of the command line to a code: Erlang text, a tuple `{M, F, A}`, or a file of recorded calls.
//!
//! The last letter decides, as in the original; but what is neither tuple nor file counts as text whose dot was
//! forgotten. Whether text is good Erlang is for Erlang to say.

use super::arguments::Piece;
use super::recording::Recording;
use speedwell_model::{Code, Language};
use std::fs;
use std::path::{Path, PathBuf};

/// A code that can be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// What Erlang is given.
    pub code: Code,
    /// What it is called in tables.
    pub label: String,
    /// What stands above its source: the code, whatever its label is.
    pub shown: String,
    /// It could have been the name of a file, had there been one.
    pub lacks_dot: bool,
}

/// Makes a code of `piece`; files are looked for in `directory`.
///
/// # Errors
/// A file that cannot be read, or holds no calls.
pub fn read(piece: &Piece, paths: &[PathBuf], directory: &Path) -> Result<Known, String> {
    let word = piece.code.trim();
    let is_text = word.ends_with('.');
    let is_call = word.starts_with('{') && word.ends_with('}');
    let file = directory.join(&piece.code);
    let is_file = !is_text && !is_call && file.is_file();
    let (runner, shown) = if is_file {
        let recording = recording(&piece.code, &file)?;
        (recording.text(), recording.label())
    } else if is_call {
        (word.to_owned(), compact(word))
    } else {
        (piece.code.clone(), piece.code.clone())
    };
    let code = Code {
        init: piece.init.clone(),
        init_worker: piece.init_runner.clone(),
        done: piece.done.clone(),
        paths: paths.to_vec(),
        ..Code::new(Language::Erlang, runner)
    };
    Ok(Known {
        code,
        label: piece.label.clone().unwrap_or_else(|| shown.clone()),
        shown,
        lacks_dot: !is_text && !is_call && !is_file,
    })
}

fn recording(name: &str, file: &Path) -> Result<Recording, String> {
    let bytes =
        fs::read(file).map_err(|error| format!("cannot read the file '{name}': {error}"))?;
    Recording::parse(&bytes)
        .map_err(|reason| format!("cannot use the file '{name}' as a recording of calls: {reason}"))
}

/// A tuple as Erlang prints it: without blanks outside of quotes.
fn compact(tuple: &str) -> String {
    let mut quote = None;
    let mut escaped = false;
    let keep = |letter: &char| {
        let inside = quote.is_some();
        match (quote, *letter) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(mark), letter) if letter == mark => quote = None,
            (None, '"' | '\'') => quote = Some(*letter),
            _ => {}
        }
        inside || !letter.is_whitespace()
    };
    tuple.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(code: &str) -> Known {
        let piece = Piece {
            code: code.to_owned(),
            ..Piece::default()
        };
        let golden = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../speedwell/tests/golden/erlperf"
        );
        read(&piece, &[], Path::new(golden)).unwrap()
    }

    #[test]
    fn the_last_letter_decides_what_a_word_is() {
        let text = known("timer:sleep(1).");
        assert_eq!(
            (&*text.code.runner, &*text.label),
            ("timer:sleep(1).", "timer:sleep(1).")
        );
        let call = known("{timer, sleep, [2]}");
        assert_eq!(call.label, "{timer,sleep,[2]}");
        assert_eq!(call.code.runner, "{timer, sleep, [2]}");
        let file = known("recorded.bin");
        assert_eq!(file.code.runner, "[{timer,sleep,[1]},{timer,sleep,[2]}]");
        assert_eq!(file.label, "[{timer,sleep,[1]}, ...]");
        let forgotten = known("timer:sleep(1)");
        assert!(forgotten.lacks_dot && !text.lacks_dot && !call.lacks_dot && !file.lacks_dot);
        assert_eq!(forgotten.code.runner, "timer:sleep(1)");
    }

    #[test]
    fn blanks_inside_quotes_belong_to_a_tuple() {
        assert_eq!(
            compact("{m, f, [\"a b\\\" c\", 'd e', 1]}"),
            "{m,f,[\"a b\\\" c\",'d e',1]}"
        );
    }

    #[test]
    fn a_file_without_calls_is_refused_with_its_name() {
        let piece = Piece {
            code: "basic.out".to_owned(),
            ..Piece::default()
        };
        let golden = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../speedwell/tests/golden/erlperf"
        );
        let reason = read(&piece, &[], Path::new(golden)).unwrap_err();
        assert!(
            reason.starts_with("cannot use the file 'basic.out'"),
            "{reason}"
        );
    }
}
