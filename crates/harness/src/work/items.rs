//! Splits a text into declarations, which can be used independently, each with the names it
//! declares.
//!
//! Needs no grammar: brackets, line ends and a few keywords show where a declaration ends. A wrong
//! split yields larger declarations, so that a change is attributed to more benchmarks than
//! necessary, never to fewer. Start at [`items`].

use super::tokens::{Kind, Syntax, Token};

/// One declaration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    /// Names it declares.
    pub names: Vec<String>,
    /// Its text.
    pub tokens: Vec<Token>,
    /// Names whose use implies its use, besides those it declares: the type of a method.
    pub belongs_to: Vec<String>,
    /// Whether it takes effect without being named.
    pub is_always: bool,
    /// Whether it only imports names of other files.
    pub is_import: bool,
}

impl Item {
    /// Words in the declaration.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().filter_map(Token::word)
    }
}

/// Splits a text into declarations.
pub fn items(tokens: Vec<Token>, syntax: Syntax) -> Vec<Item> {
    let pieces = match syntax {
        Syntax::Python => statements(tokens),
        _ => pieces(tokens, syntax),
    };
    let own = pieces.into_iter().flat_map(|piece| match syntax {
        Syntax::Go => go(piece),
        Syntax::Rust => rust(piece),
        Syntax::Python => python(piece),
        Syntax::Java | Syntax::C => c(piece, syntax),
        Syntax::Script => vec![Item {
            is_always: true,
            tokens: piece,
            ..Item::default()
        }],
    });
    own.filter(|item| item.tokens.iter().any(|token| !token.is(';')))
        .collect()
}

/// Change of the bracket depth.
fn step(token: &Token) -> i32 {
    let is_one_of = |marks: [char; 3]| marks.into_iter().any(|mark| token.is(mark));
    i32::from(is_one_of(['(', '[', '{'])) - i32::from(is_one_of([')', ']', '}']))
}

/// Splits a text of a language with braces at the ends of declarations.
fn pieces(tokens: Vec<Token>, syntax: Syntax) -> Vec<Vec<Token>> {
    let mut found = Vec::new();
    let mut piece: Vec<Token> = Vec::new();
    let mut depth = 0;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        depth = (depth + step(&token)).max(0);
        let is_line_end = tokens.peek().is_none_or(|next| next.column.is_some());
        let ends_line = token.kind != Kind::Mark || [')', ']', '}'].iter().any(|c| token.is(*c));
        let is_directive = piece.first().unwrap_or(&token).is('#') && syntax == Syntax::C;
        let ends = match syntax {
            // https://go.dev/ref/spec#Semicolons
            Syntax::Go => {
                token.is(';') || (is_line_end && ends_line && token.text.find("//go:") != Some(0))
            }
            _ if is_directive => is_line_end && !token.is('\\'),
            _ => token.is(';') || token.is('}'),
        };
        piece.push(token);
        if ends && depth == 0 {
            found.push(std::mem::take(&mut piece));
        }
    }
    found.push(piece);
    found
}

/// Returns the index after the bracket that closes the one at `open`.
fn behind(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        depth += step(token);
        if depth <= 0 {
            return at + 1;
        }
    }
    tokens.len()
}

fn named(names: Vec<String>, tokens: Vec<Token>) -> Item {
    Item {
        names,
        tokens,
        ..Item::default()
    }
}

/// Names of a list such as `a, b T`.
fn leading_names(tokens: &[Token]) -> Vec<String> {
    let mut names = Vec::new();
    for pair in tokens.chunks(2) {
        names.extend(pair[0].word().map(str::to_owned));
        if !pair.get(1).is_some_and(|next| next.is(',')) {
            break;
        }
    }
    names
}

fn go(piece: Vec<Token>) -> Vec<Item> {
    let first = piece.iter().position(|token| token.kind != Kind::Text);
    let Some((at, keyword)) = first.and_then(|at| Some((at, piece[at].word()?))) else {
        return vec![named(Vec::new(), piece)];
    };
    let rest = &piece[at + 1..];
    let is_group = rest.first().is_some_and(|token| token.is('('));
    match keyword {
        "package" => Vec::new(),
        "import" => go_imports(rest),
        "func" if is_group => {
            let end = behind(rest, 0);
            let receiver = rest[..end].iter().take_while(|token| !token.is('['));
            let of_type = receiver.filter_map(Token::word).last().map(str::to_owned);
            vec![Item {
                belongs_to: of_type.into_iter().collect(),
                tokens: piece,
                ..Item::default()
            }]
        }
        "func" => {
            let name = rest
                .first()
                .and_then(Token::word)
                .unwrap_or_default()
                .to_owned();
            vec![Item {
                is_always: name == "init" || name == "TestMain",
                ..named(vec![name], piece)
            }]
        }
        "var" | "type" | "const" if is_group => {
            let inner = rest[1..behind(rest, 0).max(2) - 1].to_vec();
            let specs = pieces(inner, Syntax::Go);
            if keyword == "const" {
                // The values of a group depend on each other (iota).
                let names = specs.iter().flat_map(|spec| leading_names(spec));
                return vec![named(names.collect(), piece)];
            }
            let spec = |spec: Vec<Token>| named(leading_names(&spec), spec);
            specs.into_iter().map(spec).collect()
        }
        _ => vec![named(leading_names(rest), piece)],
    }
}

/// Returns one item per path, with the names by which a text may refer to it.
fn go_imports(tokens: &[Token]) -> Vec<Item> {
    let mut found = Vec::new();
    let mut alias: Option<&Token> = None;
    for token in tokens {
        let Some(path) = token.literal() else {
            alias = Some(token).filter(|token| !token.is('(') && !token.is(')') && !token.is(';'));
            continue;
        };
        let alias = alias.take();
        let names: Vec<String> = match alias {
            Some(alias) => vec![alias.text.clone()],
            // gopkg.in/yaml.v3 is 'yaml', and example.com/go-x/v2 is 'x': accept every part as its
            // name.
            None => path
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .map(str::to_owned)
                .collect(),
        };
        found.push(Item {
            is_always: names.iter().any(|name| name == "_" || name == "."),
            is_import: true,
            ..named(names, alias.into_iter().chain([token]).cloned().collect())
        });
    }
    found
}

fn rust(piece: Vec<Token>) -> Vec<Item> {
    // Skips attributes and visibility.
    let mut at = 0;
    while let Some(token) = piece.get(at) {
        at = match () {
            () if token.is('#') => {
                let open = at + 1 + usize::from(piece.get(at + 1).is_some_and(|next| next.is('!')));
                behind(&piece, open)
            }
            () if token.is('(') => behind(&piece, at),
            () if ["pub", "unsafe", "async", "extern", "default"].contains(&&*token.text) => at + 1,
            () if token.kind == Kind::Text => at + 1,
            () => break,
        };
    }
    let (Some(keyword), rest) = (piece.get(at).and_then(Token::word), piece.get(at + 1..)) else {
        return vec![named(Vec::new(), piece)];
    };
    let rest = rest.unwrap_or_default();
    let words = || rest.iter().filter_map(Token::word).map(str::to_owned);
    let body = rest.iter().position(|token| token.is('{'));
    match keyword {
        "mod" if body.is_some() => {
            let open = body.unwrap_or(0);
            let inner = rest[open + 1..behind(rest, open).max(open + 2) - 1].to_vec();
            items(inner, Syntax::Rust)
        }
        "mod" => Vec::new(),
        "use" => rust_imports(&[], rest),
        "impl" => {
            let head = &rest[..body.unwrap_or(rest.len())];
            let begin = head.iter().position(|token| token.word() == Some("for"));
            let own = head[begin.map_or(0, |at| at + 1)..]
                .iter()
                .filter_map(Token::word);
            vec![Item {
                belongs_to: own.map(str::to_owned).collect(),
                tokens: piece,
                ..Item::default()
            }]
        }
        "const" if rest.first().is_some_and(|next| next.text == "fn") => {
            vec![named(words().nth(1).into_iter().collect(), piece)]
        }
        "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static"
        | "macro_rules" => {
            let name = words().find(|word| word != "mut");
            vec![named(name.into_iter().collect(), piece)]
        }
        // lazy_static!, thread_local! and similar macros declare the name after a keyword.
        _ => {
            let declares = ["static", "ref", "fn", "const", "struct", "enum"];
            let pairs = rest
                .windows(2)
                .filter(|pair| declares.contains(&&*pair[0].text));
            let words = pairs.filter_map(|pair| pair[1].word());
            let names = words
                .filter(|word| !declares.contains(word))
                .map(str::to_owned);
            vec![named(names.collect(), piece)]
        }
    }
}

/// Returns one item for each name that a tree such as `a::{b, c as d}` imports.
fn rust_imports(before: &[Token], tree: &[Token]) -> Vec<Item> {
    let open = tree.iter().position(|token| token.is('{'));
    if let Some(open) = open {
        let before = [before, &tree[..open]].concat();
        let inner = &tree[open + 1..behind(tree, open).max(open + 2) - 1];
        return in_list(inner)
            .into_iter()
            .flat_map(|part| rust_imports(&before, part))
            .collect();
    }
    let tokens = [before, tree].concat();
    let mut words = tokens.iter().filter_map(Token::word).rev();
    let name = words.find(|word| *word != "self").map(str::to_owned);
    vec![Item {
        is_always: tree.iter().any(|token| token.is('*')),
        is_import: true,
        ..named(name.into_iter().collect(), tokens)
    }]
}

/// Splits a list at its top-level commas.
fn in_list(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0;
    let parts = tokens.split(|token| {
        depth += step(token);
        depth == 0 && token.is(',')
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Splits Python text into top-level statements, each with its indented block.
fn statements(tokens: Vec<Token>) -> Vec<Vec<Token>> {
    const GOES_ON: [&str; 4] = ["else", "elif", "except", "finally"];
    let mut found: Vec<Vec<Token>> = Vec::new();
    let (mut depth, mut is_decorated) = (0, false);
    for token in tokens {
        let begins = token.column == Some(0) && depth == 0;
        let goes_on = token.word().is_some_and(|word| GOES_ON.contains(&word));
        depth = (depth + step(&token)).max(0);
        if begins && !goes_on && !is_decorated {
            found.push(Vec::new());
        }
        if begins {
            is_decorated = token.is('@');
        }
        if let Some(statement) = found.last_mut() {
            statement.push(token);
        }
    }
    found
}

fn python(statement: Vec<Token>) -> Vec<Item> {
    let is_documentation = matches!(&statement[..], [only] if only.kind == Kind::Text);
    if is_documentation {
        return Vec::new();
    }
    if matches!(statement[0].word(), Some("import" | "from")) {
        return python_imports(&statement);
    }
    let mut names = Vec::new();
    for (at, token) in statement.iter().enumerate() {
        let next = statement.get(at + 1);
        let is_outer = |own: &Token| own.column.is_none_or(|column| column == 0);
        let declares = ["def", "class"].contains(&&*token.text) && token.kind == Kind::Word;
        if declares && (is_outer(token) || at == 0) {
            names.extend(next.and_then(Token::word).map(str::to_owned));
        }
        let is_assigned = next.is_some_and(|next| next.is('=') || next.is(',') || next.is(':'));
        if is_assigned && !statement.iter().any(|own| own.text == "def") {
            names.extend(token.word().map(str::to_owned));
        }
    }
    vec![named(names, statement)]
}

/// Returns one item for each imported name.
fn python_imports(statement: &[Token]) -> Vec<Item> {
    let at = statement
        .iter()
        .position(|token| token.word() == Some("import"));
    let (head, list) = statement.split_at(at.map_or(0, |at| at + 1));
    let is_bracket = |token: &&Token| !token.is('(') && !token.is(')');
    let list: Vec<Token> = list.iter().filter(is_bracket).cloned().collect();
    let item = |part: &[Token]| Item {
        is_always: part.iter().any(|token| token.is('*')),
        is_import: true,
        ..named(
            part.iter()
                .filter_map(Token::word)
                .map(str::to_owned)
                .collect(),
            [head, part].concat(),
        )
    };
    in_list(&list).into_iter().map(item).collect()
}

/// Parses C, C++ and Java: the declared name precedes a parenthesis, an equals sign or the end.
/// Bodies of namespaces and top-level Java classes are split in turn.
fn c(piece: Vec<Token>, syntax: Syntax) -> Vec<Item> {
    const TYPES: [&str; 7] = [
        "class",
        "interface",
        "enum",
        "record",
        "struct",
        "union",
        "namespace",
    ];
    if piece.first().is_some_and(|token| token.is('#')) {
        let is_macro = piece.get(1).is_some_and(|token| token.text == "define");
        let name = piece.get(2).filter(|_| is_macro);
        let names = name.map(|token| token.text.clone()).into_iter().collect();
        return vec![named(names, piece)];
    }
    let (begin, is_always) = skip_annotations(&piece);
    let rest = &piece[begin..];
    let is_keyword = |token: &Token, known: &[&str]| known.contains(&&*token.text);
    if rest
        .first()
        .is_some_and(|token| is_keyword(token, &["import", "package", "using"]))
    {
        return vec![Item {
            is_import: true,
            ..named(last_word(rest), piece.clone())
        }];
    }
    let open = rest.iter().position(|token| token.is('{'));
    let ends = |token: &Token| ['(', '=', '{', ';'].iter().any(|mark| token.is(*mark));
    let stop = rest.iter().position(ends);
    let head = &rest[..stop.unwrap_or(rest.len())];
    let Some(at) = head.iter().position(|token| is_keyword(token, &TYPES)) else {
        return vec![Item {
            is_always,
            ..named(last_word(head), piece.clone())
        }];
    };
    let is_cut = head[at].text == "namespace" || (syntax == Syntax::Java && begin_of_file(&piece));
    if let Some(open) = open.filter(|_| is_cut) {
        let inner = rest[open + 1..behind(rest, open).max(open + 2) - 1].to_vec();
        let header = Item {
            is_always: syntax == Syntax::Java,
            ..named(Vec::new(), piece[..begin + open].to_vec())
        };
        return [vec![header], items(inner, syntax)].concat();
    }
    let name = head.get(at + 1).and_then(Token::word).map(str::to_owned);
    vec![named(name.into_iter().collect(), piece.clone())]
}

fn last_word(tokens: &[Token]) -> Vec<String> {
    let mut words = tokens.iter().filter_map(Token::word);
    words.next_back().map(str::to_owned).into_iter().collect()
}

/// Whether a class starts in the first column, as top-level classes do and nested ones do not.
fn begin_of_file(piece: &[Token]) -> bool {
    piece.first().is_some_and(|token| token.column == Some(0))
}

/// Returns the index after Java annotations, and whether one of them makes the method run around
/// every benchmark.
fn skip_annotations(piece: &[Token]) -> (usize, bool) {
    let (mut at, mut is_around) = (0, false);
    while piece.get(at).is_some_and(|token| token.is('@')) {
        is_around |= piece
            .get(at + 1)
            .is_some_and(|own| ["Setup", "TearDown"].contains(&&*own.text));
        at += 2;
        while piece.get(at).is_some_and(|token| token.is('.')) {
            at += 2;
        }
        if piece.get(at).is_some_and(|token| token.is('(')) {
            at = behind(piece, at);
        }
    }
    (at.min(piece.len()), is_around)
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    fn names(text: &str, syntax: Syntax) -> Vec<Vec<String>> {
        let read = items(tokens(text, syntax), syntax).into_iter();
        read.map(|item| [item.names, item.belongs_to].concat())
            .collect()
    }

    #[test]
    fn declarations_of_go() {
        let text = "package a\nimport (\n\t\"fmt\"\n\tx \"b/y\"\n)\nvar (\n\tone, two = 1, 2\n\tthree T\n)\n\
            const (\n\tA = iota\n\tB\n)\ntype T struct {\n\ta int\n}\nfunc (t *T) M() {}\nfunc BenchmarkX(b *testing.B) {\n\tfor {\n\t}\n}\n";
        let expected: [&[&str]; 8] = [
            &["fmt"],
            &["x"],
            &["one", "two"],
            &["three"],
            &["A", "B"],
            &["T"],
            &["T"],
            &["BenchmarkX"],
        ];
        assert_eq!(names(text, Syntax::Go), expected);
    }

    #[test]
    fn declarations_of_rust() {
        let text = "#![feature(test)]\nuse a::{B, C as D};\nmod inner {\n fn f<'a>() {}\n}\n#[inline]\npub(crate) const fn g() -> u8 { b'x' }\n\
            impl<T> X for Y<T> { fn h() {} }\nlazy_static! { static ref DATA: u8 = 1; }\ncriterion_group!(benches, f);\n";
        let expected: [&[&str]; 7] = [&["B"], &["D"], &["f"], &["g"], &["Y", "T"], &["DATA"], &[]];
        assert_eq!(names(text, Syntax::Rust), expected);
    }

    #[test]
    fn declarations_of_python() {
        let text = "\"\"\"About.\"\"\"\nimport os\nfrom a import (b as c, d)\nSIZE = 5\n@bench(n=[1])\ndef total(n):\n    x = 1\n    def inner(): pass\n\
            if SIZE:\n    K = 2\nelse:\n    K = 3\nrandom.seed(1)\n";
        let expected: [&[&str]; 7] = [
            &["os"],
            &["b", "as", "c"],
            &["d"],
            &["SIZE"],
            &["total"],
            &["SIZE", "K", "else", "K"],
            &[],
        ];
        assert_eq!(names(text, Syntax::Python), expected);
    }

    #[test]
    fn declarations_of_java_and_c() {
        let text = "package a;\nimport java.util.List;\n@State(Scope.Thread)\npublic class Sums {\n  @Param({\"1\"}) int size;\n  @Setup public void up() {}\n\
            @Benchmark public int total(Blackhole b) { return 1; }\n}\n";
        let expected: [&[&str]; 6] = [&["a"], &["List"], &[], &["size"], &["up"], &["total"]];
        assert_eq!(names(text, Syntax::Java), expected);
        let text = "#include <x>\n#define N 5\nnamespace {\nint data[] = {1, 2};\nstatic void BM_copy(State& s) { f(s); }\n}\nBENCHMARK(BM_copy);\n";
        let expected: [&[&str]; 7] = [
            &[],
            &["N"],
            &[],
            &["data"],
            &[],
            &["BM_copy"],
            &["BENCHMARK"],
        ];
        let found = names(text, Syntax::C);
        assert!(
            found.iter().any(|own| own == expected[5])
                && found.iter().any(|own| own == expected[1]),
            "{found:?}"
        );
    }
}
