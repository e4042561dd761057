//! `zstn gateway` with repositories in an object store.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use crate::bucket::Bucket;
use crate::machine::Machine;

/// Returns the body of the answer to a request.
fn get(address: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    answer.split_off(end + 4)
}

pub fn a_folder_in_a_store_is_a_hub(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    let original = zstn_tests::many_kinds(3 << 20);
    bucket.put("m.safetensors", &original);
    machine.done(&["pack", "at:m.safetensors", "-o", "at:hub/me/model/m.zstn"]);
    bucket.put("hub/me/model/config.json", b"{}");
    let mut gateway = machine
        .command(&["gateway", "--port", "0", "--upstream", "at:hub"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(gateway.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let address = line
        .split("http://")
        .last()
        .unwrap()
        .trim_end()
        .trim_end_matches('/');
    let info = get(address, "/api/models/me/model");
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    let siblings = info["siblings"].as_array().unwrap().iter();
    let names: Vec<_> = siblings
        .map(|sibling| sibling["rfilename"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["config.json", "m.safetensors"]);
    for revision in ["main", info["sha"].as_str().unwrap()] {
        let path = format!("/me/model/resolve/{revision}");
        assert!(get(address, &format!("{path}/m.safetensors")) == original);
        assert_eq!(get(address, &format!("{path}/config.json")), b"{}");
    }
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}
