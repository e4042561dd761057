//! A separate process that uploads and can be killed.

use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use zstn_store::{Upload, read_small};

use crate::bucket::{Bucket, Kind, content};

const VARIABLE: &str = "ZSTN_TEST_UPLOAD";

/// Starts a process that uploads `content(len)`, one part at a time.
pub fn upload(bucket: &Bucket, name: &str, folder: &Path, len: usize) -> Child {
    let mut child = Command::new(env::current_exe().expect("this program"));
    child
        .args(["--exact", "process::an_upload_in_a_process_of_its_own"])
        .env(
            VARIABLE,
            format!("{:?} {} {name} {len}", bucket.kind, bucket.name),
        )
        .env(format!("{VARIABLE}_SERVER"), &bucket.server)
        .env(format!("{VARIABLE}_JOURNAL"), folder)
        .stdout(Stdio::null());
    child.spawn().expect("a process")
}

/// The main function of that process. In a normal test run, it uploads to memory.
#[test]
fn an_upload_in_a_process_of_its_own() {
    let task = env::var(VARIABLE).unwrap_or_else(|_| "Memory own-process name 1000".into());
    let words: Vec<&str> = task.split(' ').collect();
    let [kind, container, name, len] = words[..] else {
        panic!("{task}");
    };
    let kind = match kind {
        "S3" => Kind::S3,
        "Azure" => Kind::Azure,
        _ => Kind::Memory,
    };
    let server = env::var(format!("{VARIABLE}_SERVER")).unwrap_or_default();
    let bucket = Bucket::existing(kind, container, &server);
    let mut options = bucket.upload_options();
    options.journal_folder = env::var_os(format!("{VARIABLE}_JOURNAL")).map(Into::into);
    options.parts_at_once = 1;
    let bytes = content(len.parse().unwrap());
    let address = bucket.address(name);
    let mut upload = Upload::begin(&address, &options).unwrap();
    upload.write(&bytes).unwrap();
    upload.finish().unwrap();
    let read = read_small(&address, 1 << 30, &bucket.options()).unwrap();
    assert!(read.unwrap() == bytes);
}
