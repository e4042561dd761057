//! The gateway's answers when its upstream is down, slow, broken or changed.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use zstn_tests::stub_hub::Fault;

use super::*;

/// Restricts a fault to the server of large files.
fn storage(fault: Fault) -> Fault {
    Fault {
        path: "/cdn/".into(),
        ..fault
    }
}

fn sentence(answer: &Answer) -> String {
    let value: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert!(answer.header("x-error-message").is_some());
    value["error"].as_str().unwrap().to_owned()
}

#[test]
fn an_upstream_that_is_not_there_is_a_bad_gateway() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let gateway = run(gateway(&Location::url(format!("http://{address}"))));
    for path in [
        "/me/model/resolve/main/model.safetensors",
        "/me/model/resolve/main/config.json",
        "/api/models/me/model",
        "/api/models/me/model/tree/main",
        "/api/whoami-v2",
    ] {
        let answer = get(gateway, path, &[]);
        assert_eq!(answer.status, 502, "{path}");
        let sentence = sentence(&answer);
        assert!(sentence.contains("cannot be reached"), "{path}: {sentence}");
    }
}

#[test]
fn an_upstream_that_does_not_answer_is_a_timeout() {
    let site = site();
    site.hub.inject(Fault {
        wait_ms: 60_000,
        ..Fault::default()
    });
    for path in [
        "/me/model/resolve/main/model.safetensors",
        "/api/models/me/model",
    ] {
        let answer = get(site.gateway, path, &[]);
        assert_eq!(answer.status, 504, "{path}: {}", answer.text());
    }
    site.hub.heal();
    assert_eq!(site.file(FIRST, &[]).status, 200);
}

/// More files of an unresponsive upstream are being opened than there are threads for
/// blocking work.
#[test]
fn openings_that_halt_keep_nobody_from_other_files() {
    const OPENINGS: usize = 640;
    let site = site();
    let patient = Gateway::bind(
        &Location::url(site.hub.url()),
        SocketAddr::from(([127, 0, 0, 1], 0)),
        &HttpOptions::default(),
    );
    let gateway = run(patient.unwrap());
    let cached = || get(gateway, &format!("/me/model/resolve/main/{FIRST}"), &[]);
    assert_eq!(cached().status, 200);
    site.hub.inject(Fault {
        path: "/slow/".into(),
        wait_ms: 600_000,
        ..Fault::default()
    });
    let halted: Vec<TcpStream> = (0..OPENINGS)
        .map(|number| {
            let mut stream = TcpStream::connect(gateway).unwrap();
            let path = format!("/slow/model/resolve/main/{number}.safetensors");
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    // All openings have begun by the time the last of these requests is answered.
    for _ in 0..50 {
        let answer = cached();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.body == site.originals[0].1);
        assert_eq!(get(gateway, "/healthz", &[]).status, 200);
    }
    for stream in &halted {
        stream.set_nonblocking(true).unwrap();
        let read = stream.peek(&mut [0]).map_err(|error| error.kind());
        assert_eq!(read, Err(ErrorKind::WouldBlock), "the opening has ended");
    }
}

#[test]
fn statuses_of_the_upstream_are_those_of_the_gateway() {
    let site = site();
    for status in [401, 403, 429, 500, 503] {
        site.hub.inject(Fault {
            status: Some(status),
            ..Fault::default()
        });
        for path in [
            "/me/model/resolve/main/model-00001-of-00002.safetensors",
            "/me/model/resolve/main/config.json",
            "/api/models/me/model",
            "/api/models/me/model/tree/main",
        ] {
            assert_eq!(get(site.gateway, path, &[]).status, status, "{path}");
        }
        site.hub.heal();
    }
}

/// If the bytes of a packed file changed after it was listed, the gateway returns an
/// error and does not cache it.
#[test]
fn changed_bytes_are_not_served_and_not_kept() {
    let site = site();
    site.hub.inject(Fault {
        changed: true,
        ..storage(Fault::default())
    });
    let answer = site.file(FIRST, &[]);
    assert_eq!(answer.status, 502, "{}", answer.text());
    site.hub.heal();
    let answer = site.file(FIRST, &[]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.body == site.originals[0].1);

    // The index has been read already; the bytes after it are damaged.
    site.hub.inject(Fault {
        changed: true,
        ..storage(Fault::default())
    });
    // A list shows the damaged file under its packed name, and the others as the files
    // that they restore.
    let names = files::names(&site.json("/api/models/me/model/tree/main"));
    assert!(
        names.contains(&SECOND.replace(".safetensors", ".zstn")),
        "{names:?}"
    );
    assert!(names.contains(&FIRST.to_owned()), "{names:?}");
    site.hub.heal();
    let names = files::names(&site.json("/api/models/me/model/tree/main"));
    assert!(names.contains(&SECOND.to_owned()), "{names:?}");
    site.hub.inject(Fault {
        changed: true,
        ..storage(Fault::default())
    });
    let answer = site.file(SECOND, &[]);
    let is_right = answer.status == 200 && answer.body == site.originals[1].1;
    assert!(is_right || answer.status == 502 || !answer.is_complete());
    site.hub.heal();
    assert!(site.file(SECOND, &[]).body == site.originals[1].1);
}

#[test]
fn a_transfer_that_breaks_off_is_continued() {
    let site = site();
    site.hub.inject(Fault {
        cut_bytes: Some(100_000),
        times: Some(1),
        ..storage(Fault::default())
    });
    let answer = site.file(FIRST, &[]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.body == site.originals[0].1);
}

#[test]
fn a_damaged_file_is_an_error_and_others_are_not() {
    let mut damaged = packed(&shard("x", 9));
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x40;
    let site = site_with(Options::default(), &[("damaged.zstn", &damaged)]);
    let answer = site.file("damaged.safetensors", &[]);
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert!(sentence(&answer).contains("damaged.zstn"));
    assert_eq!(site.file(FIRST, &[]).status, 200);
}
