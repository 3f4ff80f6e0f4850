//! Java.

use super::{LanguageSnippets, TestFault, TestModule, TestSnippet};

const HOOKS: TestSnippet = TestSnippet::new(
    "if (state < 1003) Files.writeString(Path.of(System.getenv(\"TRACE\")), \"turn \" + state + \"\\n\", StandardOpenOption.APPEND);
    return ++state;",
)
.init("Files.writeString(Path.of(System.getenv(\"TRACE\")), \"init\\n\"); 1000")
.init_runner(
    "Files.writeString(Path.of(System.getenv(\"TRACE\")), \"runner \" + shared + \"\\n\", StandardOpenOption.APPEND);
    return shared;",
)
.done(
    "Files.writeString(Path.of(System.getenv(\"TRACE\")), \"done \" + shared + \"\\n\", StandardOpenOption.APPEND)",
);

const DONE: &str = "Files.writeString(Path.of(System.getenv(\"TRACE\")), \"done\\n\",
    StandardOpenOption.CREATE, StandardOpenOption.APPEND)";

const KEEPER: TestSnippet = TestSnippet::new(
    "if (state[0]) Files.writeString(Path.of(System.getenv(\"TRACE\")), \"first\\n\", StandardOpenOption.APPEND);
    state[0] = false;
    Thread.sleep(1)",
)
.init_runner(
    "Files.writeString(Path.of(System.getenv(\"TRACE\")), \"runner\\n\", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    new boolean[] {true}",
)
.done(DONE);

const EMPTY: TestSnippet = TestSnippet::new("0");

pub const SNIPPETS: LanguageSnippets = LanguageSnippets {
    empty: EMPTY,
    pure: TestSnippet::new("state = (state * 1103515245 + 12345) % 2147483647").init_runner("1L"),
    sleep_700_ms: TestSnippet::new("Thread.sleep(700)"),
    sleep_20_ms: TestSnippet::new("Thread.sleep(20)"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: TestSnippet::new("System.out.println(\"end\\tid=1\\tjobs=a\"); Thread.sleep(1)"),
    endless: TestSnippet::new("while (true) { }").done(DONE),
    endless_sleep: TestSnippet::new(
        "while (true) { try { Thread.sleep(1); } catch (InterruptedException ignored) { } }",
    )
    .done(DONE),
    awkward: EMPTY.init(
        "Files.writeString(Path.of(System.getenv(\"TRACE\")), \"\t100 %, %41 é😀 a=b,c\\n\")",
    ),
    awaited_20_ms: None,
    module: Some(TestModule {
        file: "DeepThought.java",
        text: "public class DeepThought { public static final int ANSWER = 42; }\n",
        snippet: EMPTY.init(
            "Files.writeString(Path.of(System.getenv(\"TRACE\")), \"answer \" + DeepThought.ANSWER + \"\\n\")",
        ),
    }),
    failing: TestSnippet {
        runner: "throw new IllegalStateException(\"bad luck\");",
        ..KEEPER
    },
    failing_done: EMPTY.done("throw new IllegalStateException(\"no room\");"),
    faults: &[
        TestFault {
            // With 'return' it is compiled once: it cannot be a statement without a value.
            snippet: TestSnippet::new("int a = 1;\nint b = ;\nreturn a + b;"),
            stage: "compile",
            message: "illegal start of expression",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("return 1\n+ );"),
            stage: "compile",
            message: "illegal start of expression",
            line: Some(2),
        },
        TestFault {
            snippet: TestSnippet::new("int a = 1;\n\nnotThere(a)"),
            stage: "compile",
            message: "cannot find symbol",
            line: Some(3),
        },
        TestFault {
            snippet: TestSnippet::new("if (System.nanoTime() != 0) return 1;\nreturn 2;"),
            stage: "compile",
            message: "return",
            line: Some(1),
        },
        TestFault {
            snippet: TestSnippet::new("int luck = 13;\nif (luck == 13) throw new Exception(\"bad luck\");"),
            stage: "run",
            message: "bad luck",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("int[] list = {};\nreturn list[13];"),
            stage: "init",
            message: "out of bounds",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init_runner("\n\nthrow new Exception(\"no room\");"),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
