//! Downloads of files by name and revision.

use super::Hub;
use super::access::Visitor;
use super::answer::{Answer, Refusal, empty_response, set};
use super::info::find;
use super::repository::{Content, RepoId};
use super::requests::HubRequest;
use super::storage::memory_response;

impl Hub {
    /// Answers with the bytes of a small file, or redirects to a large one.
    pub(super) fn resolve(
        &self,
        request: &HubRequest,
        visitor: Visitor,
        id: &RepoId,
        revision: &str,
        path: &str,
    ) -> Answer {
        let repositories = self.repositories();
        let repository = visitor.may_see(repositories.get(id))?;
        let commit = find(repository, revision)?;
        visitor.may_read(repository)?;
        let commit_id = &commit.info.id;
        let Some(file) = commit.files.get(path) else {
            let mut response = Refusal::entry_not_found().response();
            set(&mut response, "x-repo-commit", commit_id);
            return Ok(response);
        };
        let mut response = match &file.content {
            Content::Regular(bytes) => {
                let mut response = memory_response(request, bytes);
                set(&mut response, "etag", &format!("\"{}\"", file.oid));
                response
            }
            Content::Large(sha256) => {
                let mut response = empty_response(302);
                set(&mut response, "location", &self.storage_address(sha256));
                set(&mut response, "x-linked-etag", &format!("\"{sha256}\""));
                set(&mut response, "x-linked-size", &file.len_bytes.to_string());
                if let Some(xet) = self.xet_file(sha256) {
                    let (url, kind, name) = (&self.url, id.kind.plural(), &id.name);
                    let token = format!("{url}/api/{kind}/{name}/xet-read-token/{commit_id}");
                    set(&mut response, "x-xet-hash", &xet.hash);
                    set(
                        &mut response,
                        "link",
                        &format!("<{token}>; rel=\"xet-auth\""),
                    );
                }
                response
            }
        };
        set(&mut response, "x-repo-commit", commit_id);
        Ok(response)
    }
}
