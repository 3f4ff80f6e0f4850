//! Splits source code into declarations that can be used independently of each other, and finds the
//! names that each one declares.
//!
//! This requires no grammar: brackets, line ends and a few keywords show where a declaration ends.
//! A wrong split yields larger declarations. A change is then attributed to more benchmarks than
//! necessary, never to fewer. Start at [`split_items`].

use crate::lexer::{SourceSyntax, SourceToken, TokenKind};

/// One declaration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceItem {
    /// Names that the declaration declares.
    pub names: Vec<String>,
    /// Tokens of the declaration.
    pub tokens: Vec<SourceToken>,
    /// Names whose use implies the use of this declaration, for example the type of a method.
    pub belongs_to: Vec<String>,
    /// Whether the declaration takes effect even if nothing names it.
    pub is_always: bool,
    /// Whether the declaration only imports names of other files.
    pub is_import: bool,
}

impl SourceItem {
    /// Words in the declaration.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().filter_map(SourceToken::as_word)
    }
}

/// Splits source code into declarations.
pub fn split_items(tokens: Vec<SourceToken>, syntax: SourceSyntax) -> Vec<SourceItem> {
    let pieces = match syntax {
        SourceSyntax::Python => python_statements(tokens),
        _ => split_pieces(tokens, syntax),
    };
    let items = pieces.into_iter().flat_map(|piece| match syntax {
        SourceSyntax::Go => go_items(piece),
        SourceSyntax::Rust => rust_items(piece),
        SourceSyntax::Python => python_items(piece),
        SourceSyntax::Java | SourceSyntax::C => c_items(piece, syntax),
        SourceSyntax::Script => {
            vec![SourceItem { is_always: true, tokens: piece, ..SourceItem::default() }]
        }
    });
    items.filter(|item| item.tokens.iter().any(|token| !token.is(';'))).collect()
}

/// Returns by how much a token changes the bracket depth.
fn depth_change(token: &SourceToken) -> i32 {
    let is_one_of = |marks: [char; 3]| marks.into_iter().any(|mark| token.is(mark));
    i32::from(is_one_of(['(', '[', '{'])) - i32::from(is_one_of([')', ']', '}']))
}

/// Splits source code where declarations end, in a language that uses braces.
fn split_pieces(tokens: Vec<SourceToken>, syntax: SourceSyntax) -> Vec<Vec<SourceToken>> {
    let mut found = Vec::new();
    let mut piece: Vec<SourceToken> = Vec::new();
    let mut depth = 0;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        depth = (depth + depth_change(&token)).max(0);
        let is_line_end = tokens.peek().is_none_or(|next| next.column.is_some());
        let ends_line =
            token.kind != TokenKind::Mark || [')', ']', '}'].iter().any(|c| token.is(*c));
        let is_directive = piece.first().unwrap_or(&token).is('#') && syntax == SourceSyntax::C;
        let is_end = match syntax {
            // https://go.dev/ref/spec#Semicolons
            SourceSyntax::Go => {
                token.is(';') || (is_line_end && ends_line && token.text.find("//go:") != Some(0))
            }
            _ if is_directive => is_line_end && !token.is('\\'),
            _ => token.is(';') || token.is('}'),
        };
        piece.push(token);
        if is_end && depth == 0 {
            found.push(std::mem::take(&mut piece));
        }
    }
    found.push(piece);
    found
}

/// Returns the index after the bracket that closes the bracket at `open`.
fn index_after(tokens: &[SourceToken], open: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        depth += depth_change(token);
        if depth <= 0 {
            return index + 1;
        }
    }
    tokens.len()
}

fn named_item(names: Vec<String>, tokens: Vec<SourceToken>) -> SourceItem {
    SourceItem { names, tokens, ..SourceItem::default() }
}

/// Returns the names at the beginning of a list such as `a, b T`.
fn leading_names(tokens: &[SourceToken]) -> Vec<String> {
    let mut names = Vec::new();
    for pair in tokens.chunks(2) {
        names.extend(pair[0].as_word().map(str::to_owned));
        if !pair.get(1).is_some_and(|next| next.is(',')) {
            break;
        }
    }
    names
}

fn go_items(piece: Vec<SourceToken>) -> Vec<SourceItem> {
    let first = piece.iter().position(|token| token.kind != TokenKind::Text);
    let Some((index, keyword)) = first.and_then(|index| Some((index, piece[index].as_word()?)))
    else {
        return vec![named_item(Vec::new(), piece)];
    };
    let rest = &piece[index + 1..];
    let is_group = rest.first().is_some_and(|token| token.is('('));
    match keyword {
        "package" => Vec::new(),
        "import" => go_imports(rest),
        "func" if is_group => {
            let end = index_after(rest, 0);
            let receiver = rest[..end].iter().take_while(|token| !token.is('['));
            let receiver_type = receiver.filter_map(SourceToken::as_word).last().map(str::to_owned);
            vec![SourceItem {
                belongs_to: receiver_type.into_iter().collect(),
                tokens: piece,
                ..SourceItem::default()
            }]
        }
        "func" => {
            let name = rest.first().and_then(SourceToken::as_word).unwrap_or_default().to_owned();
            vec![SourceItem {
                is_always: name == "init" || name == "TestMain",
                ..named_item(vec![name], piece)
            }]
        }
        "var" | "type" | "const" if is_group => {
            let inner = rest[1..index_after(rest, 0).max(2) - 1].to_vec();
            let specs = split_pieces(inner, SourceSyntax::Go);
            if keyword == "const" {
                // A group of constants is one item, because its values may depend on each other
                // (`iota`).
                let names = specs.iter().flat_map(|spec| leading_names(spec));
                return vec![named_item(names.collect(), piece)];
            }
            let spec = |spec: Vec<SourceToken>| named_item(leading_names(&spec), spec);
            specs.into_iter().map(spec).collect()
        }
        _ => vec![named_item(leading_names(rest), piece)],
    }
}

/// Returns one item per path, with the names by which code may refer to it.
fn go_imports(tokens: &[SourceToken]) -> Vec<SourceItem> {
    let mut found = Vec::new();
    let mut alias: Option<&SourceToken> = None;
    for token in tokens {
        let Some(path) = token.as_literal() else {
            alias = Some(token).filter(|token| !token.is('(') && !token.is(')') && !token.is(';'));
            continue;
        };
        let names: Vec<String> = match alias.take() {
            Some(alias) => vec![alias.text.clone()],
            // Every part of the path may be the name: the package gopkg.in/yaml.v3 is called
            // 'yaml', and example.com/go-x/v2 is called 'x'.
            None => {
                path.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
            }
        };
        found.push(SourceItem {
            is_always: names.iter().any(|name| name == "_" || name == "."),
            is_import: true,
            ..named_item(names, alias.into_iter().chain([token]).cloned().collect())
        });
    }
    found
}

fn rust_items(piece: Vec<SourceToken>) -> Vec<SourceItem> {
    // Skips attributes and visibility.
    let mut i = 0;
    while let Some(token) = piece.get(i) {
        i = match () {
            () if token.is('#') => {
                let open = i + 1 + usize::from(piece.get(i + 1).is_some_and(|next| next.is('!')));
                index_after(&piece, open)
            }
            () if token.is('(') => index_after(&piece, i),
            () if ["pub", "unsafe", "async", "extern", "default"].contains(&&*token.text) => i + 1,
            () if token.kind == TokenKind::Text => i + 1,
            () => break,
        };
    }
    let Some(keyword) = piece.get(i).and_then(SourceToken::as_word) else {
        return vec![named_item(Vec::new(), piece)];
    };
    let rest = piece.get(i + 1..).unwrap_or_default();
    let words = || rest.iter().filter_map(SourceToken::as_word);
    let body = rest.iter().position(|token| token.is('{'));
    match keyword {
        "mod" if body.is_some() => {
            let open = body.unwrap_or(0);
            let inner = rest[open + 1..index_after(rest, open).max(open + 2) - 1].to_vec();
            split_items(inner, SourceSyntax::Rust)
        }
        "mod" => Vec::new(),
        "use" => rust_imports(&[], rest),
        "impl" => {
            let head = &rest[..body.unwrap_or(rest.len())];
            let begin = head.iter().position(|token| token.as_word() == Some("for"));
            let owner =
                head[begin.map_or(0, |index| index + 1)..].iter().filter_map(SourceToken::as_word);
            vec![SourceItem {
                belongs_to: owner.map(str::to_owned).collect(),
                tokens: piece,
                ..SourceItem::default()
            }]
        }
        "const" if rest.first().is_some_and(|next| next.text == "fn") => {
            let name = words().nth(1).map(str::to_owned);
            vec![named_item(name.into_iter().collect(), piece)]
        }
        "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static"
        | "macro_rules" => {
            let name = words().find(|word| *word != "mut").map(str::to_owned);
            vec![named_item(name.into_iter().collect(), piece)]
        }
        // lazy_static!, thread_local! and similar macros declare the name after a keyword.
        _ => {
            let declares = ["static", "ref", "fn", "const", "struct", "enum"];
            let pairs = rest.windows(2).filter(|pair| declares.contains(&&*pair[0].text));
            let words = pairs.filter_map(|pair| pair[1].as_word());
            let names = words.filter(|word| !declares.contains(word)).map(str::to_owned);
            vec![named_item(names.collect(), piece)]
        }
    }
}

/// Returns one item for each name that a tree such as `a::{b, c as d}` imports.
fn rust_imports(prefix: &[SourceToken], tree: &[SourceToken]) -> Vec<SourceItem> {
    let open = tree.iter().position(|token| token.is('{'));
    if let Some(open) = open {
        let prefix = [prefix, &tree[..open]].concat();
        let inner = &tree[open + 1..index_after(tree, open).max(open + 2) - 1];
        return split_list(inner)
            .into_iter()
            .flat_map(|part| rust_imports(&prefix, part))
            .collect();
    }
    let tokens = [prefix, tree].concat();
    let mut words = tokens.iter().filter_map(SourceToken::as_word).rev();
    let name = words.find(|word| *word != "self").map(str::to_owned);
    vec![SourceItem {
        is_always: tree.iter().any(|token| token.is('*')),
        is_import: true,
        ..named_item(name.into_iter().collect(), tokens)
    }]
}

/// Splits a list at its top-level commas.
fn split_list(tokens: &[SourceToken]) -> Vec<&[SourceToken]> {
    let mut depth = 0;
    let parts = tokens.split(|token| {
        depth += depth_change(token);
        depth == 0 && token.is(',')
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Splits Python text into top-level statements, each with its indented block.
fn python_statements(tokens: Vec<SourceToken>) -> Vec<Vec<SourceToken>> {
    const CONTINUATIONS: [&str; 4] = ["else", "elif", "except", "finally"];
    let mut found: Vec<Vec<SourceToken>> = Vec::new();
    let (mut depth, mut is_decorated) = (0, false);
    for token in tokens {
        let is_start = token.column == Some(0) && depth == 0;
        let continues = token.as_word().is_some_and(|word| CONTINUATIONS.contains(&word));
        depth = (depth + depth_change(&token)).max(0);
        if is_start && !continues && !is_decorated {
            found.push(Vec::new());
        }
        if is_start {
            is_decorated = token.is('@');
        }
        if let Some(statement) = found.last_mut() {
            statement.push(token);
        }
    }
    found
}

fn python_items(statement: Vec<SourceToken>) -> Vec<SourceItem> {
    let is_documentation = matches!(&statement[..], [only] if only.kind == TokenKind::Text);
    if is_documentation {
        return Vec::new();
    }
    if matches!(statement[0].as_word(), Some("import" | "from")) {
        return python_imports(&statement);
    }
    let mut names = Vec::new();
    for (index, token) in statement.iter().enumerate() {
        let next = statement.get(index + 1);
        let is_outer = |other: &SourceToken| other.column.is_none_or(|column| column == 0);
        let declares = ["def", "class"].contains(&&*token.text) && token.kind == TokenKind::Word;
        if declares && (is_outer(token) || index == 0) {
            names.extend(next.and_then(SourceToken::as_word).map(str::to_owned));
        }
        let is_assigned = next.is_some_and(|next| next.is('=') || next.is(',') || next.is(':'));
        if is_assigned && !statement.iter().any(|other| other.text == "def") {
            names.extend(token.as_word().map(str::to_owned));
        }
    }
    vec![named_item(names, statement)]
}

/// Returns one item for each imported name.
fn python_imports(statement: &[SourceToken]) -> Vec<SourceItem> {
    let index = statement.iter().position(|token| token.as_word() == Some("import"));
    let (head, list) = statement.split_at(index.map_or(0, |index| index + 1));
    let is_not_bracket = |token: &&SourceToken| !token.is('(') && !token.is(')');
    let list: Vec<SourceToken> = list.iter().filter(is_not_bracket).cloned().collect();
    let item = |part: &[SourceToken]| SourceItem {
        is_always: part.iter().any(|token| token.is('*')),
        is_import: true,
        ..named_item(
            part.iter().filter_map(SourceToken::as_word).map(str::to_owned).collect(),
            [head, part].concat(),
        )
    };
    split_list(&list).into_iter().map(item).collect()
}

/// Parses C, C++ and Java. The declared name is the word before a parenthesis, an equals sign or
/// the end of the declaration. Bodies of namespaces and top-level Java classes are split in turn.
fn c_items(piece: Vec<SourceToken>, syntax: SourceSyntax) -> Vec<SourceItem> {
    const TYPES: [&str; 7] =
        ["class", "interface", "enum", "record", "struct", "union", "namespace"];
    if piece.first().is_some_and(|token| token.is('#')) {
        let is_macro = piece.get(1).is_some_and(|token| token.text == "define");
        let name = piece.get(2).filter(|_| is_macro);
        let names = name.map(|token| token.text.clone()).into_iter().collect();
        return vec![named_item(names, piece)];
    }
    // Nested classes do not start in the first column.
    let is_top_level = piece.first().is_some_and(|token| token.column == Some(0));
    let (begin, is_always) = skip_annotations(&piece);
    let rest = &piece[begin..];
    let is_keyword = |token: &SourceToken, keywords: &[&str]| keywords.contains(&&*token.text);
    if rest.first().is_some_and(|token| is_keyword(token, &["import", "package", "using"])) {
        return vec![SourceItem { is_import: true, ..named_item(last_word(rest), piece.clone()) }];
    }
    let open = rest.iter().position(|token| token.is('{'));
    let is_head_end = |token: &SourceToken| ['(', '=', '{', ';'].iter().any(|mark| token.is(*mark));
    let stop = rest.iter().position(is_head_end);
    let head = &rest[..stop.unwrap_or(rest.len())];
    let Some(index) = head.iter().position(|token| is_keyword(token, &TYPES)) else {
        return vec![SourceItem { is_always, ..named_item(last_word(head), piece.clone()) }];
    };
    let is_split =
        head[index].text == "namespace" || (syntax == SourceSyntax::Java && is_top_level);
    if let Some(open) = open.filter(|_| is_split) {
        let inner = rest[open + 1..index_after(rest, open).max(open + 2) - 1].to_vec();
        let header = SourceItem {
            is_always: syntax == SourceSyntax::Java,
            ..named_item(Vec::new(), piece[..begin + open].to_vec())
        };
        return [vec![header], split_items(inner, syntax)].concat();
    }
    let name = head.get(index + 1).and_then(SourceToken::as_word).map(str::to_owned);
    vec![named_item(name.into_iter().collect(), piece.clone())]
}

fn last_word(tokens: &[SourceToken]) -> Vec<String> {
    let mut words = tokens.iter().filter_map(SourceToken::as_word);
    words.next_back().map(str::to_owned).into_iter().collect()
}

/// Returns the index after Java annotations, and whether one of them makes the method run before or
/// after the benchmarks.
fn skip_annotations(piece: &[SourceToken]) -> (usize, bool) {
    let (mut index, mut is_around) = (0, false);
    while piece.get(index).is_some_and(|token| token.is('@')) {
        is_around |=
            piece.get(index + 1).is_some_and(|name| ["Setup", "TearDown"].contains(&&*name.text));
        index += 2;
        while piece.get(index).is_some_and(|token| token.is('.')) {
            index += 2;
        }
        if piece.get(index).is_some_and(|token| token.is('(')) {
            index = index_after(piece, index);
        }
    }
    (index.min(piece.len()), is_around)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::tokenize;

    fn declared_names(text: &str, syntax: SourceSyntax) -> Vec<Vec<String>> {
        let read = split_items(tokenize(text, syntax), syntax).into_iter();
        read.map(|item| [item.names, item.belongs_to].concat()).collect()
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
        assert_eq!(declared_names(text, SourceSyntax::Go), expected);
    }

    #[test]
    fn declarations_of_rust() {
        let text = "#![feature(test)]\nuse a::{B, C as D};\nmod inner {\n fn f<'a>() {}\n}\n#[inline]\npub(crate) const fn g() -> u8 { b'x' }\n\
            impl<T> X for Y<T> { fn h() {} }\nlazy_static! { static ref DATA: u8 = 1; }\ncriterion_group!(benches, f);\n";
        let expected: [&[&str]; 7] = [&["B"], &["D"], &["f"], &["g"], &["Y", "T"], &["DATA"], &[]];
        assert_eq!(declared_names(text, SourceSyntax::Rust), expected);
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
        assert_eq!(declared_names(text, SourceSyntax::Python), expected);
    }

    #[test]
    fn declarations_of_java_and_c() {
        let text = "package a;\nimport java.util.List;\n@State(Scope.Thread)\npublic class Sums {\n  @Param({\"1\"}) int size;\n  @Setup public void up() {}\n\
            @Benchmark public int total(Blackhole b) { return 1; }\n}\n";
        let expected: [&[&str]; 6] = [&["a"], &["List"], &[], &["size"], &["up"], &["total"]];
        assert_eq!(declared_names(text, SourceSyntax::Java), expected);
        let text = "#include <x>\n#define N 5\nnamespace {\nint data[] = {1, 2};\nstatic void BM_copy(State& s) { f(s); }\n}\nBENCHMARK(BM_copy);\n";
        let expected: [&[&str]; 7] =
            [&[], &["N"], &[], &["data"], &[], &["BM_copy"], &["BENCHMARK"]];
        let found = declared_names(text, SourceSyntax::C);
        assert!(
            found.iter().any(|own| own == expected[5])
                && found.iter().any(|own| own == expected[1]),
            "{found:?}"
        );
    }
}
