//! How long a line, a function and a file may be.

use super::Violation;
use crate::lex::{Language, is_word};
use crate::source::Source;

const LINE_COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_AIM: usize = 400;
const FILE_LINES_MAX: usize = 800;

/// Lines over the limit; one that carries a link cannot be broken and is let be.
pub(super) fn lines(source: &Source) -> Vec<Violation> {
    if source.language.is_none() || source.is_generated() || source.is_test_data() {
        return Vec::new();
    }
    let too_long = source
        .text
        .lines()
        .enumerate()
        .filter_map(|(number, line)| {
            let columns = line.chars().count();
            (columns > LINE_COLUMNS_MAX && !line.contains("://")).then_some((number + 1, columns))
        });
    too_long
        .map(|(line, columns)| {
            let what = format!("{columns} columns; at most {LINE_COLUMNS_MAX}");
            Violation::new(&source.path, line, "line-length", what)
        })
        .collect()
}

/// Files over the limit, and, as a warning, over the aim.
pub(super) fn files(source: &Source) -> Vec<Violation> {
    if source.language.is_none() || source.is_generated() || source.is_test_data() {
        return Vec::new();
    }
    let lines = source.text.lines().count();
    if lines <= FILE_LINES_AIM {
        return Vec::new();
    }
    let what = format!("{lines} lines; aim at {FILE_LINES_AIM}, stop at {FILE_LINES_MAX}");
    let mut violation = Violation::new(&source.path, 0, "file-length", what);
    violation.warning = lines <= FILE_LINES_MAX;
    vec![violation]
}

/// Functions over the limit.
pub(super) fn functions(source: &Source) -> Vec<Violation> {
    let (Some(language), Some(layers)) = (source.language, &source.layers) else {
        return Vec::new();
    };
    if source.is_generated() || source.is_test_data() {
        return Vec::new();
    }
    let found = match language {
        Language::Lua => lua_functions(&layers.code),
        _ => braced_functions(&layers.code, language),
    };
    found
        .into_iter()
        .filter(|function| function.lines > FUNCTION_LINES_MAX)
        .map(|Function { name, line, lines }| {
            let what = format!("{name} has {lines} lines; at most {FUNCTION_LINES_MAX}");
            Violation::new(&source.path, line, "function-length", what)
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// Functions of a language with braces: a block whose head reads like a function's.
fn braced_functions(code: &str, language: Language) -> Vec<Function> {
    struct Open {
        line: usize,
        name: Option<String>,
    }
    let mut functions = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    // The head: everything since the last brace or semicolon, and the line it begins on.
    let mut head = String::new();
    let mut head_line = 1;
    let mut brackets = 0_usize;
    for (number, text) in (1..).zip(code.lines()) {
        if language == Language::C && text.trim_start().starts_with('#') {
            continue;
        }
        for c in text.chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            match c {
                '{' => {
                    open.push(Open {
                        line: head_line,
                        name: function_name(&head, language),
                    });
                    head.clear();
                }
                '}' => {
                    if let Some(Open {
                        line,
                        name: Some(name),
                    }) = open.pop()
                    {
                        functions.push(Function {
                            name,
                            line,
                            lines: number - line + 1,
                        });
                    }
                    head.clear();
                }
                // `[u8; 4]` in a signature does not end it.
                ';' if brackets == 0 => head.clear(),
                // An attribute is not a part of the function it stands over.
                ']' if brackets == 0 && head.starts_with('#') => head.clear(),
                _ if head.is_empty() && c.is_whitespace() => {}
                _ => {
                    if head.is_empty() {
                        head_line = number;
                    }
                    head.push(c);
                }
            }
        }
        if !head.is_empty() {
            head.push(' ');
        }
    }
    functions
}

/// The name in the head of a block, if the block is a function's body.
fn function_name(head: &str, language: Language) -> Option<String> {
    match language {
        Language::Rust => {
            // In a type, `fn` is followed by a bracket, not by a name.
            let at = head.match_indices("fn ").map(|(at, _)| at).find(|at| {
                !head[..*at].ends_with(is_word) && head[at + 3..].trim_start().starts_with(is_word)
            })?;
            Some(first_word(&head[at + 3..]))
        }
        Language::C => {
            // `SEC("...")` and BPF_UPROBE(name, ...) are how an eBPF function begins.
            let head = head.trim_start();
            let head = if head.starts_with("SEC(") {
                head.split_once(')')?.1
            } else {
                head
            };
            let (before, arguments) = head.split_once('(')?;
            let control = ["if", "for", "while", "switch", "else", "do"];
            if head.contains('=') || control.contains(&first_word(head).as_str()) {
                return None;
            }
            let name = last_word(before)?;
            Some(if name.starts_with("BPF_") {
                first_word(arguments)
            } else {
                name
            })
        }
        Language::TypeScript => {
            let control = [
                "if",
                "for",
                "while",
                "switch",
                "else",
                "do",
                "catch",
                "class",
                "interface",
            ];
            if control.contains(&first_word(head).as_str()) {
                return None;
            }
            if let Some(at) = head.find("function") {
                return Some(first_word(&head[at + 8..]));
            }
            let is_arrow = head.trim_end().ends_with("=>");
            let is_method = head.contains('(') && !head.contains('=') && !head.contains("return");
            (is_arrow || is_method).then(|| {
                last_word(head.split(['(', '=']).next().unwrap_or_default()).unwrap_or_default()
            })
        }
        Language::Lua => None,
    }
}

/// Functions of Lua: from `function` to the `end` that is indented like it.
fn lua_functions(code: &str) -> Vec<Function> {
    let lines: Vec<&str> = code.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut functions = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let head = line.trim_start();
        let named = head
            .strip_prefix("local ")
            .unwrap_or(head)
            .strip_prefix("function ");
        let Some(name) = named.or_else(|| head.contains("= function").then_some(head)) else {
            continue;
        };
        let end = lines[start..].iter().position(|candidate| {
            indent(candidate) == indent(line) && candidate.trim_start().starts_with("end")
        });
        if let Some(length) = end {
            let name = name.split(['(', ' ']).next().unwrap_or_default().to_owned();
            functions.push(Function {
                name,
                line: start + 1,
                lines: length + 1,
            });
        }
    }
    functions
}

fn first_word(text: &str) -> String {
    text.trim_start()
        .chars()
        .take_while(|c| is_word(*c))
        .collect()
}

fn last_word(text: &str) -> Option<String> {
    let word = text.split(|c| !is_word(c)).rfind(|word| !word.is_empty())?;
    Some(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, text: &str) -> Vec<(String, usize, usize)> {
        let source = Source::new(path, text);
        let code = &source.layers.as_ref().expect("a known language").code;
        let found = match source.language {
            Some(Language::Lua) => lua_functions(code),
            language => braced_functions(code, language.expect("a known language")),
        };
        found
            .into_iter()
            .map(|f| (f.name, f.line, f.lines))
            .collect()
    }

    #[test]
    fn a_line_of_101_columns_is_found() {
        let long = "x".repeat(101);
        assert_eq!(
            lines(&Source::new("a.rs", &format!("a\n{long}\n")))[0].line,
            2
        );
        assert_eq!(lines(&Source::new("a.rs", &"é".repeat(100))), []);
        assert_eq!(lines(&Source::new("a.md", &long)), []);
        assert_eq!(lines(&Source::new("a.c", &format!("// http://{long}"))), []);
    }

    #[test]
    fn a_file_of_801_lines_is_found() {
        assert_eq!(files(&Source::new("a.rs", &"\n".repeat(400))), []);
        let warned = files(&Source::new("a.rs", &"\n".repeat(401)));
        assert!(warned[0].warning);
        let failed = files(&Source::new("a.h", &"\n".repeat(801)));
        assert!(!failed[0].warning);
        assert_eq!(
            files(&Source::new(
                "a.h",
                &format!("// @generated\n{}", "\n".repeat(900))
            )),
            []
        );
    }

    #[test]
    fn a_function_of_71_lines_is_found() {
        let text = format!("fn long() {{\n{}}}\n", "    a;\n".repeat(69));
        let found = functions(&Source::new("a.rs", &text));
        assert_eq!(found[0].what, "long has 71 lines; at most 70");
        let text = format!("fn short() {{\n{}}}\n", "    a;\n".repeat(68));
        assert_eq!(functions(&Source::new("a.rs", &text)), []);
    }

    #[test]
    fn rust_functions_are_told_from_types_and_blocks() {
        let text = "struct A { f: fn(u8) -> u8 }\nimpl A {\n    #[inline]\n    \
                    pub fn b<T>(\n        \
                    x: [u8; 4],\n    ) -> T {\n        if x { 1 }\n    }\n}\n\
                    trait C { fn d(&self); }\n";
        assert_eq!(names("a.rs", text), [("b".to_owned(), 4, 5)]);
    }

    #[test]
    fn c_functions_are_told_from_control() {
        let text = "#include <a.h>\nstruct s { int a; };\nint x[] = { 1 };\nSEC(\"uprobe\")\n\
                    int BPF_UPROBE(on_end, void *thd)\n{\n    if (a) {\n    }\n    return 0;\n}\n";
        assert_eq!(names("a.bpf.c", text), [("on_end".to_owned(), 4, 7)]);
    }

    #[test]
    fn typescript_and_lua_functions_are_found() {
        let text = "export function a(x: number): void {\n  if (x) {\n  }\n}\n\
                    const b = (c) => {\n}\nclass D {\n  e(): void {\n  }\n}\n";
        let found: Vec<String> = names("a.ts", text).into_iter().map(|f| f.0).collect();
        assert_eq!(found, ["a", "b", "e"]);
        let text = "local function f(x)\n  if x then\n  end\nend\nfunction g()\nend\n";
        assert_eq!(
            names("a.lua", text),
            [("f".to_owned(), 1, 4), ("g".to_owned(), 5, 2)]
        );
    }
}
