//! Parses the client requests that the gateway has to treat specially.

use axum::http::{Method, Uri};
use percent_encoding::utf8_percent_encode;

use super::path_rules::{check, decoded};
use super::upstream::Refusal;
use crate::hub::{RepoKind, Repository};
use zstn::internals::PLAIN;

/// A repository at a branch, tag or commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Revision {
    pub(super) repository: Repository,
    pub(super) name: String,
}

/// The resource that a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// `GET /healthz`
    Health,
    /// `GET /metrics`
    Metrics,
    /// A description of a repository, with the names of its files.
    Info {
        repository: Repository,
        revision: Option<String>,
    },
    /// A page of the files in a folder.
    Tree { revision: Revision, folder: String },
    /// Information about the files whose names are in the request body.
    PathsInfo(Revision),
    /// A file (GET), or its length and ETag (HEAD).
    File { revision: Revision, path: String },
    /// Anything else, which is passed to the upstream.
    Other,
}

/// Returns the address path of a repository's description, at `revision` if one is given.
pub(super) fn info(repository: &Repository, revision: Option<&str>) -> String {
    match revision {
        Some(name) => format!("{}/revision/{}", api(repository), component(name)),
        None => api(repository),
    }
}

/// Returns the address path of a repository in the API, without a leading slash.
fn api(repository: &Repository) -> String {
    repository.api().trim_start_matches('/').to_owned()
}

impl Revision {
    /// Returns the address path of the API call `verb` for this revision.
    pub(super) fn api(&self, verb: &str) -> String {
        let api = api(&self.repository);
        format!("{api}/{verb}/{}", component(&self.name))
    }

    /// Returns the address path of the file `path`.
    pub(super) fn file(&self, path: &str) -> String {
        let (name, path) = (component(&self.name), components(path));
        format!("{}/resolve/{name}/{path}", self.repository)
    }

    /// Returns the address path of the list of a folder.
    pub(super) fn tree(&self, folder: &str) -> String {
        match folder {
            "" => self.api("tree"),
            folder => format!("{}/{}", self.api("tree"), components(folder)),
        }
    }
}

/// Percent-encodes each component of a path.
fn components(path: &str) -> String {
    let path: Vec<_> = path.split('/').map(component).collect();
    path.join("/")
}

/// Percent-encodes a text as one path component.
pub(super) fn component(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

impl Asked {
    /// Returns the resource that a request is for.
    ///
    /// # Errors
    /// The errors of [`check`]; such a path never reaches the upstream.
    pub(super) fn of(method: &Method, uri: &Uri) -> Result<Self, Refusal> {
        check(uri)?;
        let path = uri.path().trim_start_matches('/');
        let parts: Vec<&str> = path.split('/').collect();
        let reads = [Method::GET, Method::HEAD].contains(method);
        let asked = match &parts[..] {
            ["healthz"] if reads => Some(Self::Health),
            ["metrics"] if reads => Some(Self::Metrics),
            ["api", kind, rest @ ..] => api_call(method, kind, rest),
            [kind, rest @ ..] if reads => match RepoKind::of_plural(kind) {
                // The address of a model does not begin with its type.
                None | Some(RepoKind::Model) => file(RepoKind::Model, &parts),
                Some(kind) => file(kind, rest),
            },
            _ => None,
        };
        Ok(asked.unwrap_or(Self::Other))
    }
}

impl Asked {
    /// Returns the repository if the request is for its branches.
    pub(super) fn refs(method: &Method, uri: &Uri) -> Option<Repository> {
        let path = uri.path().trim_start_matches('/');
        let rest = path.strip_prefix("api/")?.strip_suffix("/refs")?;
        let parts: Vec<&str> = rest.split('/').collect();
        match (method, &parts[..]) {
            (&Method::GET, [kind, names @ ..]) => {
                Repository::of_parts(RepoKind::of_plural(kind)?, names)
            }
            _ => None,
        }
    }
}

fn api_call(method: &Method, kind: &str, rest: &[&str]) -> Option<Asked> {
    let kind = RepoKind::of_plural(kind)?;
    let (repository, rest) = match rest {
        [name, verb @ ("revision" | "tree" | "paths-info"), _, ..] => (
            Repository::of_parts(kind, &[name])?,
            [&[*verb], &rest[2..]].concat(),
        ),
        [name] => (Repository::of_parts(kind, &[name])?, Vec::new()),
        [owner, name, rest @ ..] => (Repository::of_parts(kind, &[owner, name])?, rest.to_vec()),
        [] => return None,
    };
    let revision = |name: &str| {
        Some(Revision {
            repository: repository.clone(),
            name: decoded(name).ok()?,
        })
    };
    match (method, &rest[..]) {
        (&Method::GET, []) => Some(Asked::Info {
            repository,
            revision: None,
        }),
        (&Method::GET, ["revision", name]) => Some(Asked::Info {
            revision: Some(decoded(name).ok()?),
            repository,
        }),
        (&Method::GET, ["tree", name, folder @ ..]) => Some(Asked::Tree {
            revision: revision(name)?,
            folder: match folder.join("/").trim_end_matches('/') {
                "" => String::new(),
                folder => decoded(folder).ok()?,
            },
        }),
        (&Method::POST, ["paths-info", name]) => Some(Asked::PathsInfo(revision(name)?)),
        _ => None,
    }
}

fn file(kind: RepoKind, parts: &[&str]) -> Option<Asked> {
    let (names, revision, path) = match parts {
        [name, "resolve", revision, path @ ..] => (&[*name][..], revision, path),
        [owner, name, "resolve", revision, path @ ..] => (&[*owner, *name][..], revision, path),
        _ => return None,
    };
    let path = decoded(&path.join("/")).ok()?;
    Some(Asked::File {
        revision: Revision {
            repository: Repository::of_parts(kind, names)?,
            name: decoded(revision).ok()?,
        },
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str) -> Asked {
        let asked = Asked::of(&method.parse().unwrap(), &path.parse().unwrap());
        asked.unwrap_or_else(|_| panic!("{path} is refused"))
    }

    fn revision(kind: RepoKind, id: &str, name: &str) -> Revision {
        let parts: Vec<_> = id.split('/').collect();
        Revision {
            repository: Repository::of_parts(kind, &parts).unwrap(),
            name: name.into(),
        }
    }

    #[test]
    fn requests_of_clients_are_recognised() {
        let file = |revision, path: &str| Asked::File {
            revision,
            path: path.into(),
        };
        let info = |repository, revision: Option<&str>| Asked::Info {
            repository,
            revision: revision.map(Into::into),
        };
        let tree = |revision, folder: &str| Asked::Tree {
            revision,
            folder: folder.into(),
        };
        let main = revision(RepoKind::Model, "o/n", "main");
        for (request, expected) in [
            (
                "GET /o/n/resolve/main/a%20b/c.bin?x=1",
                file(main.clone(), "a b/c.bin"),
            ),
            (
                "HEAD /gpt2/resolve/main/f",
                file(revision(RepoKind::Model, "gpt2", "main"), "f"),
            ),
            (
                "GET /datasets/o/n/resolve/refs%2Fpr%2F1/f",
                file(revision(RepoKind::Dataset, "o/n", "refs/pr/1"), "f"),
            ),
            ("GET /api/models/o/n", info(main.repository.clone(), None)),
            (
                "GET /api/models/o/n/revision/v1",
                info(main.repository.clone(), Some("v1")),
            ),
            ("GET /api/models/o/n/tree/main", tree(main.clone(), "")),
            (
                "GET /api/models/o/n/tree/main/a/b?recursive=true",
                tree(main.clone(), "a/b"),
            ),
            (
                "GET /api/models/gpt2/tree/main",
                tree(revision(RepoKind::Model, "gpt2", "main"), ""),
            ),
            (
                "POST /api/models/o/n/paths-info/main",
                Asked::PathsInfo(main),
            ),
            ("GET /metrics", Asked::Metrics),
            ("GET /healthz", Asked::Health),
        ] {
            let (method, path) = request.split_once(' ').unwrap();
            assert_eq!(asked(method, path), expected, "{request}");
        }
    }

    #[test]
    fn others_are_left_to_the_upstream() {
        for request in [
            "PUT /o/n/resolve/main/f",
            "GET /o/n/resolve/main",
            "GET /o/n/raw/main/f",
            "GET /o/.n/resolve/main/f",
            "POST /api/models/o/n/commit/main",
            "GET /api/models/o/n/xet-read-token/main",
            "GET /api/models/o/n/refs",
            "GET /api/whoami-v2",
            "POST /metrics",
            "GET /",
        ] {
            let (method, path) = request.split_once(' ').unwrap();
            assert_eq!(asked(method, path), Asked::Other, "{request}");
        }
    }

    #[test]
    fn paths_that_could_mean_another_place_are_refused() {
        for (path, status) in [
            ("/../n/resolve/main/f", 400),
            ("/o/n/resolve/main/../../x", 400),
            ("/o/n/resolve/main/%2e%2E/x", 400),
            ("/o/n/resolve/main/a%2F..%2Fx", 400),
            ("/o/n/resolve/..%2F..%2Fx/f", 400),
            ("/o/n/resolve/main/./x", 400),
            ("/o/n/resolve/main//x", 400),
            ("//o/n/resolve/main/x", 400),
            ("/o/n/resolve/main/a%5Cb", 400),
            ("/o/n/resolve/main/a%00b", 400),
            ("/o/n/resolve/main/a%0Ab", 400),
            ("/o/n/resolve/main/%ff", 400),
            ("/o/n/resolve/main/%zz", 400),
            ("/o/n/resolve/main/%2", 400),
            ("/api/models/../n/tree/main", 400),
            ("/api/models/o/n/tree/main/a/%2e%2e", 400),
            ("/api/whoami/..", 400),
        ] {
            for method in [Method::GET, Method::HEAD, Method::POST] {
                let refused = Asked::of(&method, &path.parse().unwrap()).unwrap_err();
                assert_eq!(refused.status.as_u16(), status, "{path}");
            }
        }
        for (len, is_taken) in [(4096, true), (4097, false)] {
            let path = format!("/o/n/resolve/main/{}", "a".repeat(len - 18));
            let taken = Asked::of(&Method::GET, &path.parse().unwrap());
            assert_eq!(taken.is_ok(), is_taken, "{len}");
        }
        // These are valid file names.
        for path in [
            "/o/n/resolve/main/a..b/...",
            "/o/n/resolve/main/%252e%252e/x",
        ] {
            assert!(matches!(asked("GET", path), Asked::File { .. }), "{path}");
        }
    }

    #[test]
    fn addresses_are_written_as_they_are_read() {
        let revision = revision(RepoKind::Dataset, "o/n", "refs/pr/1");
        let file = revision.file("a b/c?.bin");
        assert_eq!(file, "datasets/o/n/resolve/refs%2Fpr%2F1/a%20b/c%3F.bin");
        assert_eq!(
            asked("GET", &format!("/{file}")),
            Asked::File {
                path: "a b/c?.bin".into(),
                revision: revision.clone()
            }
        );
        assert_eq!(revision.api("tree"), "api/datasets/o/n/tree/refs%2Fpr%2F1");
    }
}
