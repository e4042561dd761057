//! A server that violates the protocol causes a clear error.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use zstn::{Location, Reader};

use super::reading::model;

/// Starts a server that answers every request with these bytes and closes the
/// connection.
fn answering(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/m.zstn", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten().take(8) {
            let mut lines = BufReader::new(&stream).lines();
            while lines.next().is_some_and(|l| l.is_ok_and(|l| !l.is_empty())) {}
            let _ = (&stream).write_all(&answer);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = (&stream).read_to_end(&mut Vec::new());
        }
    });
    url
}

fn http(head: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").into_bytes();
    answer.extend_from_slice(body);
    answer
}

#[test]
fn servers_that_do_not_behave_get_a_sentence() {
    let (_, packed) = model();
    let len = packed.len();
    let html = b"<!doctype html><html><body>Sign in</body></html>";
    for (answer, sentence) in [
        (
            http("404 Not Found\r\nContent-Length: 0", b""),
            "no such file",
        ),
        (http("403 Forbidden\r\nContent-Length: 0", b""), "login"),
        (
            http("500 Oops\r\nContent-Length: 0", b""),
            "try again later",
        ),
        (
            http(
                &format!("200 OK\r\nContent-Length: {len}"),
                &packed[..60_000],
            ),
            &format!("ended after 60000 of {len} bytes"),
        ),
        (
            http(
                &format!("200 OK\r\nContent-Length: {}", 65 << 20),
                &packed[..60_000],
            ),
            "ignores range requests, and files of more than 67108864 bytes",
        ),
        (
            http(&format!("200 OK\r\nContent-Length: {}", html.len()), html),
            "web page",
        ),
        (
            http(
                &format!(
                    "206 Partial Content\r\nContent-Range: bytes 0-32767/{len}\r\nContent-Length: 32768"
                ),
                &packed[..9000],
            ),
            "ended after 9000 of 32768 bytes",
        ),
        (
            http(
                &format!(
                    "206 Partial Content\r\nContent-Range: bytes 0-{}/{}\r\nContent-Length: {}",
                    html.len() - 1,
                    html.len(),
                    html.len()
                ),
                html,
            ),
            "web page",
        ),
        (
            http(
                "206 Partial Content\r\nContent-Length: 32768",
                &packed[..32768],
            ),
            "nor the length of the file",
        ),
        (
            http(
                "416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\nContent-Length: 0",
                b"",
            ),
            "the file is empty",
        ),
        (
            http("416 Range Not Satisfiable\r\nContent-Length: 0", b""),
            "does not say that it is empty",
        ),
        (b"this is not HTTP\r\n\r\n".to_vec(), "not valid HTTP"),
    ] {
        let url = answering(answer);
        let error = Reader::open(Location::url(&url))
            .err()
            .expect(sentence)
            .to_string();
        assert!(
            error.contains(sentence),
            "expected \"{sentence}\" in: {error}"
        );
        assert!(error.contains(&url), "{error}");
    }
}
