//! The drop-in for benchstat: a filter, a projection of rows, one of columns, each in a line of its own, then results on standard
//! input. Whatever they are, there is a table or a reason.

#![no_main]

use speedwell_compat::Console;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(4, |byte| *byte == b'\n');
    let mut line = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let flags = [line(), line(), line()];
    let mut results = parts.next().unwrap_or_default();
    for format in ["text", "csv"] {
        let mut words = vec!["-format".to_owned(), format.to_owned()];
        for (flag, text) in ["-filter", "-row", "-col"].iter().zip(&flags) {
            words.extend([(*flag).to_owned(), text.clone()]);
        }
        words.extend(["new=-".to_owned(), "-".to_owned()]);
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let mut console = Console {
            stdin: &mut results,
            stdout: &mut out,
            stderr: &mut errors,
            stdout_is_terminal: false,
            progress: None,
            directory: "/".into(),
            variable: &|_| None,
            measure: &|_, _| Ok(()),
        };
        let status = speedwell_compat::main("benchstat", &words, &mut console);
        assert!(status == 0 || !errors.is_empty(), "a reason is missing");
    }
});
