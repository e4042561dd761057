//! The requests sent to Google Cloud Storage, as far as they can be tested without it.

use zstn_store::{Address, Environment, Error, StoreOptions, Upload, UploadOptions};
use zstn_tests::store_proxy::{Proxy, Request, answer};

use crate::answers::s3_error;
use crate::bucket::PART_BYTES;

const GENERATION: &str = "x-goog-generation: 1";

fn options(proxy: &Proxy) -> UploadOptions {
    let environment = Environment::from_pairs([
        ("GOOGLE_BASE_URL", format!("http://{}", proxy.address())),
        ("GOOGLE_ALLOW_HTTP", "true".into()),
        // Without a token, the library would request one from the machine's metadata
        // service.
        ("GOOGLE_BEARER_TOKEN", "token".into()),
    ]);
    let mut options = UploadOptions::default();
    options.store = StoreOptions::with_environment(environment);
    options.part_bytes = PART_BYTES as u64;
    options
}

fn address() -> Address {
    Address::parse("gs://bucket/folder/object").unwrap()
}

fn accept(request: &Request) -> Vec<u8> {
    let body = match (request.target.contains("?uploads"), request.completes()) {
        _ if request.method == "HEAD" => return answer("404 Not Found", &[], b""),
        (true, _) => {
            "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
        }
        (_, true) => {
            "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>"
        }
        _ => "",
    };
    answer("200 OK", &["ETag: \"e\"", GENERATION], body.as_bytes())
}

#[test]
fn long_objects_are_sent_in_parts() {
    let proxy = Proxy::answering(accept);
    let mut upload = Upload::begin(&address(), &options(&proxy)).unwrap();
    upload.write(&vec![1; 2 * PART_BYTES + 1]).unwrap();
    assert_eq!(upload.finish().unwrap().parts, 3);
    let mut parts: Vec<_> = proxy
        .requests()
        .into_iter()
        .filter(Request::sends_part)
        .collect();
    parts.sort_by(|a, b| a.target.cmp(&b.target));
    for (number, (part, len)) in parts.iter().zip([PART_BYTES, PART_BYTES, 1]).enumerate() {
        let query = format!("?partNumber={}&uploadId=u", number + 1);
        assert!(part.target.ends_with(&query), "{}", part.target);
        assert_eq!(part.body_len, len);
    }
    assert_eq!(parts.len(), 3);
    assert_eq!(proxy.count(Request::completes), 1);
}

#[test]
fn short_objects_are_created_on_condition() {
    let proxy = Proxy::answering(|request| match request.method == "PUT" {
        true => s3_error("412 Precondition Failed", "PreconditionFailed"),
        false => accept(request),
    });
    let mut upload = Upload::begin(&address(), &options(&proxy)).unwrap();
    upload.write(b"bytes").unwrap();
    let error = upload.finish().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Exists {
                lost_race: true,
                ..
            }
        ),
        "{error}"
    );
    let requests = proxy.requests();
    let put = requests
        .iter()
        .find(|request| request.method == "PUT")
        .unwrap();
    assert_eq!(put.header("x-goog-if-generation-match"), Some("0"));
    assert_eq!(put.body_len, 5);
}
