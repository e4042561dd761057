//! Sharded checkpoints on a server.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};

use zstn::{Location, PackOptions, UnpackOptions, VerifyOptions};
use zstn_serve::{Served, Server};

use super::*;

/// Starts a server for a folder. Returns its URL and its log of requests.
fn serve(folder: &Path) -> (String, Arc<Mutex<Vec<Served>>>) {
    let server = Server::bind(folder, SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let url = server.url();
    let log: Arc<Mutex<Vec<Served>>> = Arc::default();
    let seen = Arc::clone(&log);
    std::thread::spawn(move || server.run(move |served| seen.lock().unwrap().push(served)));
    (url, log)
}

#[test]
fn shards_come_from_a_server() {
    let mut files = model(false);
    let (scratch, folder) = scratch(&files);
    let (url, log) = serve(scratch.path());
    let at = |name: &str| scratch.path().join(name);
    let at_server = |path: &str| Location::url(format!("{url}{path}?download=true"));
    let input = at_server(&format!("model/{INDEX}"));
    let told = Told::default();
    let watched = job().progress(&told);
    let options = PackOptions::default();
    zstn::pack(&watched, &input, at("packed"), &options).unwrap();
    {
        let (begun, done) = &*told.0.lock().unwrap();
        assert_eq!(
            (begun.len(), begun[0]),
            (1, *done),
            "the lengths are known at once"
        );
    }
    let fetched = |name: &str| {
        let log = log.lock().unwrap();
        let whole = log.iter().filter(|served| served.range.is_none());
        whole.filter(|served| served.path.contains(name)).count()
    };
    assert_eq!([FIRST, SECOND, THIRD].map(fetched), [0; 3], "read by range");
    let packed = at_server("packed/model.zstn.index.json");
    zstn::unpack(&job(), &packed, at("back"), &UnpackOptions::default()).unwrap();
    files.remove("tokenizer.model");
    assert!(read(&at("back")) == files);
    let options_of_verify = VerifyOptions::default().original(&input);
    let verified = zstn::verify(&job(), &packed, &options_of_verify).unwrap();
    assert_eq!(verified.indexed_tensors, 4);
    assert_eq!([FIRST, SECOND, THIRD].map(fetched), [1; 3]);

    // A missing file is reported before any other is fetched.
    std::fs::remove_file(folder.join(THIRD)).unwrap();
    let error = zstn::pack(&watched, &input, at("x"), &options).unwrap_err();
    assert!(error.to_string().contains("no such file"), "{error}");
    assert_eq!(fetched(FIRST), 1, "only to verify");
    assert_eq!(names(scratch.path()), ["back", "model", "packed"]);
}

/// Starts a server for these files that ignores ranges and answers 403 to other paths.
fn serve_whole(files: Files) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            for _ in lines.take_while(|line| !line.is_empty()) {}
            let path = request.split(' ').nth(1).unwrap_or_default();
            let (status, body) = match files.get(path.trim_start_matches('/')) {
                Some(body) => ("200 OK", &body[..]),
                None => ("403 Forbidden", &[][..]),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = (&stream).write_all(&[head.as_bytes(), body].concat());
        }
    });
    url
}

#[test]
fn a_server_without_ranges_will_do() {
    let mut files = model(false);
    files.remove("config.json");
    files.remove("tokenizer.model");
    let url = serve_whole(files.clone());
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let input = Location::url(format!("{url}{INDEX}"));
    let told = Told::default();
    let watched = job().progress(&told);
    let report = zstn::pack(&watched, &input, at("packed"), &PackOptions::default()).unwrap();
    assert!(report.folder.as_ref().unwrap().copied.is_empty());
    let (begun, done) = told.0.into_inner().unwrap();
    assert_eq!(
        begun.last(),
        Some(&done),
        "the lengths are known in the end"
    );
    assert_eq!(done, report.original_bytes());
    unpack(&at("packed"), &at("back")).unwrap();
    assert!(read(&at("back")) == files);

    // The index is wrong about the last file, which is reported after the download.
    let index = String::from_utf8(files[INDEX].clone()).unwrap();
    files.insert(
        INDEX.into(),
        index.replace("\"head\"", "\"tail\"").into_bytes(),
    );
    let input = Location::url(format!("{}{INDEX}", serve_whole(files)));
    let report = zstn::pack(&job(), &input, at("x"), &PackOptions::default());
    assert_eq!(rest(report.unwrap()).missing_tensors, ["tail"]);
}
