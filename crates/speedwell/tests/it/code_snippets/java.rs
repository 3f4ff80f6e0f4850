//! Java.

use super::{Fault, Module, Snippet, Snippets};

const HOOKS: Snippet = Snippet::new(
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

const KEEPER: Snippet = Snippet::new(
    "if (state[0]) Files.writeString(Path.of(System.getenv(\"TRACE\")), \"first\\n\", StandardOpenOption.APPEND);
    state[0] = false;
    Thread.sleep(1)",
)
.init_runner(
    "Files.writeString(Path.of(System.getenv(\"TRACE\")), \"runner\\n\", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    new boolean[] {true}",
)
.done(DONE);

const EMPTY: Snippet = Snippet::new("0");

pub const SNIPPETS: Snippets = Snippets {
    empty: EMPTY,
    pure: Snippet::new("state = (state * 1103515245 + 12345) % 2147483647").init_runner("1L"),
    sleep_700_ms: Snippet::new("Thread.sleep(700)"),
    sleep_20_ms: Snippet::new("Thread.sleep(20)"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: Snippet::new("System.out.println(\"end\\tid=1\\tjobs=a\"); Thread.sleep(1)"),
    endless: Snippet::new("while (true) { }").done(DONE),
    awkward: EMPTY.init(
        "Files.writeString(Path.of(System.getenv(\"TRACE\")), \"\t100 %, %41 é😀 a=b,c\\n\")",
    ),
    awaited_20_ms: None,
    module: Some(Module {
        file: "DeepThought.java",
        text: "public class DeepThought { public static final int ANSWER = 42; }\n",
        snippet: EMPTY.init(
            "Files.writeString(Path.of(System.getenv(\"TRACE\")), \"answer \" + DeepThought.ANSWER + \"\\n\")",
        ),
    }),
    failing: Snippet {
        runner: "throw new IllegalStateException(\"bad luck\");",
        ..KEEPER
    },
    failing_done: EMPTY.done("throw new IllegalStateException(\"no room\");"),
    faults: &[
        Fault {
            snippet: Snippet::new("int a = 1;\nint b = ;\na + b"),
            stage: "compile",
            message: "illegal start of expression",
            line: Some(2),
        },
        Fault {
            snippet: EMPTY.init("1\n+ )"),
            stage: "compile",
            message: "illegal start of expression",
            line: Some(2),
        },
        Fault {
            snippet: Snippet::new("int a = 1;\n\nnotThere(a)"),
            stage: "compile",
            message: "cannot find symbol",
            line: Some(3),
        },
        Fault {
            snippet: Snippet::new("if (System.nanoTime() != 0) return 1;\nreturn 2;"),
            stage: "compile",
            message: "return",
            line: Some(1),
        },
        Fault {
            snippet: Snippet::new("int luck = 13;\nif (luck == 13) throw new Exception(\"bad luck\");"),
            stage: "run",
            message: "bad luck",
            line: Some(2),
        },
        Fault {
            snippet: EMPTY.init("int[] list = {};\nreturn list[13];"),
            stage: "init",
            message: "out of bounds",
            line: Some(2),
        },
        Fault {
            snippet: EMPTY.init_runner("\n\nthrow new Exception(\"no room\");"),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
