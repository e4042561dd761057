//! Names and sizes as people see them.

use std::borrow::Cow;

/// Returns `text` with escapes for characters that a terminal or a page would
/// act on instead of showing them: controls, line breaks, and marks that
/// change the direction of what follows.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' => out.extend(character.escape_default()),
            other if acts(other) => out.extend(other.escape_unicode()),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Returns a length like `1.23 MB`: a MB is 10^6 bytes.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut units = UNITS.iter().peekable();
    while value >= 999.5 && units.len() > 1 {
        value /= 1000.0;
        units.next();
    }
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", units.next().unwrap_or(&"B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        assert_eq!(printable("a ü 漢.zstn"), "a ü 漢.zstn");
        assert_eq!(
            printable("\u{1b}[31m\u{9b}\r\n\u{202e}x"),
            "\\u{1b}[31m\\u{9b}\\r\\n\\u{202e}x"
        );
    }

    #[test]
    fn sizes_keep_three_digits() {
        let sizes = [0, 999, 1000, 99_949, 999_499, 999_500, u64::MAX];
        assert_eq!(
            sizes.map(size),
            [
                "0 B", "999 B", "1.00 kB", "99.9 kB", "999 kB", "1.00 MB", "18.4 EB"
            ]
        );
    }
}
