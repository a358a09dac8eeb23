// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Extracts macros, enums, functions and struct members from C files.
//!
//! For files that cannot be included because of their dependencies. The pieces go to the C compiler
//! unchanged. Not a C parser: handles the layout of AMD's headers and panics on any other.

/// Returns all `#define` lines whose name satisfies `wanted`, with continuation lines.
pub fn defines(text: &str, wanted: impl Fn(&str) -> bool) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(rest) = line.trim_start().strip_prefix('#') else {
            continue;
        };
        let Some(rest) = rest.trim_start().strip_prefix("define") else {
            continue;
        };
        if !wanted(identifier(rest.trim_start())) {
            continue;
        }
        let mut line = line;
        out += line;
        out.push('\n');
        while line.ends_with('\\') {
            line = lines.next().expect("continuation");
            out += line;
            out.push('\n');
        }
    }
    assert!(!out.is_empty(), "no such macro");
    out
}

/// Returns names of the macros in `text`: `(name, takes_parameters)`.
pub fn macros(text: &str) -> Vec<(String, bool)> {
    text.lines()
        .filter_map(|line| {
            let rest = line.trim_start().strip_prefix('#')?.trim_start();
            let rest = rest.strip_prefix("define")?.trim_start();
            let name = identifier(rest);
            Some((name.to_string(), rest[name.len()..].starts_with('(')))
        })
        .collect()
}

/// Returns the text from `start` to the first line equal to `end`, both included.
pub fn block(text: &str, start: &str, end: &str) -> String {
    let from = text.find(start).unwrap_or_else(|| panic!("no {start:?}"));
    let mut out = String::new();
    for line in text[from..].lines() {
        out += line;
        out.push('\n');
        if line == end {
            return out;
        }
    }
    panic!("no {end:?} after {start:?}");
}

/// Returns the enumerators of an enum body, in order.
pub fn enumerators(text: &str) -> Vec<String> {
    let body = &text[text.find('{').expect("enum body")..];
    without_comments(body)
        .split([',', '{', '}'])
        .map(|part| identifier(part.trim()).to_string())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Last component of the path.
    pub name: String,
    /// Full path in C, such as `bitfields2.pasid`.
    pub path: String,
    /// Number of array elements; 0 if not an array.
    pub len: usize,
}

/// Returns the members of `struct name`, through nested structs and unions.
pub fn members(text: &str, name: &str) -> Vec<Member> {
    let text = without_comments(text);
    let head = format!("struct {name} {{");
    let from = text
        .find(&head)
        .unwrap_or_else(|| panic!("no struct {name}"));
    let body = &text[from + head.len()..];
    let mut out = Vec::new();
    scan(&mut Words::new(body), "", &mut out);
    out
}

/// Reads members up to the closing brace.
fn scan(words: &mut Words<'_>, prefix: &str, out: &mut Vec<Member>) {
    loop {
        let mut declaration = Vec::new();
        loop {
            match words.next() {
                Some("}") => {
                    assert!(declaration.is_empty());
                    return;
                }
                Some("{") => {
                    let mut inner = Vec::new();
                    scan(words, "", &mut inner);
                    let name = match words.next() {
                        Some(";") => String::new(),
                        Some(name) => {
                            assert_eq!(words.next(), Some(";"));
                            format!("{name}.")
                        }
                        None => panic!("unterminated struct"),
                    };
                    out.extend(inner.into_iter().map(|m| Member {
                        path: format!("{prefix}{name}{}", m.path),
                        ..m
                    }));
                    declaration.clear();
                    break;
                }
                Some(";") => {
                    out.push(member(prefix, &declaration));
                    break;
                }
                Some(word) => declaration.push(word),
                None => panic!("unterminated struct"),
            }
        }
    }
}

/// Parses `type name`, `type name : width` or `type name [ n ]`.
fn member(prefix: &str, declaration: &[&str]) -> Member {
    let mut words = declaration.to_vec();
    let mut len = 0;
    if let Some(at) = words.iter().position(|w| *w == ":") {
        words.truncate(at);
    }
    if let Some(at) = words.iter().position(|w| *w == "[") {
        len = words[at + 1].parse().expect("array length");
        words.truncate(at);
    }
    let name = words.last().expect("name").to_string();
    Member {
        path: format!("{prefix}{name}"),
        name,
        len,
    }
}

struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        Self(text)
    }

    fn next(&mut self) -> Option<&'a str> {
        self.0 = self.0.trim_start();
        let first = self.0.chars().next()?;
        let len = if first.is_alphanumeric() || first == '_' {
            let end = |c: char| !(c.is_alphanumeric() || c == '_');
            self.0.find(end).unwrap_or(self.0.len())
        } else {
            1
        };
        let (word, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(word)
    }
}

fn identifier(text: &str) -> &str {
    let end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    &text[..text.find(end).unwrap_or(text.len())]
}

/// Returns the text without comments.
pub fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let block = rest.find("/*").unwrap_or(rest.len());
        let line = rest.find("//").unwrap_or(rest.len());
        if block == rest.len() && line == rest.len() {
            out += rest;
            return out;
        }
        if block < line {
            out += &rest[..block];
            let end = rest[block..].find("*/").expect("unterminated comment");
            rest = &rest[block + end + 2..];
        } else {
            out += &rest[..line];
            let end = rest[line..].find('\n').unwrap_or(rest.len() - line);
            rest = &rest[line + end..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_nested_structs() {
        let text =
            "struct a { /* x */ union { struct { uint32_t p:16; // pasid\n enum e q:2; } bits;\n\
                    uint32_t ord; }; uint32_t watch[4]; };";
        let found: Vec<_> = members(text, "a")
            .into_iter()
            .map(|m| (m.path, m.len))
            .collect();
        let want = [("bits.p", 0), ("bits.q", 0), ("ord", 0), ("watch", 4)];
        assert_eq!(found, want.map(|(p, n)| (p.to_string(), n)));
    }

    #[test]
    fn macros_with_continuation() {
        let text = "#define A 1\n# define B(x) ((x) << \\\n 3)\nint x;\n#define C 2\n";
        assert_eq!(
            defines(text, |n| n == "B"),
            "# define B(x) ((x) << \\\n 3)\n"
        );
        let names: Vec<_> = macros(text).into_iter().collect();
        let want = [("A", false), ("B", true), ("C", false)];
        assert_eq!(names, want.map(|(n, p)| (n.to_string(), p)));
    }

    #[test]
    fn enumerators_in_order() {
        assert_eq!(
            enumerators("enum { A = 1, /* no */ B, C }"),
            ["A", "B", "C"]
        );
    }
}
