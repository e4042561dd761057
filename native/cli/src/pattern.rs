//! Patterns for tensor names, with the syntax of shell patterns.

use std::convert::Infallible;
use std::str::FromStr;

/// A name or a pattern: `*` matches any characters, including dots, `?` matches one
/// character, `[0-3]` one of several and `[!0-3]` any other. A `[` without a matching
/// `]` is an ordinary character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Char(char),
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Part {
    fn is(&self, character: char) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::Char(wanted) => *wanted == character,
            Self::Class { is_negated, ranges } => {
                let mut ranges = ranges.iter();
                ranges.any(|(first, last)| (*first..=*last).contains(&character)) != *is_negated
            }
        }
    }
}

impl FromStr for Pattern {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let mut parts = Vec::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            parts.push(match character {
                '*' => Part::Any,
                '?' => Part::One,
                '[' => match class(characters.as_str()) {
                    None => Part::Char('['),
                    Some((class, rest)) => {
                        characters = rest.chars();
                        class
                    }
                },
                character => Part::Char(character),
            });
        }
        parts.dedup_by(|next, part| *next == Part::Any && *part == Part::Any);
        Ok(Self {
            text: text.into(),
            parts,
        })
    }
}

/// Parses a class after its `[`. Returns it with the remaining text.
fn class(text: &str) -> Option<(Part, &str)> {
    let inner = text.strip_prefix('!');
    let is_negated = inner.is_some();
    let inner = inner.unwrap_or(text);
    // A `]` at the beginning of a class is one of its characters.
    let first_len = inner.chars().next()?.len_utf8();
    let end = first_len + inner[first_len..].find(']')?;
    let members: Vec<char> = inner[..end].chars().collect();
    let mut ranges = Vec::new();
    let mut rest = &members[..];
    while let [first, after @ ..] = rest {
        (ranges, rest) = match after {
            ['-', last, after @ ..] => (pushed(ranges, (*first, *last)), after),
            after => (pushed(ranges, (*first, *first)), after),
        };
    }
    Some((Part::Class { is_negated, ranges }, &inner[end + 1..]))
}

fn pushed<T>(mut all: Vec<T>, one: T) -> Vec<T> {
    all.push(one);
    all
}

impl Pattern {
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern contains wildcards.
    pub fn is_wild(&self) -> bool {
        self.parts.iter().any(|part| !matches!(part, Part::Char(_)))
    }

    /// Returns whether `name` matches the pattern or equals its text.
    pub fn matches(&self, name: &str) -> bool {
        self.text == name || self.matches_wild(name)
    }

    /// Matches with backtracking to the last `*` only, so the time is at most
    /// proportional to the product of both lengths.
    fn matches_wild(&self, name: &str) -> bool {
        let mut part = 0;
        let mut rest = name.chars();
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            if self.parts.get(part) == Some(&Part::Any) {
                part += 1;
                retry = Some((part, rest.clone()));
                continue;
            }
            let mut next = rest.clone();
            match (self.parts.get(part), next.next()) {
                (None, None) => return true,
                (Some(wanted), Some(character)) if wanted.is(character) => {
                    part += 1;
                    rest = next;
                }
                _ => {
                    let Some((after, from)) = &mut retry else {
                        return false;
                    };
                    if from.next().is_none() {
                        return false;
                    }
                    (part, rest) = (*after, from.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_as_shells_match_files() {
        for (pattern, name, is_matched) in [
            ("wte", "wte", true),
            ("wte", "wte.weight", false),
            ("layers.3.*", "layers.3.mlp.up.weight", true),
            ("layers.3.*", "layers.33.mlp.up.weight", false),
            ("*.weight", "a.b.weight", true),
            ("*.weight", "a.b.weights", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("**", "", true),
            ("?", "", false),
            ("?x", "öx", true),
            ("l.[0-3].w", "l.2.w", true),
            ("l.[0-3].w", "l.4.w", false),
            ("l.[!0-3].w", "l.4.w", true),
            ("l.[]a].w", "l.].w", true),
            ("l.[a-].w", "l.-.w", true),
            ("a[0]", "a[0]", true),
            ("a[0]", "a0", true),
            ("[", "[", true),
            ("a[]*", "a[]xx", true),
            ("*[ab", "xx[ab", true),
            ("*[ab", "xxa", false),
            ("", "", true),
            ("", "a", false),
        ] {
            let parsed: Pattern = pattern.parse().unwrap();
            assert_eq!(parsed.matches(name), is_matched, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_long_time() {
        let pattern: Pattern = "*a".repeat(500).parse().unwrap();
        assert!(!pattern.matches(&("a".repeat(499) + &"b".repeat(20_000))));
        assert!(pattern.matches(&"a".repeat(500)));
    }
}
