//! The LFS API. Its responses contain the addresses for uploads and downloads of
//! objects.

use axum::response::Response;
use hyper::body::Incoming;
use serde_json::{Map, Value, json};

use super::access::Visitor;
use super::answer::{Answer, Refusal, json_response, set};
use super::blobs::is_sha256;
use super::repository::RepoId;
use super::requests::read_json;
use super::{Hub, text};

impl Hub {
    /// Answers where each object is to be uploaded or downloaded.
    pub(super) async fn lfs_batch(&self, visitor: Visitor, id: &RepoId, body: Incoming) -> Answer {
        let body = read_json(body).await?;
        {
            let repositories = self.repositories();
            let repository = visitor.may_see(repositories.get(id))?;
            match text(&body, "operation") {
                "upload" => visitor.may_write()?,
                "download" => visitor.may_read(repository)?,
                other => return Err(Refusal::bad_request(format!("no such operation: {other}"))),
            }
        }
        let transfers = body["transfers"].as_array();
        let knows_parts = transfers.is_some_and(|known| known.iter().any(|t| t == "multipart"));
        let part_bytes = self.options.part_bytes.filter(|_| knows_parts);
        let mut transfer = "basic";
        let objects = body["objects"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|object| {
                let oid = text(object, "oid");
                let len_bytes = object["size"].as_u64().unwrap_or_default();
                let mut answer = json!({ "oid": oid, "size": len_bytes });
                if !is_sha256(oid) {
                    answer["error"] = json!({ "code": 422, "message": "the oid is not a SHA-256" });
                    return answer;
                }
                let known = self.len_of_large(oid);
                match (text(&body, "operation"), known) {
                    ("download", Some(_)) => {
                        let href = self.storage_address(oid);
                        answer["actions"] = json!({ "download": { "href": href } });
                    }
                    ("download", None) => {
                        answer["error"] = json!({ "code": 404, "message": "no such object" });
                    }
                    // An object without actions does not need to be uploaded.
                    (_, Some(known)) if known == len_bytes => {}
                    _ => {
                        let parts = part_bytes.filter(|part_bytes| len_bytes > *part_bytes);
                        let upload = match parts {
                            Some(part_bytes) => {
                                transfer = "multipart";
                                self.parts(oid, len_bytes, part_bytes)
                            }
                            None => json!({ "href": self.storage_address(oid) }),
                        };
                        let verify =
                            format!("{}/{}.git/info/lfs/objects/verify", self.url, id.path());
                        answer["authenticated"] = true.into();
                        answer["actions"] =
                            json!({ "upload": upload, "verify": { "href": verify } });
                    }
                }
                answer
            });
        let objects: Value = objects.collect();
        Ok(lfs_response(&json!({
            "transfer": transfer,
            "objects": objects,
            "hash_algo": "sha256",
        })))
    }

    /// Returns the URLs of all parts and the URL that completes the upload.
    fn parts(&self, oid: &str, len_bytes: u64, part_bytes: u64) -> Value {
        let mut header = Map::new();
        header.insert("chunk_size".into(), part_bytes.to_string().into());
        for number in 1..=len_bytes.div_ceil(part_bytes) {
            let url = format!("{}/cdn/{oid}/{number}?signature=stub", self.storage_url);
            // Clients sort the part numbers as strings, so all have the same number of
            // digits.
            header.insert(format!("{number:05}"), url.into());
        }
        let href = format!("{}/cdn/{oid}/complete?signature=stub", self.storage_url);
        json!({ "href": href, "header": header })
    }

    /// Checks that an uploaded object has arrived.
    pub(super) async fn lfs_verify(&self, visitor: Visitor, body: Incoming) -> Answer {
        let body = read_json(body).await?;
        visitor.may_write()?;
        let oid = text(&body, "oid");
        let known = self.len_of_large(oid);
        if known.is_none() || known != body["size"].as_u64() {
            let message = format!("{oid} has not arrived complete");
            return Err(Refusal::new(404, "", message));
        }
        Ok(lfs_response(&json!({})))
    }

    /// Returns the URL of a large file.
    pub(super) fn storage_address(&self, sha256: &str) -> String {
        format!("{}/cdn/{sha256}?signature=stub", self.storage_url)
    }
}

fn lfs_response(value: &Value) -> Response {
    let mut response = json_response(value);
    set(
        &mut response,
        "content-type",
        "application/vnd.git-lfs+json",
    );
    response
}
