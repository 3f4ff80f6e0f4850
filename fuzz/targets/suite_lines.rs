#![no_main]

use regex::Regex;
use speedwell_formats::foreign::suites::configured;
use std::sync::LazyLock;

static LINE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?P<name>\w+): (?P<value>\S+) (?P<unit>\S+)$").unwrap());

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| speedwell_fuzz::check_suite(configured::read_lines(
    bytes, &LINE, "ns", None
)));
