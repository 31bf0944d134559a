//! Which functions of a binary does a name mean, and where can their calls be watched?
//!
//! A name is a mangled one, a C++ name with or without its parameters (`dispatch_command`,
//! `handler::ha_write_row`), the end of one, or a pattern with `*`. Only a pattern may mean several
//! functions. Neighbour: `waggle_symbols::Site` finds the instruction.
//!
//! Invariant: nothing is chosen that was not named; a name that means several functions is refused
//! with what to write instead.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use cpp_demangle::{DemangleOptions, Symbol};
use waggle_symbols::{Binary, ElfError, Function, Site, SiteError};

/// Functions listed in an error.
const LISTED: usize = 12;

/// A function that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its C++ name without parameters, or its name.
    pub name: String,
    /// The same with parameters.
    pub signature: String,
    /// Where its calls are watched.
    pub site: Site,
}

/// Why a name chose nothing.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// The binary cannot be read.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// No function has the name.
    #[error(
        "{path} exports no function {name:?}: one that is static, or inlined wherever it is \
         called, has no name there; name one that calls it, or a pattern with *{near}"
    )]
    Unknown {
        /// The binary.
        path: String,
        /// What was asked for.
        name: String,
        /// Names that are like it.
        near: Listed,
    },
    /// Several have it.
    #[error(
        "{name:?} is the name of {count} functions; write one of these, or a pattern with *{all}"
    )]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// How many.
        count: usize,
        /// Which.
        all: Listed,
    },
    /// It cannot be watched.
    #[error("calls of {name} cannot be watched: {source}")]
    Site {
        /// Its name.
        name: String,
        /// Why.
        source: SiteError,
    },
}

/// Names, each on a line of its own, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed(pub Vec<String>);

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in self.0.iter().take(LISTED) {
            write!(f, "\n  '{name}'")?;
        }
        match self.0.len().saturating_sub(LISTED) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// The C++ name of a symbol with parameters and without; its own name if it is not mangled.
pub fn demangled(symbol: &str) -> (String, String) {
    let plain = || (symbol.to_owned(), symbol.to_owned());
    let Ok(parsed) = Symbol::new(symbol) else {
        return plain();
    };
    let options = DemangleOptions::new().no_return_type();
    let whole = parsed.demangle_with_options(&options);
    let bare = parsed.demangle_with_options(&options.no_params());
    match (whole, bare) {
        (Ok(whole), Ok(bare)) => (whole, bare),
        _ => plain(),
    }
}

/// The functions of `binary` that `name` means, by address.
///
/// # Errors
/// The binary cannot be read, no function or several have the name, or one cannot be watched.
pub fn choose(binary: &Path, name: &str) -> Result<Vec<Chosen>, ChooseError> {
    let part = longest_word(name);
    let opened = Binary::open(binary, |symbol| symbol.contains(part))?;
    let mut found: BTreeMap<u64, Function> = BTreeMap::new();
    let mut best = Fit::None;
    for function in opened.functions() {
        let fit = fit(name, &function.name);
        if fit == Fit::None || fit < best {
            continue;
        }
        if fit > best {
            found.clear();
            best = fit;
        }
        found.entry(function.address).or_insert(function);
    }
    if found.is_empty() {
        return Err(ChooseError::Unknown {
            path: binary.display().to_string(),
            name: name.to_owned(),
            near: Listed(near(binary, part)?),
        });
    }
    let signatures = |found: &BTreeMap<u64, Function>| {
        let mut all: Vec<String> = found.values().map(|f| demangled(&f.name).0).collect();
        all.sort_unstable();
        Listed(all)
    };
    if found.len() > 1 && !is_pattern(name) {
        return Err(ChooseError::Ambiguous {
            name: name.to_owned(),
            count: found.len(),
            all: signatures(&found),
        });
    }
    found
        .into_values()
        .map(|function| watch(&function))
        .collect()
}

fn watch(function: &Function) -> Result<Chosen, ChooseError> {
    let (signature, name) = demangled(&function.name);
    match Site::at_entry(function) {
        Ok(site) => Ok(Chosen {
            name,
            signature,
            site,
        }),
        Err(source) => Err(ChooseError::Site { name, source }),
    }
}

/// How well a name fits a symbol; the best fit wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    None,
    /// The name's pattern matches.
    Pattern,
    /// The symbol's name ends with it.
    End,
    /// It is the symbol's name without parameters.
    Name,
    /// It is the symbol, or its name with parameters.
    Whole,
}

fn fit(name: &str, symbol: &str) -> Fit {
    if symbol == name {
        return Fit::Whole;
    }
    let (signature, bare) = demangled(symbol);
    let same = |one: &str, other: &str| {
        let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
        letters(one) == letters(other)
    };
    if same(&signature, name) {
        return Fit::Whole;
    }
    if same(&bare, name) {
        return Fit::Name;
    }
    if is_pattern(name) {
        let matches = matches(name, &bare) || (name.contains('(') && matches(name, &signature));
        return if matches { Fit::Pattern } else { Fit::None };
    }
    let end = bare.strip_suffix(name);
    if end.is_some_and(|scope| scope.ends_with("::")) {
        return Fit::End;
    }
    Fit::None
}

/// True if a `*` in the name stands for anything, not for a pointer among parameters.
fn is_pattern(name: &str) -> bool {
    name.split('(')
        .next()
        .is_some_and(|name| name.contains('*'))
}

/// True if `pattern`, in which `*` stands for anything, matches all of `text`.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// The longest name within a pattern or a C++ name: it is part of the symbol too.
fn longest_word(name: &str) -> &str {
    let before = name.split_once('(').map_or(name, |(before, _)| before);
    let words = before.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.max_by_key(|word| word.len()).unwrap_or_default()
}

/// Functions whose name holds the word, in any case, the shortest first.
fn near(binary: &Path, word: &str) -> Result<Vec<String>, ElfError> {
    if word.len() < 3 {
        return Ok(Vec::new());
    }
    let lower = word.to_ascii_lowercase();
    let opened = Binary::open(binary, |symbol| {
        symbol.to_ascii_lowercase().contains(&lower)
    })?;
    let mut names: Vec<String> = opened.functions().map(|f| demangled(&f.name).1).collect();
    names.sort_unstable_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    names.dedup();
    names.truncate(LISTED);
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISPATCH: &str = "_Z16dispatch_commandP3THDPK8COM_DATA19enum_server_command";
    const WRITE_ROW: &str = "_ZN7handler12ha_write_rowEPh";
    const OTHER_WRITE_ROW: &str = "_ZN12ha_partition12ha_write_rowEPKh";

    #[test]
    fn a_name_is_written_mangled_plain_with_parameters_or_by_its_end() {
        assert_eq!(fit(DISPATCH, DISPATCH), Fit::Whole);
        assert_eq!(fit("dispatch_command", DISPATCH), Fit::Name);
        let signature = "dispatch_command(THD*, COM_DATA const*,enum_server_command)";
        assert_eq!(
            fit(signature, DISPATCH),
            Fit::Whole,
            "{:?}",
            demangled(DISPATCH)
        );
        assert_eq!(fit("handler::ha_write_row", WRITE_ROW), Fit::Name);
        assert_eq!(fit("ha_write_row", WRITE_ROW), Fit::End);
        assert_eq!(fit("write_row", WRITE_ROW), Fit::None);
        assert_eq!(fit("handler::ha_write_row", OTHER_WRITE_ROW), Fit::None);
        assert_eq!(fit("handler::ha_*", WRITE_ROW), Fit::Pattern);
        assert_eq!(fit("*::ha_write_row", OTHER_WRITE_ROW), Fit::Pattern);
        assert_eq!(fit("main", "main"), Fit::Whole);
    }

    #[test]
    fn patterns() {
        for (pattern, text) in [
            ("a*", "a"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*c", "abbc"),
            ("a*b*c", "a-b-b-c"),
            ("*", ""),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a*", "ba"), ("a*a", "a"), ("a*b*c", "acb"), ("ab", "abc")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn this_test_finds_itself_and_says_what_is_near() {
        let own = Path::new("/proc/self/exe");
        let name = "waggle_trace::call::choose::tests::this_test_finds_itself*";
        let found = choose(own, name).unwrap();
        assert!(!found.is_empty() && found.iter().all(|f| !f.site.bytes.is_empty()));
        let wrong = choose(own, "malloc_no_such_function").unwrap_err();
        let text = wrong.to_string();
        assert!(text.contains("malloc_no_such_function"), "{text}");
        assert!(text.contains("name one that calls it"), "{text}");
    }
}
