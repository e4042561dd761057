//! Servers that only send whole files, such as Python's `http.server`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use zstn::source::HttpOptions;
use zstn::{Engine, Location, Reader};
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoint;
use zstn_tests::command::zstn;
use zstn_tests::rng::Rng;

/// A `python3 -m http.server` process for a folder with `m.safetensors` and `m.zstn`.
struct PythonServer {
    child: Child,
    url: String,
    weights: Vec<u8>,
    packed_len: usize,
    folder: tempfile::TempDir,
}

impl PythonServer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let weights = Rng(4).bf16_weights(256 * 1000);
        let file = checkpoint(&[("w", "BF16", &weights)]);
        let packed = pack(&Engine::new(1).unwrap(), &file, Effort::Fast).unwrap();
        std::fs::write(folder.path().join("m.safetensors"), file).unwrap();
        std::fs::write(folder.path().join("m.zstn"), &packed).unwrap();
        let mut child = Command::new("python3")
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Python");
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let port = line
            .split(" port ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        Self {
            url: format!("http://127.0.0.1:{}", port.expect("a port")),
            child,
            weights,
            packed_len: packed.len(),
            folder,
        }
    }
}

impl Drop for PythonServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[cfg_attr(windows, ignore = "wine has no Python")]
fn a_short_file_is_read_whole() {
    let server = PythonServer::start();
    for name in ["m.safetensors", "m.zstn"] {
        let url = format!("{}/{name}", server.url);
        let reader = Reader::open(Location::url(&url)).unwrap();
        assert!(reader.read("w").unwrap().bytes == server.weights, "{name}");
        let listed = zstn(server.folder.path(), &["ls", &url]);
        assert!(listed.status.success(), "{listed:?}");
    }
    let page = Reader::open(Location::url(format!("{}/", server.url)));
    let page = page.err().expect("a folder is no model");
    assert!(page.to_string().contains("web page"), "{page}");
}

#[test]
#[cfg_attr(windows, ignore = "wine has no Python")]
fn a_longer_one_is_refused() {
    let server = PythonServer::start();
    let location = Location::url(format!("{}/m.zstn", server.url));
    for most in [0, server.packed_len as u64 - 1, server.packed_len as u64] {
        let mut http = HttpOptions::default();
        http.max_full_download_bytes = most;
        match Reader::options().http(http).open(location.clone()) {
            Ok(reader) => {
                assert_eq!(most, server.packed_len as u64);
                assert!(reader.read("w").unwrap().bytes == server.weights);
            }
            Err(error) => {
                assert!(most < server.packed_len as u64, "{error}");
                assert!(
                    error.to_string().contains("ignores range requests"),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn the_command_line_sets_the_longest() {
    let server = PythonServer::start();
    let url = format!("{}/m.zstn", server.url);
    let longer = (server.packed_len + 1).to_string();
    for verb in [
        &["ls"][..],
        &["info"],
        &["get", "w", "--summary"],
        &["verify"],
    ] {
        let (name, more) = verb.split_first().unwrap();
        for (most, status) in [("0", 3), ("1k", 3), (&longer, 0), ("1G", 0)] {
            let option = ["--max-full-download", most];
            let arguments = [&[*name, &url], more, &option].concat();
            let out = zstn(server.folder.path(), &arguments);
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(status), "{name} {most}: {said}");
            assert_eq!(
                said.contains("ignores range requests"),
                status == 3,
                "{said}"
            );
        }
    }
    let out = zstn(server.folder.path(), &["ls", &url, "-v"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        said.contains("m.zstn: its server ignores ranges, so all "),
        "{said}"
    );
    let out = zstn(
        server.folder.path(),
        &["ls", &url, "--max-full-download", "many"],
    );
    assert_eq!(out.status.code(), Some(2));
}
