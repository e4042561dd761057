//! URLs as they appear in messages: without anything that may be secret.
//!
//! User, password, query and fragment are hidden. A query may contain a signature or a
//! token, and messages end up in logs.

use std::borrow::Cow;

/// The text that replaces a hidden query.
const HIDDEN_QUERY: &str = "?…";

/// Schemes whose addresses are not percent-encoded: `?` and `#` are part of a name.
const LITERAL: [&str; 9] = [
    "hf", "s3", "s3a", "gs", "az", "abfs", "abfss", "memory", "file",
];

/// Returns a URL without user, password, query and fragment. Any other text, such as a
/// path, is returned unchanged.
///
/// ```
/// let url = "https://user:password@example.org/m.zstn?X-Amz-Signature=0a1b#top";
/// assert_eq!(zstn_net::shown::address(url), "https://example.org/m.zstn?…");
/// ```
#[must_use]
pub fn address(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = split(text) else {
        return text.into();
    };
    let literal = LITERAL.iter().any(|one| one.eq_ignore_ascii_case(scheme));
    let public = without_user(rest, literal);
    let end = match literal {
        // `m?.json` is a name; `m?token=…` was meant as a query.
        true => public.find('?').filter(|at| public[*at..].contains('=')),
        false => public.find(['?', '#']),
    };
    let (public, hidden) = public.split_at(end.unwrap_or(public.len()));
    if hidden.is_empty() && public.len() == rest.len() {
        return text.into();
    }
    let query = match hidden.strip_prefix('?') {
        Some(query) if !query.is_empty() && !query.starts_with('#') => HIDDEN_QUERY,
        _ => "",
    };
    format!("{scheme}://{public}{query}").into()
}

/// Returns a text in which every URL is shown as by [`address`]. Messages of servers
/// and libraries may contain URLs with secrets.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let start = rest[..at].trim_end_matches(is_scheme).len();
        let length = rest[start..].find(is_end).unwrap_or(rest.len() - start);
        let found = &rest[start..start + length];
        let found = found.trim_end_matches([':', ';', ',', '.', ')', ']', '}', '\'']);
        shown.push_str(&rest[..start]);
        // A scheme without a host, such as `http://:`, has nothing to hide.
        if found.len() <= at - start + 3 {
            shown.push_str(&rest[start..at + 3]);
            rest = &rest[at + 3..];
            continue;
        }
        shown.push_str(&address(found));
        rest = &rest[start + found.len()..];
    }
    if shown.is_empty() {
        return text.into();
    }
    shown.push_str(rest);
    shown.into()
}

/// Returns a server's message without the secrets in the requested URL `asked`. A
/// server may repeat a signature that it rejects.
#[must_use]
pub fn answer(answer: &str, asked: &str) -> String {
    let mut shown = text(answer).into_owned();
    for secret in secrets(asked) {
        shown = shown.replace(&*secret, "…");
    }
    shown
}

/// Returns the user, the password and the values of the query of a URL, both as written
/// and decoded.
fn secrets(address: &str) -> Vec<String> {
    /// Shorter values are words such as `true`; signatures are longer.
    const MIN_BYTES: usize = 6;
    let Some((_, rest)) = split(address) else {
        return Vec::new();
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let user = path.len() - without_user(path, false).len();
    let user = path[..user].trim_end_matches('@').split(':');
    let query = query.split('#').next().unwrap_or_default().split('&');
    let values = query.filter_map(|pair| Some(pair.split_once('=')?.1));
    let mut secrets: Vec<String> = user
        .chain(values)
        .flat_map(|raw| {
            let decoded = percent_encoding::percent_decode_str(raw).decode_utf8_lossy();
            [raw.to_owned(), decoded.into_owned()]
        })
        .filter(|secret| secret.len() >= MIN_BYTES)
        .collect();
    // The longest is replaced first, because a secret may contain another one.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets
}

/// Removes user and password from `rest`, a URL without its scheme. `literal` is true for
/// the [`LITERAL`] schemes.
fn without_user(rest: &str, literal: bool) -> &str {
    let authority = &rest[..rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())];
    if let Some(at) = authority.rfind('@') {
        // `abfss://container@account` and `hf://name@revision` are names.
        return match literal && !authority[..at].contains(':') {
            true => rest,
            false => &rest[at + 1..],
        };
    }
    // A password may contain a slash that is not encoded. The apparent port, which is
    // not numeric, is then the beginning of the password.
    let host_end = authority.rfind(']').map_or(0, |end| end + 1);
    let looks_like_password = authority[host_end..]
        .split_once(':')
        .is_some_and(|(_, port)| !port.bytes().all(|byte| byte.is_ascii_digit()));
    match rest.rfind('@') {
        Some(at) if looks_like_password => &rest[at + 1..],
        _ => rest,
    }
}

/// Splits a URL into its scheme and the text after `://`; `None` for any other text.
fn split(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some((scheme, rest))
}

/// Returns whether a URL inside a sentence ends before this character.
fn is_end(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>' | '`' | '“' | '”')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_addresses_are_hidden() {
        for (given, expected) in [
            ("http://u:p@h:8/a/b?sig=1#f", "http://h:8/a/b?…"),
            ("HTTPS://token@h/a", "HTTPS://h/a"),
            ("http://u:p/w@h/a@b", "http://b"),
            ("http://u:p@w@h/a", "http://h/a"),
            ("http://u:p?x@h/a", "http://h/a"),
            ("http://h/a@b", "http://h/a@b"),
            ("http://[::1]:80/a@b?c", "http://[::1]:80/a@b?…"),
            ("http://h?", "http://h"),
            ("http://h/a#token", "http://h/a"),
            ("http://h/ü?x", "http://h/ü?…"),
            ("hf://o/n@main/m?.json", "hf://o/n@main/m?.json"),
            ("hf://o/n/m?token=1", "hf://o/n/m?…"),
            ("hf://n@main/f", "hf://n@main/f"),
            ("s3://key:secret@b/x", "s3://b/x"),
            ("abfss://c@a.net/x", "abfss://c@a.net/x"),
            ("ftp://u:p@h/x?y", "ftp://h/x?…"),
            ("model.zstn?x", "model.zstn?x"),
            ("a b://c?d", "a b://c?d"),
            ("C:\\models\\a?b", "C:\\models\\a?b"),
        ] {
            assert_eq!(address(given), expected, "{given}");
            assert_eq!(address(&address(given)), address(given), "{given}");
        }
    }

    #[test]
    fn addresses_inside_texts_are_found() {
        for (given, expected) in [
            ("no address", "no address"),
            ("http://u:p@h/x?s=1: gone", "http://h/x?…: gone"),
            (
                "(see \"http://h/x?s=1\", then https://t@h)",
                "(see \"http://h/x?…\", then https://h)",
            ),
            ("to 'http://h/x?s=1'.", "to 'http://h/x?…'."),
            ("://", "://"),
            ("http://", "http://"),
            (
                "begin with http://, s3:// or a path",
                "begin with http://, s3:// or a path",
            ),
        ] {
            assert_eq!(text(given), expected, "{given}");
            assert_eq!(text(&text(given)), text(given), "{given}");
        }
    }

    #[test]
    fn answers_do_not_repeat_secrets() {
        let asked = "http://user99:pass%21word@h/x?X-Amz-Signature=abcdef0123&download=true";
        let said =
            "Signature abcdef0123 of user99 (pass!word) for http://h/x?y=1 has expired: true";
        assert_eq!(
            answer(said, asked),
            "Signature … of … (…) for http://h/x?… has expired: true"
        );
    }
}
