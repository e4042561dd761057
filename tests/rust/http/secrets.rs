//! Tokens and other secret headers are only sent to the origin that they were given
//! for.

use zstn::source::{HttpOptions, Remote, Source};
use zstn::{Error, Location};
use zstn_tests::round_server::{Page, Request, RoundServer};

const TOKEN: &str = "hf_a-secret-token";
const KEY: &str = "another-secret";

fn file() -> Page {
    Page::File((0..=255).collect())
}

fn secrets_for(address: &str) -> HttpOptions {
    HttpOptions::default()
        .token(address, TOKEN)
        .and_then(|options| options.header(address, "X-Key", KEY))
        .unwrap()
}

fn has_secrets(request: &Request) -> bool {
    let values = request.headers.iter().map(|(_, value)| value);
    let found = values.filter(|value| value.contains(TOKEN) || value.contains(KEY));
    match found.count() {
        0 => false,
        2 => {
            let token = format!("Bearer {TOKEN}");
            assert_eq!(request.header("authorization"), Some(&*token));
            assert_eq!(request.header("x-key"), Some(KEY));
            true
        }
        _ => panic!("{request:?}"),
    }
}

/// Returns the requested paths, and whether the request carried the secrets.
fn log(server: &RoundServer) -> Vec<(String, bool)> {
    let requests = server.finished_rounds().into_iter();
    requests
        .map(|request| (request.path.clone(), has_secrets(&request)))
        .collect()
}

fn expected(log: &[(&str, bool)]) -> Vec<(String, bool)> {
    log.iter()
        .map(|(path, has)| ((*path).to_owned(), *has))
        .collect()
}

#[test]
fn every_request_to_the_origin_has_them() {
    let server = RoundServer::start();
    let url = server.add("file", file());
    let moved = server.add("moved", Page::Redirect("/file".into()));
    let options = secrets_for(&format!("{}some/path?query", server.url));
    let remote = Remote::open(&moved, 10, &options).unwrap();
    remote.read_ranges(&[10..20, 15..30]).unwrap();
    Location::url(url).fetch(&options, &|_, _| ()).unwrap();
    let with = ["/moved", "/file", "/moved", "/file", "/file"].map(|path| (path, true));
    assert_eq!(log(&server), expected(&with));
}

#[test]
fn other_origins_get_none() {
    let (home, away) = (RoundServer::start(), RoundServer::start());
    let url = away.add("file", file());
    let moved = home.add("moved", Page::Redirect(url.clone()));
    let options = secrets_for(&home.url);
    // The file is requested directly, through a redirect within the origin, and as a
    // whole.
    Remote::open(&url, 10, &options).unwrap();
    let remote = Remote::open(&moved, 10, &options).unwrap();
    remote.read(10..20).unwrap();
    Location::url(&moved).fetch(&options, &|_, _| ()).unwrap();
    assert_eq!(log(&away), expected(&[("/file", false); 4]));
    assert_eq!(log(&home), expected(&[("/moved", true); 3]));
    // The same server under another name or scheme is a different origin.
    for (from, to) in [("127.0.0.1", "localhost"), ("http:", "https:")] {
        let options = secrets_for(&url.replace(from, to));
        Remote::open(&url, 10, &options).unwrap();
    }
    assert_eq!(log(&away), expected(&[("/file", false); 6]));
}

#[test]
fn a_redirect_away_and_back_gets_none() {
    let (home, away) = (RoundServer::start(), RoundServer::start());
    let url = home.add("file", file());
    let back = away.add("back", Page::Redirect(url));
    let moved = home.add("moved", Page::Redirect(back.clone()));
    let options = secrets_for(&home.url);
    Remote::open(&moved, 10, &options).unwrap();
    assert_eq!(log(&home), expected(&[("/moved", true), ("/file", false)]));
    // A redirect from another server back to the origin does not carry the secrets
    // either.
    home.expect_rounds(&[]);
    Remote::open(&back, 10, &options).unwrap();
    assert_eq!(log(&home), expected(&[("/file", false)]));
    assert_eq!(log(&away), expected(&[("/back", false); 2]));
}

#[test]
fn no_text_contains_them() {
    let server = RoundServer::start();
    let options = secrets_for(&server.url);
    let remote = Remote::open(&server.add("file", file()), 10, &options).unwrap();
    let error = Remote::open(&format!("{}missing", server.url), 10, &options);
    let error = error.unwrap_err();
    let texts = [
        format!("{error} {error:?}"),
        format!("{options:?} {options:#?}"),
        format!("{remote:?} {remote:#?}"),
    ];
    for text in texts {
        assert!(!text.contains(TOKEN) && !text.contains(KEY), "{text}");
    }
    assert!(log(&server).iter().all(|(_, has_secrets)| *has_secrets));
}

#[test]
fn unusable_headers_are_refused_without_being_shown() {
    let address = "https://example.org";
    let line = format!("{TOKEN}\r\nX: y");
    for (address, name, value) in [
        (TOKEN, "Authorization", address),
        ("", "Authorization", TOKEN),
        ("ftp://example.org", "Authorization", TOKEN),
        ("/file", "Authorization", TOKEN),
        (address, "Authorization", &*line),
        (address, "Author ization", TOKEN),
        (address, TOKEN.trim_end_matches('n'), "\n"),
        (address, "Range", TOKEN),
        (address, "if-range", TOKEN),
        (address, "Accept-Encoding", "gzip"),
        (address, "Host", TOKEN),
        (address, "Transfer-Encoding", TOKEN),
    ] {
        let refused = HttpOptions::default().header(address, name, value);
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error:?}");
        assert!(!format!("{error} {error:?}").contains(TOKEN), "{error:?}");
    }
}

#[test]
fn a_later_header_of_the_same_name_counts() {
    let server = RoundServer::start();
    let url = server.add("file", file());
    let options = HttpOptions::default().token(&server.url, "before");
    let options = options.and_then(|options| options.token(&server.url, "after"));
    Remote::open(&url, 10, &options.unwrap()).unwrap();
    let request = &server.finished_rounds()[0];
    let sent = request
        .headers
        .iter()
        .filter(|(name, _)| name == "authorization");
    let sent: Vec<_> = sent.map(|(_, value)| &**value).collect();
    assert_eq!(sent, ["Bearer after"]);
}
