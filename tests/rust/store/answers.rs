//! Unusual answers of servers: each problem is either handled or reported in one
//! sentence.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use zstn_store::{Address, Environment, Error, Object, Upload, UploadOptions};
use zstn_tests::store_proxy::{Action, Proxy, Request, answer};

use crate::bucket::{PART_BYTES, proxied, s3_environment};

const BODY: &[u8] = b"0123456789";
pub const MODIFIED: &str = "Last-Modified: Sun, 22 Nov 2026 12:00:00 GMT";

/// Returns an error response in the format of S3.
pub fn s3_error(status: &str, code: &str) -> Vec<u8> {
    let region = "<Region>eu-north-1</Region>";
    let body = format!("<Error><Code>{code}</Code><Message>no</Message>{region}</Error>");
    answer(status, &[], body.as_bytes())
}

fn address() -> Address {
    Address::parse("s3://bucket/object").unwrap()
}

fn open(proxy: &Proxy) -> Result<Object, Error> {
    Object::open_with_head(&address(), 4, &proxied(proxy))
}

/// Returns the bytes that a request asks for, from an object that always exists.
fn content(request: &Request) -> Vec<u8> {
    let range = request
        .header("range")
        .and_then(|range| range.strip_prefix("bytes="));
    let Some((start, end)) = range.and_then(|range| range.split_once('-')) else {
        return answer("200 OK", &["ETag: \"a\"", MODIFIED], BODY);
    };
    let start: usize = start.parse().unwrap();
    let end = end.parse::<usize>().unwrap().min(BODY.len() - 1);
    let range = format!("Content-Range: bytes {start}-{end}/{}", BODY.len());
    answer(
        "206 Partial Content",
        &["ETag: \"a\"", MODIFIED, &range],
        &BODY[start..=end],
    )
}

#[test]
fn refusals_are_one_sentence_each() {
    type Check = fn(&Error) -> bool;
    let cases: [(&str, &str, Check, &str); 11] = [
        (
            "403 Forbidden",
            "RequestTimeTooSkewed",
            |e| matches!(e, Error::Server { .. }),
            "the clock of this machine",
        ),
        (
            "403 Forbidden",
            "InvalidObjectState",
            |e| matches!(e, Error::Server { .. }),
            "is archived",
        ),
        (
            "403 Forbidden",
            "AccessDenied",
            |e| matches!(e, Error::Denied { .. }),
            "AccessDenied",
        ),
        (
            "401 Unauthorized",
            "No",
            |e| matches!(e, Error::Denied { .. }),
            "credentials",
        ),
        (
            "403 Forbidden",
            "InvalidAccessKeyId",
            |e| matches!(e, Error::Denied { .. }),
            "InvalidAccessKeyId",
        ),
        (
            "404 Not Found",
            "NoSuchKey",
            |e| matches!(e, Error::NotFound { .. }),
            "no such object",
        ),
        (
            "404 Not Found",
            "NoSuchBucket",
            |e| matches!(e, Error::NoContainer { .. }),
            "`bucket`",
        ),
        (
            "301 Moved Permanently",
            "PermanentRedirect",
            |e| matches!(e, Error::WrongRegion { .. }),
            "AWS_REGION",
        ),
        (
            "400 Bad Request",
            "AuthorizationHeaderMalformed",
            |e| matches!(e, Error::WrongRegion { region: Some(region), .. } if region == "eu-north-1"),
            "eu-north-1",
        ),
        (
            "400 Bad Request",
            "Strange",
            |e| {
                matches!(
                    e,
                    Error::Server {
                        status: Some(400),
                        ..
                    }
                )
            },
            "400 (Strange)",
        ),
        (
            "503 Slow Down",
            "SlowDown",
            |e| {
                matches!(
                    e,
                    Error::Server {
                        status: Some(503),
                        ..
                    }
                )
            },
            "try again later",
        ),
    ];
    for (status, code, is_expected, word) in cases {
        let proxy = Proxy::answering(move |_| s3_error(status, code));
        let mut options = proxied(&proxy);
        options.limits.retries = 0;
        let error = Object::open_with_head(&address(), 4, &options).unwrap_err();
        let sentence = error.to_string();
        assert!(is_expected(&error), "{status} {code}: {error:?}");
        assert!(sentence.starts_with("s3://bucket/object"), "{sentence}");
        assert!(sentence.contains(word), "{sentence}");
        for secret in ["the-secret-key", "Signature", "<"] {
            assert!(!sentence.contains(secret), "{sentence}");
        }
        let requests = proxy.requests();
        assert_eq!(requests.len(), 1, "{status}");
    }
}

#[test]
fn a_store_without_conditions_gets_an_object_once_and_the_error_says_what_helps() {
    for status in ["501 Not Implemented", "405 Method Not Allowed"] {
        let proxy = Proxy::answering(move |request| match request.header("if-none-match") {
            Some(_) => s3_error(status, "NotImplemented"),
            None if request.method == "PUT" => answer("200 OK", &["ETag: \"a\""], b""),
            None => s3_error("404 Not Found", "NoSuchKey"),
        });
        let mut settings = UploadOptions::default();
        settings.store = proxied(&proxy);
        let upload = |settings: &UploadOptions| {
            let mut upload = Upload::begin(&address(), settings)?;
            upload.write(BODY)?;
            upload.finish()
        };
        let error = upload(&settings).unwrap_err().to_string();
        assert!(error.contains("AWS_CONDITIONAL_PUT=disabled"), "{error}");
        let puts = |proxy: &Proxy| {
            let requests = proxy.requests().into_iter();
            requests.filter(|request| request.method == "PUT").count()
        };
        assert_eq!(puts(&proxy), 1, "{status}");
        settings.replace = true;
        upload(&settings).unwrap();
        assert_eq!(puts(&proxy), 2, "{status}");
    }
}

#[test]
fn failures_that_pass_are_overcome() {
    type Fault = fn(&Request) -> Vec<u8>;
    let faults: [Fault; 4] = [
        |_| s3_error("503 Slow Down", "SlowDown"),
        |_| s3_error("429 Too Many Requests", "SlowDown"),
        // An empty answer.
        |_| Vec::new(),
        // The body ends early.
        |request| {
            let mut whole = content(request);
            whole.truncate(whole.len() - 2);
            whole
        },
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let count = AtomicUsize::new(0);
        let proxy = Proxy::start("", move |request| {
            let is_faulty = count.fetch_add(1, Relaxed).is_multiple_of(2);
            let bytes = if is_faulty {
                fault(request)
            } else {
                content(request)
            };
            match bytes.is_empty() {
                true => Action::Cut,
                false => Action::Answer(bytes),
            }
        });
        let object = open(&proxy).unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!((object.len_bytes(), object.head()), (10, &BODY[..4]));
        assert_eq!(object.read(3..9).unwrap(), &BODY[3..9]);
    }
}

#[test]
fn stalls_end() {
    let proxy = Proxy::start("", |_| {
        loop {
            std::thread::park();
        }
    });
    let mut options = proxied(&proxy);
    options.limits.retries = 1;
    options.limits.idle_timeout = Duration::from_millis(300);
    let error = Object::open(&address(), &options).unwrap_err();
    assert!(matches!(error, Error::Network { .. }), "{error}");
    assert!(error.to_string().contains("nothing came"), "{error}");
}

#[test]
fn other_answers_than_asked_for_are_refused() {
    type Change = fn(&Request) -> Vec<u8>;
    type Check = fn(&Error) -> bool;
    let changed: Check = |error| matches!(error, Error::Changed { .. });
    let server: Check = |error| matches!(error, Error::Server { .. });
    let cases: [(&str, Change, Check); 7] = [
        // A server that does not support the condition.
        (
            "another ETag",
            |request| replace(content(request), "ETag: \"a\"", "ETag: \"b\""),
            changed,
        ),
        // Without an ETag, the modification time is compared.
        (
            "another time",
            |request| {
                let untagged = replace(content(request), "ETag: \"a\"\r\n", "");
                replace(untagged, "12:00:00", "12:00:01")
            },
            changed,
        ),
        (
            "another length",
            |request| replace(content(request), "/10\r", "/11\r"),
            changed,
        ),
        (
            "416",
            |_| s3_error("416 Range Not Satisfiable", "InvalidRange"),
            changed,
        ),
        // A server that does not support ranges.
        (
            "the whole object",
            |_| answer("200 OK", &["ETag: \"a\"", MODIFIED], BODY),
            server,
        ),
        (
            "another range",
            |request| replace(content(request), "bytes 2-", "bytes 1-"),
            server,
        ),
        (
            "the whole with Content-Range",
            |_| {
                let range = "Content-Range: bytes 0-9/10";
                answer("200 OK", &["ETag: \"a\"", MODIFIED, range], BODY)
            },
            server,
        ),
    ];
    for (name, change, is_expected) in cases {
        let is_first = AtomicUsize::new(0);
        let proxy = Proxy::answering(move |request| {
            assert!(request.header("range").is_some());
            match is_first.fetch_add(1, Relaxed) {
                0 => content(request),
                _ => {
                    assert_eq!(request.header("if-match"), Some("\"a\""));
                    change(request)
                }
            }
        });
        let object = open(&proxy).unwrap();
        let error = object.read(2..6).unwrap_err();
        assert!(is_expected(&error), "{name}: {error:?}");
    }
}

#[test]
fn without_an_etag_the_time_is_the_version() {
    let proxy = Proxy::answering(|request| {
        assert_eq!(request.header("if-match"), None);
        replace(content(request), "ETag: \"a\"\r\n", "")
    });
    let object = open(&proxy).unwrap();
    assert_eq!(object.e_tag(), None);
    assert_eq!(object.read(2..6).unwrap(), &BODY[2..6]);
}

fn replace(answer: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(answer).unwrap();
    assert!(text.contains(from), "{text}");
    text.replace(from, to).into_bytes()
}

/// The error for an unreachable server is one sentence, after a few attempts.
#[test]
fn an_unreachable_store_is_one_sentence() {
    let proxy = Proxy::start("", |_| Action::Cut);
    let mut options = proxied(&proxy);
    options.limits.retries = 1;
    let error = Object::open(&address(), &options).unwrap_err();
    assert!(matches!(error, Error::Network { .. }), "{error}");
    assert!(proxy.requests().len() >= 2);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap().to_string();
    drop(listener);
    let environment = Environment::from_pairs(s3_environment(&closed));
    options.environment = environment;
    let error = Object::open(&address(), &options).unwrap_err();
    assert!(matches!(error, Error::Network { .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

/// A failed part fails the upload, and the upload is not completed.
#[test]
fn a_part_that_is_refused_fails_the_upload() {
    let proxy = Proxy::answering(|request| {
        if request.method == "HEAD" {
            return answer("404 Not Found", &[], b"");
        }
        if request.target.contains("?uploads") {
            let body = "<InitiateMultipartUploadResult><UploadId>u</UploadId>\
                        </InitiateMultipartUploadResult>";
            return answer("200 OK", &[], body.as_bytes());
        }
        match request.sends_part() {
            true => s3_error("403 Forbidden", "AccessDenied"),
            false => answer("204 No Content", &[], b""),
        }
    });
    let mut upload_options = UploadOptions::default();
    upload_options.store = proxied(&proxy);
    upload_options.part_bytes = PART_BYTES as u64;
    let mut upload = Upload::begin(&address(), &upload_options).unwrap();
    let mut result = Ok(());
    for _ in 0..20 {
        if result.is_ok() {
            result = upload.write(&vec![1; PART_BYTES]);
        }
    }
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    let error = upload.write(b"more").unwrap_err();
    assert!(matches!(error, Error::Failed { .. }), "{error}");
    let error = upload.finish().unwrap_err();
    assert!(matches!(error, Error::Failed { .. }), "{error}");
    assert_eq!(
        proxy.count(|request| request.completes() && request.method == "POST"),
        0
    );
    // Without a journal, the parts already sent are discarded.
    assert_eq!(proxy.count(|request| request.method == "DELETE"), 1);
}

#[test]
fn an_observer_is_told_of_every_request() {
    use std::sync::{Arc, Mutex};

    let failures = AtomicUsize::new(0);
    let proxy = Proxy::answering(move |request| match failures.fetch_add(1, Relaxed) {
        0 => answer("503 Service Unavailable", &[], b""),
        _ => content(request),
    });
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut options = proxied(&proxy);
    options.observer = Some(zstn_store::Observer::new({
        let told = Arc::clone(&told);
        move |request| told.lock().unwrap().push(request.clone())
    }));
    let object = Object::open_with_head(&address(), 4, &options).unwrap();
    assert_eq!(object.read(4..9).unwrap(), &BODY[4..9]);
    let told = told.lock().unwrap();
    let seen: Vec<_> = told
        .iter()
        .map(|request| {
            (
                request.status,
                request.range.as_deref(),
                request.received_bytes,
            )
        })
        .collect();
    let expected = [
        (Some(503), Some("bytes=0-3"), 0),
        (Some(206), Some("bytes=0-3"), 4),
        (Some(206), Some("bytes=4-8"), 5),
    ];
    assert_eq!(seen, expected);
    for request in told.iter() {
        assert_eq!(request.method, "GET");
        assert_eq!(request.path, "/bucket/object");
        assert!(proxy.address().ends_with(&request.host), "{request:?}");
    }
}
