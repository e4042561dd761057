//! Interrupted uploads are continued from their journals, unless a journal cannot be
//! used.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tempfile::TempDir;
use zstn_store::{Address, Error, FolderClaim, Upload, UploadOptions, UploadReport, read_small};
use zstn_tests::store_proxy::{Action, Proxy, Request, answer};

use crate::answers::s3_error;
use crate::bucket::{Bucket, Kind, PART_BYTES, content, proxied};
use crate::interrupted;

const NAME: &str = "folder/object";

/// A connection to a bucket that can be interrupted, with a folder for journals.
struct Line<'a> {
    direct: &'a Bucket,
    through: Bucket,
    folder: TempDir,
    proxy: Proxy,
    /// Number of parts that the proxy still lets through.
    allowed: Arc<AtomicUsize>,
}

impl<'a> Line<'a> {
    fn new(direct: &'a Bucket) -> Self {
        let allowed = Arc::new(AtomicUsize::new(usize::MAX));
        let left = Arc::clone(&allowed);
        let proxy = Proxy::start(&direct.server, move |request| {
            let take = |left: usize| left.checked_sub(1);
            if request.sends_part() && left.fetch_update(Relaxed, Relaxed, take).is_err() {
                return Action::Answer(s3_error("403 Forbidden", "AccessDenied"));
            }
            // moto answers with status 500 where S3 answers `NoSuchUpload`.
            Action::Change(|answer| match answer.starts_with(b"HTTP/1.1 500") {
                true => s3_error("404 Not Found", "NoSuchUpload"),
                false => answer,
            })
        });
        Self {
            through: direct.through(&proxy),
            direct,
            folder: tempfile::tempdir().unwrap(),
            proxy,
            allowed,
        }
    }

    /// Uploads until `parts` parts are stored; the next part is refused.
    fn interrupted(&self, bytes: &[u8], parts: usize) {
        self.allowed.store(parts, Relaxed);
        let error = self.all(bytes).unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        self.allowed.store(usize::MAX, Relaxed);
        assert_eq!(self.files("journal").len(), 1);
        assert_eq!(self.files("lock").len(), 0);
    }

    fn all(&self, bytes: &[u8]) -> Result<UploadReport, Error> {
        let options = self.through.journal_options(self.folder.path());
        let mut upload = Upload::begin(&self.through.address(NAME), &options)?;
        upload.write(bytes)?;
        upload.finish()
    }

    fn sent_parts(&self) -> usize {
        self.proxy.count(Request::sends_part)
    }

    /// Checks that the object exists with these bytes and that nothing else remains.
    fn check(&self, bytes: &[u8]) {
        let bucket = self.direct;
        let read = read_small(&bucket.address(NAME), 1 << 30, &bucket.options()).unwrap();
        assert!(read.unwrap() == bytes);
        assert_eq!(fs::read_dir(self.folder.path()).unwrap().count(), 0);
        assert_eq!(bucket.unfinished_uploads(), 0);
    }

    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_one = |path: &PathBuf| path.extension().is_some_and(|e| e == extension);
        paths.filter(is_one).collect()
    }
}

pub fn only_missing_parts_are_sent_again(bucket: &Bucket) {
    let line = Line::new(bucket);
    let bytes = content(8 * PART_BYTES - 100);
    line.interrupted(&bytes, 3);
    let sent_before = line.sent_parts();
    // The part length in the journal applies, even if the options have a different one.
    let mut options = line.through.journal_options(line.folder.path());
    options.part_bytes = 16 << 20;
    options.parts_at_once = 3;
    let mut upload = Upload::begin(&bucket.address(NAME), &options).unwrap();
    assert_eq!(upload.unfinished_parts(), 3);
    upload.write(&bytes).unwrap();
    let report = upload.finish().unwrap();
    assert_eq!((report.parts, report.parts_reused), (8, 3));
    assert_eq!(report.sent_bytes, (bytes.len() - 3 * PART_BYTES) as u64);
    assert_eq!(line.sent_parts() - sent_before, 5);
    line.check(&bytes);
}

pub fn other_bytes_are_sent_again(bucket: &Bucket) {
    let line = Line::new(bucket);
    let mut bytes = content(5 * PART_BYTES);
    line.interrupted(&bytes, 3);
    bytes[PART_BYTES + 5] ^= 1;
    assert_eq!(line.all(&bytes).unwrap().parts_reused, 2);
    line.check(&bytes);
}

pub fn a_shorter_object_replaces_a_longer_attempt(bucket: &Bucket) {
    for (len, reused) in [(2 * PART_BYTES, 2), (PART_BYTES / 2, 0)] {
        let line = Line::new(bucket);
        let bytes = content(5 * PART_BYTES);
        line.interrupted(&bytes, 3);
        assert_eq!(line.all(&bytes[..len]).unwrap().parts_reused, reused);
        line.check(&bytes[..len]);
        zstn_store::delete(&bucket.address(NAME), &bucket.options()).unwrap();
    }
}

pub fn parts_that_became_too_short_are_not_reused(bucket: &Bucket) {
    let line = Line::new(bucket);
    let bytes = content(4 * PART_BYTES);
    line.interrupted(&bytes, 2);
    let mut options = line.through.journal_options(line.folder.path());
    // The expected length needs more than 9,000 parts of 5 MiB.
    options.expected_bytes = Some(9_001 * PART_BYTES as u64);
    let mut upload = Upload::begin(&bucket.address(NAME), &options).unwrap();
    upload.write(&bytes).unwrap();
    let report = upload.finish().unwrap();
    assert_eq!((report.parts, report.parts_reused), (4, 0));
    line.check(&bytes);
}

pub fn a_damaged_journal_costs_no_bytes(bucket: &Bucket) {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(Damage, u64); 6] = [
        // Damage in the line that names the upload.
        (|text| text[100] ^= 1, 0),
        // Damage in the line of the first part, and of the second part.
        (|text| damage_line(text, 1), 0),
        (|text| damage_line(text, 2), 1),
        // The last line was only partly written.
        (|text| text.truncate(text.len() - 3), 1),
        (Vec::clear, 0),
        (|text| text.fill(0xff), 0),
    ];
    let bytes = content(4 * PART_BYTES);
    for (damage, reused) in damages {
        let line = Line::new(bucket);
        line.interrupted(&bytes, 2);
        let [path] = &line.files("journal")[..] else {
            panic!("one journal");
        };
        let mut text = fs::read(path).unwrap();
        damage(&mut text);
        fs::write(path, text).unwrap();
        assert_eq!(line.all(&bytes).unwrap().parts_reused, reused);
        let read = read_small(&bucket.address(NAME), 1 << 30, &bucket.options()).unwrap();
        assert!(read.unwrap() == bytes);
        zstn_store::delete(&bucket.address(NAME), &bucket.options()).unwrap();
    }
}

fn damage_line(text: &mut [u8], number: usize) {
    let places = text.iter().enumerate();
    let mut ends = places
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(place, _)| place);
    let end = ends.nth(number - 1).unwrap();
    text[end + 90] ^= 1;
}

pub fn parts_that_are_gone_are_sent_again(bucket: &Bucket) {
    let line = Line::new(bucket);
    let bytes = content(4 * PART_BYTES);
    line.interrupted(&bytes, 2);
    bucket.remove_unfinished_uploads(NAME);
    let mut report = line.all(&bytes);
    if bucket.kind == Kind::Azure {
        // Missing blocks are only noticed when the upload is completed.
        let error = report.unwrap_err();
        assert!(matches!(error, Error::PartsLost { .. }), "{error}");
        report = line.all(&bytes);
    }
    assert_eq!(report.unwrap().parts_reused, 0);
    line.check(&bytes);
}

pub fn one_process_at_a_time(bucket: &Bucket) {
    let line = Line::new(bucket);
    let options = line.through.journal_options(line.folder.path());
    let first = Upload::begin(&bucket.address(NAME), &options).unwrap();
    let error = Upload::begin(&bucket.address(NAME), &options).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    // Another object has a separate journal.
    drop(Upload::begin(&bucket.address("other"), &options).unwrap());
    drop(first);
    line.all(b"bytes").unwrap();
    line.check(b"bytes");
}

/// A process is killed while it sends the fourth of eight parts.
pub fn a_killed_process_is_continued(bucket: &Bucket) {
    let folder = tempfile::tempdir().unwrap();
    let (reached, fourth) = mpsc::channel();
    let count = AtomicUsize::new(0);
    let proxy = Proxy::start(&bucket.server, move |request| {
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
    let mut child = interrupted::upload(&through, NAME, folder.path(), len);
    fourth
        .recv_timeout(Duration::from_secs(120))
        .expect("the fourth part");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!zstn_store::exists(&bucket.address(NAME), &bucket.options()).unwrap());

    assert_eq!(proxy.count(Request::sends_part), 4);
    let line = Line {
        direct: bucket,
        through,
        folder,
        proxy,
        allowed: Arc::default(),
    };
    let bytes = content(len);
    let report = line.all(&bytes).unwrap();
    assert_eq!((report.parts, report.parts_reused), (8, 3));
    assert_eq!(line.sent_parts(), 4 + 5);
    line.check(&bytes);
}

/// Starts a server that accepts every part except those in `refused`, numbered in order
/// of arrival.
fn server(refused: std::ops::Range<usize>) -> Proxy {
    let parts = AtomicUsize::new(0);
    Proxy::answering(move |request| {
        if request.method == "HEAD" || request.method == "GET" {
            return answer("404 Not Found", &[], b"");
        }
        let is_refused = || refused.contains(&parts.fetch_add(1, Relaxed));
        if request.sends_part() && is_refused() {
            return s3_error("403 Forbidden", "AccessDenied");
        }
        let body = match (request.target.contains("?uploads"), request.completes()) {
            (true, _) => {
                "<InitiateMultipartUploadResult><UploadId>u</UploadId>\
                 </InitiateMultipartUploadResult>"
            }
            (_, true) if request.method == "POST" => {
                "<CompleteMultipartUploadResult><ETag>\"e\"</ETag>\
                 </CompleteMultipartUploadResult>"
            }
            _ => "",
        };
        answer("200 OK", &["ETag: \"e\""], body.as_bytes())
    })
}

fn options(proxy: &Proxy, folder: &Path) -> UploadOptions {
    let mut options = UploadOptions::default();
    options.store = proxied(proxy);
    options.part_bytes = PART_BYTES as u64;
    options.parts_at_once = 1;
    options.journal_folder = Some(folder.into());
    options
}

fn address() -> Address {
    Address::parse("s3://bucket/object").unwrap()
}

fn upload(options: &UploadOptions) -> Result<UploadReport, Error> {
    let mut upload = Upload::begin(&address(), options)?;
    upload.write(&vec![1; 3 * PART_BYTES])?;
    upload.finish()
}

/// With the part length of the existing parts, an object of the announced length would
/// need too many parts.
#[test]
fn parts_that_an_announced_length_makes_too_short_are_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = server(1..2);
    let options = options(&proxy, folder.path());
    upload(&options).unwrap_err();

    let mut upload = Upload::begin(&address(), &options).unwrap();
    assert_eq!(upload.unfinished_parts(), 1);
    // Up to 9,000 parts of 5 MiB are planned.
    upload.expect(9_000 * PART_BYTES as u64);
    assert_eq!(upload.unfinished_parts(), 1);
    upload.expect(9_001 * PART_BYTES as u64);
    assert_eq!(upload.unfinished_parts(), 0);
    assert_eq!(proxy.count(|request| request.method == "DELETE"), 1);
    upload.write(&vec![1; 3 * PART_BYTES]).unwrap();
    let report = upload.finish().unwrap();
    assert_eq!((report.parts, report.parts_reused), (3, 0));
    let requests = proxy.requests();
    let parts = requests.iter().filter(|request| request.sends_part());
    let lens: Vec<_> = parts.map(|part| part.body_len).skip(2).collect();
    assert_eq!(lens, [6 << 20, 6 << 20, 3 << 20]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Returns paths of folders that no user can create, not even the superuser.
fn unusable_folders(file: &Path) -> Vec<PathBuf> {
    fs::write(file, b"no folder").unwrap();
    let mut folders = vec![file.join("uploads")];
    if cfg!(target_os = "linux") {
        folders.push("/sys/uploads".into());
    }
    folders
}

#[test]
fn a_journal_that_cannot_be_kept_is_an_error_unless_it_is_optional() {
    let temporary = tempfile::tempdir().unwrap();
    for folder in unusable_folders(&temporary.path().join("file")) {
        let proxy = server(0..0);
        let mut options = options(&proxy, &folder);
        let error = upload(&options).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(proxy.count(Request::sends_part), 0);

        options.journal_is_optional = true;
        let report = upload(&options).unwrap();
        assert!(report.is_without_journal);
        assert_eq!(report.parts, 3);
        let mut short = Upload::begin(&address(), &options).unwrap();
        short.write(b"short").unwrap();
        assert!(short.finish().unwrap().is_without_journal);
    }
    let proxy = server(0..0);
    let mut options = options(&proxy, temporary.path());
    options.journal_is_optional = true;
    assert!(!upload(&options).unwrap().is_without_journal);
    options.journal_folder = None;
    assert!(!upload(&options).unwrap().is_without_journal);
}

/// The upload could not be continued, so the parts already sent are discarded.
#[test]
fn an_upload_whose_journal_cannot_be_kept_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    for folder in unusable_folders(&temporary.path().join("file")) {
        let proxy = server(1..2);
        let mut options = options(&proxy, &folder);
        options.journal_is_optional = true;
        upload(&options).unwrap_err();
        assert_eq!(proxy.count(|request| request.method == "DELETE"), 1);
    }
}

/// The marker excludes other attempts even without a local file.
#[test]
fn a_claim_without_a_local_file_cannot_be_continued() {
    let temporary = tempfile::tempdir().unwrap();
    let usable = temporary.path().join("claims");
    let unusable = unusable_folders(&temporary.path().join("file"));
    for (folder, is_continuable) in unusable
        .iter()
        .map(|folder| (Some(&**folder), false))
        .chain([(None, false), (Some(&*usable), true)])
    {
        let proxy = Proxy::answering(|request| match &*request.method {
            "GET" if request.target.contains("list-type=2") => {
                let body = "<ListBucketResult></ListBucketResult>";
                answer("200 OK", &[], body.as_bytes())
            }
            "GET" | "HEAD" => answer("404 Not Found", &[], b""),
            _ => answer("200 OK", &["ETag: \"e\""], b""),
        });
        let address = Address::parse("s3://bucket/folder").unwrap();
        let claim = FolderClaim::take(&address, folder, &proxied(&proxy)).unwrap();
        assert_eq!(claim.is_continuable(), is_continuable, "{folder:?}");
        let is_marker = |request: &Request| request.method == "PUT";
        assert_eq!(proxy.count(is_marker), 1);
    }
}
