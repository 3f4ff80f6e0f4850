//! Values of every kind can be shared, be a worker's state and be a result, in each compiled
//! language: the generated code must fit all of them.

use super::harness_driver::find_tool;
use speedwell_adapters::snippet::{HarnessFailure, build_process, default_program};
use speedwell_model::{Snippet, SnippetLanguage, Variant};

/// A language with its possible compilers, and snippets: init, init-worker, runner.
type ValueTable = (SnippetLanguage, &'static [&'static str], &'static [[&'static str; 3]]);

const TABLES: [ValueTable; 5] = [
    (
        SnippetLanguage::C,
        &["cc", "gcc", "clang"],
        &[
            ["3.0", "3.0f", "sqrt(state) + shared"],
            ["\"abc\"", "(char)1", "shared[state]"],
            ["(div_t){7, 1}", "div(7, 2)", "state.quot + shared.rem"],
            ["7", "(div_t){1, 2}", "div(shared, state.quot)"],
            ["(void)0", "malloc(7)", "free(state); state = malloc(7);"],
            ["", "1.0L", "state * 2"],
        ],
    ),
    (
        SnippetLanguage::Cpp,
        &["c++", "g++", "clang++"],
        &[
            ["3.0", "3.0f", "sqrt(state) + shared"],
            ["\"abc\"", "'a'", "shared + state"],
            ["string(\"abc\")", "vector<int>{1, 2}", "shared.size() + state.size()"],
            ["make_unique<int>(7)", "unordered_map<int, string>()", "state[*shared] = \"x\""],
            ["atomic<int> *a = new atomic<int>(1); return a;", "", "shared->fetch_add(1)"],
            ["[](int x) { return x + 1; }", "optional<int>()", "shared(state.value_or(1))"],
            ["mutex *m = new mutex; m", "", "lock_guard<mutex> guard(*shared);"],
        ],
    ),
    (
        SnippetLanguage::Rust,
        &["rustc"],
        &[
            ["3.0f64", "3.0f32", "shared.sqrt() + f64::from(*state)"],
            ["\"abc\".to_owned()", "b'a'", "shared.len() + *state as usize"],
            [
                "Mutex::new(vec![1])",
                "HashMap::new()",
                "state.insert(1, shared.lock().unwrap().len())",
            ],
            [
                "AtomicU64::new(1)",
                "Rc::new(7)",
                "shared.fetch_add(1, Ordering::Relaxed); state.clone()",
            ],
            ["()", "[0u8; 100]", "state[3] += 1; *state"],
            ["", "None::<Box<u32>>", "return state.take()"],
        ],
    ),
    (
        SnippetLanguage::Go,
        &["go"],
        &[
            ["3.0", "float32(3)", "math.Sqrt(shared) + float64(state)"],
            ["\"abc\"", "'a'", "strings.ContainsRune(shared, state)"],
            ["&sync.Mutex{}", "map[string]int{}", "shared.Lock(); state[\"x\"]++; shared.Unlock()"],
            ["func(x int) int { return x + 1 }", "7", "shared(state)"],
            ["struct{ a, b int }{1, 2}", "[]byte(\"abc\")", "len(state) + shared.a"],
            ["", "var buffer bytes.Buffer; return &buffer", "state.Reset(); state.WriteByte(1)"],
        ],
    ),
    (
        SnippetLanguage::Java,
        &["javac"],
        &[
            ["3.0", "3.0f", "Math.sqrt(shared) + state"],
            ["\"abc\"", "'a'", "shared.indexOf(state)"],
            [
                "new AtomicLong()",
                "new HashMap<String, Integer>()",
                "state.merge(\"x\", 1, Integer::sum)",
            ],
            ["List.of(1, 2)", "true", "state = !state; shared.size()"],
            ["new int[] {1}", "(byte) 1", "shared[0] + state"],
            ["", "new StringBuilder()", "state.setLength(0); state.append(1);"],
        ],
    ),
];

#[test]
fn values_of_every_kind_compile_in_every_language() {
    for (language, compilers, pieces) in TABLES {
        if find_tool(compilers).is_none() {
            continue;
        }
        for [init, init_worker, runner] in pieces {
            let hook = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let snippet = Snippet {
                init: hook(init),
                init_worker: hook(init_worker),
                ..Snippet::new(language, *runner)
            };
            let started =
                build_process(&snippet, &default_program(language), &Variant::plain("plain"));
            if let Err(HarnessFailure { cause, output, .. }) = started {
                panic!("{snippet:?}: {cause:?}\n{output}");
            }
        }
    }
}
