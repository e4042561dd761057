//! Continuing uploads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use zstn_store::{Error, Upload, UploadReport, read_small};

use crate::answers::s3_error;
use crate::bucket::{Bucket, Kind, PART_BYTES, content};
use crate::process;
use crate::proxy::{Action, Proxy};

const NAME: &str = "folder/object";

/// Sends `parts` parts of the object, and a little more that stays in memory.
fn interrupted(bucket: &Bucket, folder: &Path, bytes: &[u8], parts: usize) {
    let options = bucket.journal_options(folder);
    let mut upload = Upload::begin(&bucket.address(NAME), &options).unwrap();
    upload.write(&bytes[..parts * PART_BYTES]).unwrap();
    // The part is sent when it is known not to be the last; the next one would
    // wait until it has arrived.
    upload
        .write(&bytes[parts * PART_BYTES..(parts + 1) * PART_BYTES + 1])
        .unwrap();
    drop(upload);
    assert_eq!(files(folder, "journal").len(), 1);
    assert_eq!(files(folder, "lock").len(), 0);
}

fn all(bucket: &Bucket, folder: &Path, bytes: &[u8]) -> Result<UploadReport, Error> {
    let options = bucket.journal_options(folder);
    let mut upload = Upload::begin(&bucket.address(NAME), &options)?;
    upload.write(bytes)?;
    upload.finish()
}

fn check(bucket: &Bucket, folder: &Path, bytes: &[u8]) {
    let read = read_small(&bucket.address(NAME), 1 << 30, &bucket.options()).unwrap();
    assert!(read.unwrap() == bytes);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    assert_eq!(bucket.unfinished_uploads(), 0);
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect()
}

pub fn only_missing_parts_are_sent_again(bucket: &Bucket) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(8 * PART_BYTES - 100);
    let proxy = Proxy::start(&bucket.server, |_| Action::Forward);
    let through = bucket.through(&proxy);
    interrupted(&through, folder.path(), &bytes, 3);
    let sent_before = proxy.count(|request| request.sends_part());
    // The journal's parts, even if the usual length is another one by now.
    let mut options = through.journal_options(folder.path());
    options.part_bytes = 16 << 20;
    options.parts_at_once = 3;
    let mut upload = Upload::begin(&bucket.address(NAME), &options).unwrap();
    upload.write(&bytes).unwrap();
    let report = upload.finish().unwrap();
    assert_eq!(report.parts, 8);
    // The fourth may have arrived before the upload was dropped.
    assert!((3..=4).contains(&report.parts_reused), "{report:?}");
    let sent = proxy.count(|request| request.sends_part()) - sent_before;
    assert_eq!(sent as u64, 8 - report.parts_reused);
    check(bucket, folder.path(), &bytes);
}

pub fn other_bytes_are_sent_again(bucket: &Bucket) {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = content(5 * PART_BYTES);
    interrupted(bucket, folder.path(), &bytes, 3);
    bytes[PART_BYTES + 5] ^= 1;
    let report = all(bucket, folder.path(), &bytes).unwrap();
    assert!((2..=3).contains(&report.parts_reused), "{report:?}");
    check(bucket, folder.path(), &bytes);
}

pub fn a_shorter_object_replaces_a_longer_attempt(bucket: &Bucket) {
    for len in [2 * PART_BYTES, PART_BYTES / 2] {
        let folder = tempfile::tempdir().unwrap();
        let bytes = content(5 * PART_BYTES);
        interrupted(bucket, folder.path(), &bytes, 3);
        let report = all(bucket, folder.path(), &bytes[..len]).unwrap();
        assert_eq!(report.parts_reused, (len / PART_BYTES) as u64);
        check(bucket, folder.path(), &bytes[..len]);
        zstn_store::delete(&bucket.address(NAME), &bucket.options()).unwrap();
    }
}

pub fn a_damaged_journal_costs_no_bytes(bucket: &Bucket) {
    let bytes = content(4 * PART_BYTES);
    let mut reused = Vec::new();
    let damages: [fn(Vec<u8>) -> Vec<u8>; 5] = [
        |mut text| {
            // In the line that names the upload.
            text[100] ^= 1;
            text
        },
        |mut text| {
            // In the line of the second part.
            let lines: Vec<usize> = newlines(&text);
            text[lines[1] + 90] ^= 1;
            text
        },
        |mut text| {
            // Torn while the last line was written.
            let lines = newlines(&text);
            text.truncate(lines[lines.len() - 1] - 3);
            text
        },
        |_| Vec::new(),
        |_| vec![0xff; 5000],
    ];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        interrupted(bucket, folder.path(), &bytes, 2);
        let [path] = &files(folder.path(), "journal")[..] else {
            panic!("one journal");
        };
        let text = fs::read(path).unwrap();
        fs::write(path, damage(text)).unwrap();
        let report = all(bucket, folder.path(), &bytes).unwrap();
        reused.push(report.parts_reused);
        let read = read_small(&bucket.address(NAME), 1 << 30, &bucket.options()).unwrap();
        assert!(read.unwrap() == bytes);
        zstn_store::delete(&bucket.address(NAME), &bucket.options()).unwrap();
    }
    assert_eq!(reused[0], 0);
    assert_eq!(reused[1], 1);
    assert!(reused[2] >= 1);
    assert_eq!(reused[3..], [0, 0]);
}

fn newlines(text: &[u8]) -> Vec<usize> {
    let places = text.iter().enumerate();
    places
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(place, _)| place)
        .collect()
}

pub fn parts_that_are_gone_are_sent_again(bucket: &Bucket) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(4 * PART_BYTES);
    // moto answers with status 500 where S3 says what is missing.
    let proxy = Proxy::start(&bucket.server, |request| {
        match request.target.contains("uploadId=") {
            false => Action::Forward,
            true => Action::Change(|answer| match answer.starts_with(b"HTTP/1.1 500") {
                true => s3_error("404 Not Found", "NoSuchUpload"),
                false => answer,
            }),
        }
    });
    let through = bucket.through(&proxy);
    interrupted(&through, folder.path(), &bytes, 2);
    bucket.remove_unfinished_uploads(NAME);
    let mut report = all(&through, folder.path(), &bytes);
    if bucket.kind == Kind::Azure {
        // Only completing shows that blocks are gone.
        let error = report.unwrap_err();
        assert!(matches!(error, Error::PartsLost { .. }), "{error}");
        report = all(&through, folder.path(), &bytes);
    }
    assert_eq!(report.unwrap().parts_reused, 0);
    check(bucket, folder.path(), &bytes);
}

pub fn one_process_at_a_time(bucket: &Bucket) {
    let folder = tempfile::tempdir().unwrap();
    let options = bucket.journal_options(folder.path());
    let first = Upload::begin(&bucket.address(NAME), &options).unwrap();
    let error = Upload::begin(&bucket.address(NAME), &options).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    // Another object has another journal.
    drop(Upload::begin(&bucket.address("other"), &options).unwrap());
    drop(first);
    all(bucket, folder.path(), b"bytes").unwrap();
    check(bucket, folder.path(), b"bytes");
}

/// A process is killed while it sends the fourth of eight parts.
pub fn a_killed_process_is_continued(bucket: &Bucket) {
    let folder = tempfile::tempdir().unwrap();
    let (reached, fourth) = mpsc::channel();
    let count = std::sync::atomic::AtomicUsize::new(0);
    let proxy = Proxy::start(&bucket.server, move |request| {
        use std::sync::atomic::Ordering::Relaxed;
        if request.sends_part() && count.fetch_add(1, Relaxed) == 3 {
            reached.send(()).expect("the test waits");
            loop {
                std::thread::park();
            }
        }
        Action::Forward
    });
    let len = 8 * PART_BYTES - 100;
    let through = bucket.through(&proxy);
    let mut child = process::upload(&through, NAME, folder.path(), len);
    fourth
        .recv_timeout(Duration::from_secs(120))
        .expect("the fourth part");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!zstn_store::exists(&bucket.address(NAME), &bucket.options()).unwrap());

    assert_eq!(proxy.count(|request| request.sends_part()), 4);
    let bytes = content(len);
    let report = all(&through, folder.path(), &bytes).unwrap();
    assert_eq!((report.parts, report.parts_reused), (8, 3));
    assert_eq!(proxy.count(|request| request.sends_part()), 4 + 5);
    check(bucket, folder.path(), &bytes);
}
