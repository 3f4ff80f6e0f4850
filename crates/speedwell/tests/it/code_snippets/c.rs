//! C.

use super::{LanguageSnippets, TestFault, TestModule, TestSnippet};

const HOOKS: TestSnippet = TestSnippet::new(
    "if (state < 1003) {
        FILE *trace = fopen(getenv(\"TRACE\"), \"a\");
        fprintf(trace, \"turn %d\\n\", state);
        fclose(trace);
    }
    return ++state;",
)
.init("FILE *trace = fopen(getenv(\"TRACE\"), \"a\"); fputs(\"init\\n\", trace); fclose(trace); 1000")
.init_runner(
    "FILE *trace = fopen(getenv(\"TRACE\"), \"a\"); fprintf(trace, \"runner %d\\n\", shared); fclose(trace);
    return shared;",
)
.done("FILE *trace = fopen(getenv(\"TRACE\"), \"a\"); fprintf(trace, \"done %d\\n\", shared); fclose(trace)");

const DONE: &str =
    "FILE *trace = fopen(getenv(\"TRACE\"), \"a\"); fputs(\"done\\n\", trace); fclose(trace)";

const KEEPER: TestSnippet = TestSnippet::new(
    "if (state->fresh) {
        FILE *trace = fopen(getenv(\"TRACE\"), \"a\");
        fputs(\"first\\n\", trace);
        fclose(trace);
    }
    state->fresh = 0;
    usleep(1000)",
)
.init_runner(
    "FILE *trace = fopen(getenv(\"TRACE\"), \"a\"); fputs(\"runner\\n\", trace); fclose(trace);
    struct keeper { int fresh; } *made = malloc(sizeof *made); made->fresh = 1; made",
)
.done(DONE);

const EMPTY: TestSnippet = TestSnippet::new("0");

pub const SNIPPETS: LanguageSnippets = LanguageSnippets {
    empty: EMPTY,
    pure: TestSnippet::new("state = (state * 1103515245 + 12345) % 2147483647").init_runner("1L"),
    sleep_700_ms: TestSnippet::new("usleep(700000)"),
    sleep_20_ms: TestSnippet::new("usleep(20000)"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: TestSnippet::new("puts(\"end\\tid=1\\tjobs=a\"); usleep(1000)"),
    endless: TestSnippet::new("for (;;) ;").done(DONE),
    endless_sleep: TestSnippet::new("for (;;) usleep(1000);").done(DONE),
    awkward: EMPTY.init(
        "FILE *trace = fopen(getenv(\"TRACE\"), \"a\");
        fputs(\"\t100 %, %41 é😀 a=b,c\\n\", trace);
        fclose(trace);",
    ),
    awaited_20_ms: None,
    module: Some(TestModule {
        file: "deep_thought.h",
        text: "static int answer = 42;\n",
        snippet: EMPTY.init(
            "#include \"deep_thought.h\"
            FILE *trace = fopen(getenv(\"TRACE\"), \"a\");
            fprintf(trace, \"answer %d\\n\", answer);
            fclose(trace);",
        ),
    }),
    failing: TestSnippet { runner: "fail(\"bad luck\")", ..KEEPER },
    failing_done: EMPTY.done("fail(\"no room\")"),
    faults: &[
        TestFault {
            snippet: TestSnippet::new("int a = 1;\nint b = ;\na + b"),
            stage: "compile",
            message: "expected expression",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1\n+ )"),
            stage: "compile",
            message: "expected",
            line: Some(2),
        },
        TestFault {
            snippet: TestSnippet::new("1;\n\nnot_there()"),
            stage: "compile",
            message: "not_there",
            line: Some(3),
        },
        TestFault {
            snippet: TestSnippet::new("if (rand() >= 0) return 1;\nreturn 2;"),
            stage: "compile",
            message: "return",
            line: Some(1),
        },
        TestFault {
            snippet: TestSnippet::new(
                "int luck = 13;\nif (luck == 13) fail(\"bad luck %d\", luck);",
            ),
            stage: "run",
            message: "bad luck 13",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1;\nfail(\"no room\")"),
            stage: "init",
            message: "no room",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init_runner("\n\nfail(\"no room\")"),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
