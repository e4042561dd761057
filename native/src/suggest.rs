//! Suggests names that a user may have meant. The npm package suggests the same names.

/// The maximum number of names in an error message.
const MAX_SUGGESTIONS: usize = 3;

/// The maximum number of characters of a name that are compared. Comparing two names
/// takes time proportional to the square of their length.
const MAX_COMPARED_CHARS: usize = 200;

/// Returns the end of an error message that suggests the names most similar to
/// `wanted`; empty if no name is similar.
pub fn hint<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> String {
    let matches = close_matches(wanted, names);
    if matches.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = matches.iter().map(|name| format!("`{name}`")).collect();
    format!("; did you mean {}?", quoted.join(" or "))
}

/// Returns the names most similar to `wanted`, best first, and only names within the
/// allowed distance.
fn close_matches<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let target = compared(wanted);
    let mut best: Vec<(usize, usize, &str)> = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        let candidate = compared(name);
        let longer = candidate.len().max(target.len());
        let mut allowed = (longer / 3).max(2);
        if let Some((distance, ..)) = best.get(MAX_SUGGESTIONS - 1) {
            allowed = allowed.min(*distance);
        }
        // A name that contains the whole target ("wte" in "transformer.wte.weight")
        // counts as near.
        let is_contained =
            target.len() >= 3 && candidate.windows(target.len()).any(|part| part == target);
        let distance = match is_contained {
            true => Some(1),
            false => edit_distance(&target, &candidate, allowed),
        };
        if let Some(distance) = distance {
            let entry = (distance, name.chars().count(), name);
            let at = best.partition_point(|other| (other.0, other.1) <= (entry.0, entry.1));
            best.insert(at, entry);
            best.truncate(MAX_SUGGESTIONS);
        }
    }
    best.into_iter().map(|(.., name)| name).collect()
}

/// Returns the characters of a name that are compared, in lower case.
fn compared(name: &str) -> Vec<char> {
    let lower = name.chars().flat_map(char::to_lowercase);
    lower.take(MAX_COMPARED_CHARS).collect()
}

/// Returns the Levenshtein distance, computed row by row; `None` if it exceeds
/// `allowed`, in most cases without computing all rows.
fn edit_distance(a: &[char], b: &[char], allowed: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > allowed {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        let mut least = row[0];
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
            least = least.min(row[j + 1]);
        }
        // The minimum of a row never decreases from row to row.
        if least > allowed {
            return None;
        }
    }
    row.pop().filter(|distance| *distance <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = [
        "transformer.wte.weight",
        "transformer.h.0.attn.c_attn.weight",
        "transformer.h.1.attn.c_attn.weight",
        "transformer.h.10.attn.c_attn.weight",
        "lm_head.weight",
    ];

    #[test]
    fn near_names_are_found_and_others_are_not() {
        let matches = |wanted: &str| close_matches(wanted, NAMES.into_iter());
        assert_eq!(matches("wte"), ["transformer.wte.weight"]);
        assert_eq!(matches("lmhead.wieght"), ["lm_head.weight"]);
        assert_eq!(matches("LM_HEAD.WEIGHT"), ["lm_head.weight"]);
        assert_eq!(
            matches("transformer.h.2.attn.c_attn.weight"),
            [NAMES[1], NAMES[2], NAMES[3]],
            "shorter ones first among equals"
        );
        assert!(matches("decoder.blocks.3.ffn").is_empty());
        assert!(matches("").is_empty());
        assert_eq!(close_matches("a", ["b"].into_iter()), ["b"]);
        assert!(matches(&"x".repeat(100_000)).is_empty());
    }

    #[test]
    fn a_hint_ends_the_sentence() {
        assert_eq!(
            hint("attn", NAMES[1..3].iter().copied()),
            format!("; did you mean `{}` or `{}`?", NAMES[1], NAMES[2])
        );
        assert_eq!(hint("something.else.entirely", NAMES.into_iter()), "");
    }
}
