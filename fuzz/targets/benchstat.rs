//! The drop-in for benchstat. The first three lines are a filter, a projection of rows and one of
//! columns; the rest are results on standard input. There must be a table or a message.

#![no_main]

use speedwell_compat::DropInConsole;

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
        let mut console = DropInConsole {
            stdin: &mut results,
            stdout: &mut out,
            stderr: &mut errors,
            stdout_is_terminal: false,
            progress: None,
            directory: "/".into(),
            variable: &|_| None,
            measure: &|_, _| Ok(()),
        };
        let status = speedwell_compat::run_tool("benchstat", &words, &mut console);
        assert!(status == 0 || !errors.is_empty(), "a message is missing");
    }
});
