//! The gateway's answers when its upstream is down, slow, broken or changed.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Instant;

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

/// Many more tensors are being fetched from a slow upstream than there are threads. Other
/// files are answered, and the requests to the upstream end when their clients leave.
#[test]
fn slow_tensors_keep_nobody_from_other_files() {
    const TENSOR_BYTES: usize = 8000;
    let mut rng = Rng(3);
    let tensors: Vec<_> = (100..400)
        .map(|number| (number.to_string(), rng.bf16_weights(TENSOR_BYTES / 2)))
        .collect();
    // A short file would be hashed when it is opened.
    let zeros = vec![0; 9 << 20];
    let mut all = vec![("0", "BF16", &*zeros)];
    all.extend(
        tensors
            .iter()
            .map(|(name, bytes)| (&**name, "BF16", &**bytes)),
    );
    let original = checkpoint(&all);
    let slow = packed(&original);
    let site = site_with(Options::default(), &[("slow.zstn", &slow)]);
    let gateway = Gateway::bind(
        &Location::url(site.hub.url()),
        SocketAddr::from(([127, 0, 0, 1], 0)),
        &HttpOptions::default(),
    );
    let gateway = run(gateway.unwrap().with_trust(Duration::from_secs(3600)));
    let path = "/me/model/resolve/main/slow.safetensors";
    assert_eq!(get(gateway, path, &["Range: bytes=0-0"]).status, 206);
    site.hub.inject(Fault {
        path: sha256(&slow),
        wait_ms: 600_000,
        ..Fault::default()
    });
    // Opening the file has fetched its first and its last tensors.
    let starts = (60..240).map(|number| original.len() - (300 - number) * TENSOR_BYTES);
    let halted: Vec<TcpStream> = starts
        .map(|start| {
            let mut stream = TcpStream::connect(gateway).unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n");
            let request = format!("{head}Range: bytes={start}-{start}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let all_halted = || {
        let figures = get(gateway, "/metrics", &[]).text();
        let mut lines = figures.lines();
        let open = lines.find_map(|line| line.strip_prefix("zstn_gateway_connections "));
        open.is_some_and(|open| open.parse().is_ok_and(|open: usize| open > halted.len()))
    };
    wait_until(|| all_halted() && site.hub.waiting() > 0);
    let quick = get(gateway, &format!("/me/model/resolve/main/{FIRST}"), &[]);
    assert!(quick.status == 200 && quick.body == site.originals[0].1);
    for stream in &halted {
        stream.set_nonblocking(true).unwrap();
        let read = stream.peek(&mut [0]).map_err(|error| error.kind());
        assert_eq!(
            read,
            Err(ErrorKind::WouldBlock),
            "the tensor has been fetched"
        );
    }
    drop(halted);
    wait_until(|| site.hub.waiting() == 0);
    site.hub.heal();
    let start = original.len() - 150 * TENSOR_BYTES;
    let answer = get(gateway, path, &[&format!("Range: bytes={start}-")]);
    assert!(answer.status == 206 && answer.body == original[start..]);
}

fn wait_until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long");
        std::thread::sleep(Duration::from_millis(5));
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
